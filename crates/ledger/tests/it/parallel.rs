//! Many writers and a reader at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use ledger::{BalancedEntry, NewEntry, Posted};
use test_kit::Db;

use crate::{assert_books_agree, cny, count, entry, paid, payable, pool_as, post};

/// Writers at once; as many as the pool has connections.
const WRITERS: u32 = 8;
/// Batches of each writer.
const ROUNDS: u32 = 25;

/// Money from one merchant's account to another's, in both directions and in both orders within a batch.
fn pair(writer: u32, round: u32) -> Vec<NewEntry> {
    let number = writer * ROUNDS + round;
    let transfer = |from: &str, to: &str, number: u32| {
        let amount = cny(1 + i64::from(round));
        entry(
            from,
            number,
            BalancedEntry::transfer(payable(from, amount), payable(to, amount), amount).unwrap(),
        )
    };
    let mut batch = vec![transfer("A", "B", number), transfer("B", "A", number), transfer("C", "A", number)];
    if writer % 2 == 1 {
        batch.reverse();
    }
    batch
}

/// Two transactions take the same rows in opposite orders. Fails (40P01) without the `ORDER BY` in `store/balance.rs`
/// together with the order of `balance::changes`; all writers share one shard here, to meet on the same rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opposite_orders_of_accounts_in_parallel_lose_nothing_and_do_not_deadlock() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    let writers = (0..WRITERS).map(async |writer| {
        for round in 0..ROUNDS {
            post(&pool, 0, &pair(writer, round)).await;
        }
    });
    join_all(writers).await;
    assert_eq!(count(&db, "SELECT count(*) FROM entry").await, i64::from(WRITERS * ROUNDS * 3));
    assert_books_agree(&db).await;
}

/// The same facts come to several writers at once, in opposite orders (H2: a rebalance). Each is booked once. Fails
/// (40P01) without the `ORDER BY` in `store/entry.rs`, and books twice without `uk_entry_msg_key`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_facts_to_several_writers_at_once_are_booked_once() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    for round in 0..10 {
        let facts: Vec<_> = (0..50).map(|n| paid("M1", round * 50 + n, cny(3))).collect();
        let writers = (0..WRITERS).map(async |writer| {
            let mut own = facts.clone();
            if writer % 2 == 1 {
                own.reverse();
            }
            post(&pool, i32::try_from(writer).unwrap(), &own).await
        });
        let posted = join_all(writers).await;
        let firsts = posted.iter().flatten().filter(|posted| matches!(posted, Posted::First(_))).count();
        assert_eq!(firsts, 50);
    }
    assert_eq!(count(&db, "SELECT SUM(debit)::BIGINT FROM account_balance").await, 500 * 3);
    assert_books_agree(&db).await;
}

/// A reader sees debits equal credits in every snapshot, in the totals and in the postings, while writers go on. Fails
/// when entries and balances are committed apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trial_balance_is_zero_at_every_snapshot_while_posting_goes_on() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    let reader = pool_as(&db, "ledger_service");
    let done = Arc::new(AtomicBool::new(false));
    let writers = async {
        let writers = (0..4_u32).map(async |writer| {
            for round in 0..40 {
                let batch: Vec<_> = (0..5)
                    .map(|n| paid(&format!("M{writer}"), round * 5 + n, cny(i64::from(round) + 1)))
                    .collect();
                post(&pool, i32::try_from(writer).unwrap(), &batch).await;
            }
        });
        join_all(writers).await;
        done.store(true, Ordering::SeqCst);
    };
    let reading = async {
        let mut snapshots = 0_u32;
        let mut grown = 0_u32;
        let mut last = 0_i64;
        while !done.load(Ordering::SeqCst) {
            let mut tx = reader.begin().await.unwrap();
            sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *tx).await.unwrap();
            let trial = ledger::store::report::balance::trial(&mut tx, None, 100).await.unwrap();
            let postings: i64 =
                sqlx::query_scalar("SELECT COALESCE(SUM(amount), 0)::BIGINT FROM posting WHERE side = 'D'")
                    .fetch_one(&mut *tx)
                    .await
                    .unwrap();
            tx.commit().await.unwrap();
            let total = trial.totals.first().map_or(0, |total| total.debit);
            assert!(trial.totals.iter().all(|total| total.difference == 0), "{:?}", trial.totals);
            assert_eq!(total, postings, "totals and postings of one snapshot");
            snapshots += 1;
            grown += u32::from(total > last);
            last = total;
        }
        (snapshots, grown)
    };
    let ((), (snapshots, grown)) = tokio::join!(writers, reading);
    assert!(grown > 1, "the reader must have looked while posting went on: {grown} of {snapshots}");
    assert_books_agree(&db).await;
}
