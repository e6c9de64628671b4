//! Transactions that the database breaks off, and commits whose answer is lost on the wire: real ones, on a real PostgreSQL.

use pay_types::PaymentState;
use service_kit::Clock;
use service_kit::config::Secret;
use service_kit::pg::{self, PoolSettings};
use service_kit::switch::Switches;
use sqlx::PgPool;
use test_kit::{Db, Proxy};

use crate::payment::create::{Outcome, create};
use crate::payment::create_test::{command, rows};
use crate::payment::judge::Fact;
use crate::payment::settle::{self, settle};
use crate::payment::settle_test::{money, payment, said};

/// Lets the first `times` writes of events fail with this SQLSTATE. A sequence counts, since it survives the rollback.
async fn break_off(db: &Db, sqlstate: &str, times: u32) {
    let function = format!(
        "CREATE SEQUENCE broken_off;
         GRANT USAGE ON SEQUENCE broken_off TO PUBLIC;
         CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF nextval('broken_off') <= {times} THEN
                 RAISE EXCEPTION 'broken off' USING ERRCODE = '{sqlstate}';
             END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER tr_break_off AFTER INSERT ON payment_event FOR EACH STATEMENT EXECUTE FUNCTION break_off();"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(function)).execute(db.pool()).await.unwrap();
}

async fn state_of(pool: &PgPool) -> String {
    sqlx::query_scalar("SELECT state FROM payment").fetch_one(pool).await.unwrap()
}

/// A serialization failure and a deadlock are run again from the inputs alone, and no caller hears of them (bugs.md H6, K2).
/// Fails when `is_conflict` leaves out one of the two codes, or when `transaction::run` runs its work once.
#[tokio::test]
async fn a_transaction_that_the_database_breaks_off_is_run_again() {
    for sqlstate in ["40001", "40P01"] {
        let db = Db::payment().await;
        break_off(&db, sqlstate, 3).await;
        let answers = create(db.pool(), &[command(1, 1, 1, 5, 1)], Switches::all_on(), false).await.unwrap();
        assert!(matches!(answers.as_slice(), [Ok(Outcome::Created(_))]), "{sqlstate}: {answers:?}");
        assert_eq!(rows(db.pool()).await.len(), 4, "one key, one payment, one event, one place in the queue");
        let Ok(Outcome::Created(made)) = &answers[0] else { panic!("created") };
        sqlx::query("ALTER SEQUENCE broken_off RESTART").execute(db.pool()).await.unwrap();
        let paid = Fact::Paid { amount: money(5), channel_txn_id: "T1".parse().unwrap() };
        let settled =
            settle(db.pool(), &[said(&made.pay_no, paid)], Switches::all_on(), Clock::system().now())
                .await
                .unwrap();
        assert_eq!(settled[0].outcome, settle::Outcome::Applied, "{sqlstate}");
    }
}

/// Another error is nobody's invitation to try again: it is told, and nothing is left behind.
#[tokio::test]
async fn what_the_database_refuses_for_good_is_not_repeated() {
    let db = Db::payment().await;
    break_off(&db, "23514", 1).await;
    create(db.pool(), &[command(1, 1, 1, 5, 1)], Switches::all_on(), false).await.unwrap_err();
    assert!(rows(db.pool()).await.is_empty());
}

/// A pool of `payment_core` whose way to the database leads through a proxy.
async fn through_a_proxy(db: &Db) -> (Proxy, PgPool) {
    let url = db.url_as("payment_core");
    let (before, after) = url.expose().rsplit_once('@').unwrap();
    let (server, database) = after.split_once('/').unwrap();
    let proxy = Proxy::start(server).await;
    let url = Secret::new(format!("{before}@{}/{database}", proxy.addr()));
    let pool = pg::pool(&url, &PoolSettings::default(), "conflict_test").unwrap();
    (proxy, pool)
}

/// The connection is lost *during* COMMIT, once after the database took it and once before it arrived. Both look the same
/// from here. A new connection looks the key up before anything else: the caller hears *created*, and there is one payment.
/// Fails when `CommitUnheard` is not run again, or when the second run calls its own payment a replay (it would never be
/// dispatched).
#[tokio::test]
async fn a_connection_that_is_lost_during_commit_leaves_one_payment_and_the_true_answer() {
    for arrives in [true, false] {
        let db = Db::payment().await;
        let (proxy, pool) = through_a_proxy(&db).await;
        proxy.cut_at("COMMIT", arrives);
        let answers = create(&pool, &[command(1, 1, 1, 5, 1)], Switches::all_on(), false).await.unwrap();
        assert!(matches!(answers.as_slice(), [Ok(Outcome::Created(_))]), "arrives {arrives}: {answers:?}");
        assert_eq!(rows(db.pool()).await.len(), 4, "arrives {arrives}");
    }
}

/// The same for a channel's word: one change, one event, and *accept* for the channel.
#[tokio::test]
async fn a_word_whose_commit_was_cut_is_settled_once() {
    for arrives in [true, false] {
        let db = Db::payment().await;
        let pay_no = payment(db.pool(), 1).await;
        let (proxy, pool) = through_a_proxy(&db).await;
        proxy.cut_at("COMMIT", arrives);
        let paid = Fact::Paid { amount: money(100), channel_txn_id: "T1".parse().unwrap() };
        let now = Clock::system().now();
        let settled = settle(&pool, &[said(&pay_no, paid)], Switches::all_on(), now).await.unwrap();
        // The second run of a commit that had arrived finds the payment paid by this very transaction.
        let told = if arrives { settle::Outcome::Duplicate } else { settle::Outcome::Applied };
        assert_eq!(settled[0].outcome, told, "arrives {arrives}");
        assert_eq!(settled[0].state, Some(PaymentState::Success));
        assert_eq!(state_of(db.pool()).await, "SUCCESS");
        let facts: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM payment_event WHERE type = 'PAY_SUCCEEDED'")
                .fetch_one(db.pool())
                .await
                .unwrap();
        assert_eq!(facts, 1, "arrives {arrives}");
    }
}
