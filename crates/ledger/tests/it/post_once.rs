//! Gate 8, second guard: one fact is booked once, by `uk_entry_msg_key`, with no other guard before it.

use ledger::Posted;
use test_kit::Db;

use crate::{assert_books_agree, balances, cny, count, paid, pool_as, post};

fn firsts(posted: &[Posted]) -> usize {
    posted.iter().filter(|posted| matches!(posted, Posted::First(_))).count()
}

/// A batch is delivered again, whole and in part. Fails when balances are moved for entries that were not inserted
/// (`post.rs`, the filter on `Posted::First`), and when `ON CONFLICT DO NOTHING` or `uk_entry_msg_key` goes.
#[tokio::test]
async fn a_batch_posted_twice_posts_once() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    let batch: Vec<_> = (0..20).map(|n| paid("M1", n, cny(100 + i64::from(n)))).collect();
    assert_eq!(firsts(&post(&pool, 3, &batch[..10]).await), 10);
    let before = balances(&db).await;
    assert_eq!(firsts(&post(&pool, 3, &batch[..10]).await), 0);
    assert_eq!(balances(&db).await, before);
    // Half known, half new; on another shard, as after a repartition.
    let posted = post(&pool, 4, &batch).await;
    assert!(posted[..10].iter().all(|posted| *posted == Posted::Replayed));
    assert_eq!(firsts(&posted[10..]), 10);
    assert_eq!(count(&db, "SELECT count(*) FROM entry").await, 20);
    assert_eq!(count(&db, "SELECT count(*) FROM posting").await, 40);
    assert_books_agree(&db).await;
}

/// One batch with a fact twice. Fails when the second one's postings are sent too (`Columns::of`).
#[tokio::test]
async fn a_fact_twice_in_one_batch_is_booked_once() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    let batch = [paid("M1", 1, cny(100)), paid("M1", 2, cny(7)), paid("M1", 1, cny(100))];
    let posted = post(&pool, 0, &batch).await;
    assert!(matches!(posted[..], [Posted::First(_), Posted::First(_), Posted::Replayed]));
    assert_eq!(
        balances(&db).await,
        [("clearing:generic:main:CNY".to_owned(), 0, 107, 0), ("payable:M1:CNY".to_owned(), 0, 0, 107)]
    );
    assert_books_agree(&db).await;
}

/// Nothing of a batch stays when its transaction does not commit.
#[tokio::test]
async fn a_batch_that_is_rolled_back_leaves_nothing() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    let mut tx = pool.begin().await.unwrap();
    let posted = ledger::post_in_tx(&mut tx, crate::shard(0), &[paid("M1", 1, cny(1))]).await.unwrap();
    assert_eq!(firsts(&posted), 1);
    tx.rollback().await.unwrap();
    for table in
        ["SELECT count(*) FROM account", "SELECT count(*) FROM entry", "SELECT count(*) FROM account_balance"]
    {
        assert_eq!(count(&db, table).await, 0, "{table}");
    }
}

/// A total that would wrap is refused, and the batch with it. Fails when totals are kept in a type that wraps.
#[tokio::test]
async fn a_total_beyond_64_bits_is_refused() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    post(&pool, 0, &[paid("M1", 1, cny(1))]).await;
    sqlx::query("UPDATE account_balance SET debit = 9223372036854775000").execute(db.pool()).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let error = ledger::post_in_tx(&mut tx, crate::shard(0), &[paid("M1", 2, cny(1000))]).await.unwrap_err();
    tx.rollback().await.unwrap();
    let ledger::Error::Store(error) = error else { panic!("{error:?}") };
    assert_eq!(error.as_database_error().unwrap().code().unwrap(), "22003");
    assert_eq!(count(&db, "SELECT count(*) FROM entry").await, 1);
}

/// Later writers need no more round trips for accounts that exist, and make none twice.
#[tokio::test]
async fn accounts_are_made_once_as_the_chart_says() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    for n in 0..3 {
        post(&pool, 0, &[paid("M1", n, cny(1))]).await;
    }
    let accounts: Vec<(String, String, String, String)> =
        sqlx::query_as("SELECT code, type, currency, normal_side FROM account ORDER BY 1")
            .fetch_all(db.pool())
            .await
            .unwrap();
    let line = |code: &str, kind: &str, side: &str| {
        (code.to_owned(), kind.to_owned(), "CNY".to_owned(), side.to_owned())
    };
    assert_eq!(
        accounts,
        [line("clearing:generic:main:CNY", "ASSET", "D"), line("payable:M1:CNY", "LIABILITY", "C")]
    );
}
