//! Batches of creations against a sequential model, and their races, on a real PostgreSQL.

use contract::reason::Reason;
use pay_types::{AttemptNo, Bucket, ChannelCode, Currency, Money, PayNo};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use service_kit::Clock;
use service_kit::switch::Switches;
use sqlx::PgPool;
use test_kit::{Db, seed};

use crate::payment::NewPayment;
use crate::payment::create::{Answer, Create, Outcome, create};
use crate::store;

/// A command with the given key, order, attempt and amount; `ordinal` makes its number.
pub(super) fn command(key: u8, order: u8, attempt: u8, amount: i64, ordinal: u8) -> Create {
    let now = Clock::system().now();
    let (merchant_id, order_no) = ("M1".parse().unwrap(), format!("O{order}").parse().unwrap());
    let amount = Money::try_new(amount, Currency::from_code("CNY").unwrap()).unwrap();
    let attempt_no = AttemptNo::try_new(attempt.into()).unwrap();
    let subject = "tea".parse().unwrap();
    let fingerprint = pay_types::Fingerprint::of_payment(&pay_types::PaymentTerms {
        order_no: &order_no,
        attempt_no,
        amount,
        channel: ChannelCode::Generic,
        channel_account: None,
        subject: &subject,
        expire_at: None,
        metadata: &[],
    });
    Create {
        biz_key: format!("PAY:CREATE:M1:k{key}"),
        fingerprint,
        payment: NewPayment {
            pay_no: PayNo::new(1, [ordinal; 10], Bucket::of(&merchant_id, &order_no)),
            merchant_id,
            order_no,
            attempt_no,
            amount,
            channel: ChannelCode::Generic,
            channel_account: "main".parse().unwrap(),
            subject,
            expire_at: now + time::Duration::hours(1),
            next_query_at: now,
            metadata: serde_json::json!({}),
            traceparent: None,
            created_at: now,
        },
        too_late: false,
    }
}

/// An answer without times: what must be equal in both runs.
fn told(answer: &Answer) -> (String, String) {
    match answer {
        Ok(Outcome::Created(payment)) => ("CREATED".to_owned(), payment.pay_no.to_string()),
        Ok(Outcome::Replayed(payment, _)) => ("REPLAYED".to_owned(), payment.pay_no.to_string()),
        Ok(Outcome::Joined(payment)) => ("JOINED".to_owned(), payment.pay_no.to_string()),
        Err(refusal) => (refusal.reason().as_str().to_owned(), refusal.message().to_owned()),
    }
}

pub(super) async fn rows(pool: &PgPool) -> Vec<String> {
    let query = "SELECT pay_no || ':' || order_no || ':' || attempt_no || ':' || amount FROM payment
                 UNION ALL SELECT biz_key || '=' || result_no FROM idempotent_log
                 UNION ALL SELECT msg_key FROM payment_event
                 UNION ALL SELECT 'queued' FROM outbox
                 ORDER BY 1";
    sqlx::query_scalar(query).fetch_all(pool).await.unwrap()
}

/// A batch with conflicts inside behaves exactly as its commands one by one. Fails when commands that meet in a key or an
/// order share a transaction.
#[tokio::test]
async fn a_batch_of_creations_behaves_as_its_commands_one_by_one() {
    let mut rng = StdRng::seed_from_u64(seed());
    for round in 0..6 {
        let commands: Vec<Create> = (0..24)
            .map(|ordinal| {
                let (key, order) = (rng.random_range(0..10), rng.random_range(0..6));
                command(key, order, rng.random_range(1..=2), rng.random_range(1..=2), ordinal)
            })
            .collect();
        let (batched, single) = tokio::join!(Db::payment(), Db::payment());
        let together = create(batched.pool(), &commands, Switches::all_on(), false).await.unwrap();
        let mut apart = Vec::new();
        for command in &commands {
            apart.extend(
                create(single.pool(), std::slice::from_ref(command), Switches::all_on(), false)
                    .await
                    .unwrap(),
            );
        }
        let told_of = |answers: &[Answer]| answers.iter().map(told).collect::<Vec<_>>();
        assert_eq!(told_of(&together), told_of(&apart), "round {round}");
        assert_eq!(rows(batched.pool()).await, rows(single.pool()).await, "round {round}");
    }
}

/// Batches that share orders, written at the same time in opposite order: one payment each, and every other call joins it.
/// Fails without `uk_order_attempt` and `uk_order_live` together; either alone holds. Deadlocks would be run again: the order
/// in which rows are taken is looked at by the next test.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_batches_over_the_same_orders_make_one_payment_each() {
    let db = Db::payment().await;
    for round in 0..10_u8 {
        let batch = |device: u8, reverse: bool| {
            let mut commands: Vec<Create> = (0..8_u8)
                .map(|n| {
                    let (key, order) = (round * 16 + device * 8 + n, round * 8 + n);
                    command(key, order, 1, 5, key)
                })
                .collect();
            if reverse {
                commands.reverse();
            }
            let pool = db.pool().clone();
            service_kit::task::spawn("batch", async move {
                create(&pool, &commands, Switches::all_on(), false).await.unwrap()
            })
        };
        let (a, b) = (batch(0, false), batch(1, true));
        let answers: Vec<Answer> =
            a.await.unwrap().unwrap().into_iter().chain(b.await.unwrap().unwrap()).collect();
        let created = answers.iter().filter(|a| matches!(a, Ok(Outcome::Created(_)))).count();
        let joined = answers.iter().filter(|a| matches!(a, Ok(Outcome::Joined(_)))).count();
        assert_eq!((created, joined), (8, 8), "round {round}");
    }
}

/// The same without the runner that tries again: rows are taken in one order, so nobody waits in a ring. Fails (40P01) without
/// the sort in `insert_in_tx`.
#[tokio::test(flavor = "multi_thread")]
async fn batches_over_the_same_orders_never_deadlock() {
    let db = Db::payment().await;
    for round in 0..20_u8 {
        let batch = |device: u8, reverse: bool| {
            let mut commands: Vec<Create> =
                (0..100_u8).map(|n| command(n, n, round + 1, 5, device * 100 + n)).collect();
            if reverse {
                commands.reverse();
            }
            let pool = db.pool().clone();
            service_kit::task::spawn("batch", async move {
                let payments: Vec<&NewPayment> = commands.iter().map(|command| &command.payment).collect();
                let mut tx = pool.begin().await.unwrap();
                store::payment::insert_in_tx(&mut tx, &payments).await.unwrap().len()
            })
        };
        let (a, b) = (batch(0, false), batch(1, true));
        // Both are rolled back, so either may have been first.
        let written = [a.await.unwrap(), b.await.unwrap()];
        assert_eq!(written, [Some(100), Some(100)], "round {round}");
    }
}

/// An attempt that has ended is there for ever: another key joins it on its terms, and is refused on others. Fails without
/// `uk_order_attempt`; `uk_order_live` sees live payments only.
#[tokio::test]
async fn an_attempt_that_has_ended_is_not_begun_again() {
    let db = Db::payment().await;
    let first = create(db.pool(), &[command(1, 1, 1, 5, 1)], Switches::all_on(), false).await.unwrap();
    sqlx::query("UPDATE payment SET state = 'CLOSED', version = version + 1")
        .execute(db.pool())
        .await
        .unwrap();
    let batch = [command(2, 1, 1, 5, 2), command(3, 1, 1, 6, 3)];
    let again = create(db.pool(), &batch, Switches::all_on(), false).await.unwrap();
    let [Ok(Outcome::Joined(joined)), Err(refusal)] = again.as_slice() else { panic!("{again:?}") };
    assert_eq!(Some(joined.pay_no.to_string()), first.first().map(|answer| told(answer).1));
    assert_eq!(refusal.reason(), Reason::OrderAttemptTaken);
}

/// The commit's answer is lost: the same inputs run again find their own rows, and say *created*. Fails when the second
/// run calls its own payment a replay, and so never dispatches it.
#[tokio::test]
async fn a_run_whose_commit_was_not_heard_of_is_still_the_first() {
    let db = Db::payment().await;
    let commands = [command(1, 1, 1, 5, 1)];
    for _ in 0..2 {
        let answers = create(db.pool(), &commands, Switches::all_on(), false).await.unwrap();
        assert!(matches!(answers.as_slice(), [Ok(Outcome::Created(_))]), "{answers:?}");
    }
    assert_eq!(rows(db.pool()).await.len(), 4);
}

/// A refused command leaves its neighbours and its own key alone. Fails when its key is not forgotten.
#[tokio::test]
async fn a_refused_command_never_spoils_its_neighbours() {
    let db = Db::payment().await;
    create(db.pool(), &[command(1, 1, 1, 5, 1)], Switches::all_on(), false).await.unwrap();
    let batch = [command(2, 2, 1, 5, 2), command(3, 1, 2, 5, 3), command(4, 3, 1, 5, 4)];
    let answers = create(db.pool(), &batch, Switches::all_on(), false).await.unwrap();
    let reasons: Vec<Option<Reason>> = answers.iter().map(|a| a.as_ref().err().map(|r| r.reason())).collect();
    assert_eq!(reasons, [None, Some(Reason::OrderHasLivePayment), None]);
    let free = create(db.pool(), &[command(3, 4, 1, 5, 5)], Switches::all_on(), false).await.unwrap();
    assert!(matches!(free.as_slice(), [Ok(Outcome::Created(_))]), "the key of the refused command is free");
}

/// What a duplicate costs the database against a fresh request, in turns on the wire; a fresh one goes on to store its
/// credential and read its row, which is not counted here. Fails when a known key opens a transaction.
#[tokio::test]
async fn a_duplicate_takes_less_than_half_of_the_turns() {
    let db = Db::payment().await;
    let url = db.url_as("payment_core");
    let (before, after) = url.expose().rsplit_once('@').unwrap();
    let (server, database) = after.split_once('/').unwrap();
    let proxy = test_kit::Proxy::start(server).await;
    let url = service_kit::config::Secret::new(format!("{before}@{}/{database}", proxy.addr()));
    // One connection, so that none is opened while it is counted.
    let settings = service_kit::pg::PoolSettings { connections_max: 1, ..Default::default() };
    let pool = service_kit::pg::pool(&url, &settings, "cost").unwrap();
    let cost = async |key: u8| {
        let before = proxy.requests();
        let mine = command(key, key, 1, 5, key);
        let again = Create { payment: NewPayment { pay_no: number(&mine), ..mine.payment.clone() }, ..mine };
        create(&pool, &[again], Switches::all_on(), false).await.unwrap();
        proxy.requests() - before
    };
    // The first run of each kind prepares its statements.
    cost(1).await;
    cost(1).await;
    let (fresh, duplicate) = (cost(2).await, cost(2).await);
    println!("turns of a fresh request {fresh}, of a duplicate {duplicate}");
    assert!(duplicate * 2 < fresh, "fresh {fresh}, duplicate {duplicate}");
}

/// A number that no other call has.
fn number(command: &Create) -> PayNo {
    PayNo::new(2, rand::random(), command.payment.pay_no.bucket())
}
