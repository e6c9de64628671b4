//! A batch behaves exactly as if its entries had been booked one by one.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};

use ledger::{NewEntry, Posted};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use sqlx::PgPool;
use test_kit::Db;

use crate::{assert_books_agree, cny, paid_by, pool_as, post};

/// Cases: each needs a few milliseconds of database.
const CASES: u32 = 100;

/// What the books must hold, kept in memory, one entry at a time.
#[derive(Default)]
struct Model {
    known: HashSet<String>,
    sums: BTreeMap<(String, i16), (i64, i64)>,
}

impl Model {
    /// Whether the fact is new; its postings are added if so.
    fn post(&mut self, case: &str, entry: &NewEntry, partition: i16, minor: i64) -> bool {
        let new = self.known.insert(entry.msg_key.to_string());
        if new {
            let sums = &mut self.sums;
            sums.entry((format!("clearing:generic:{case}:CNY"), partition)).or_default().0 += minor;
            sums.entry((format!("payable:{}:CNY", entry.merchant_id), partition)).or_default().1 += minor;
        }
        new
    }

    fn balances(&self) -> Vec<(String, i16, i64, i64)> {
        let row = |((code, shard), (debit, credit)): (&(String, i16), &(i64, i64))| {
            (code.clone(), *shard, *debit, *credit)
        };
        self.sums.iter().map(row).collect()
    }
}

/// Batches: partition, then facts as (merchant, number). Small ranges, so that facts come again within and across.
type Batches = Vec<(i16, Vec<(u8, u32)>)>;

fn batches() -> impl Strategy<Value = Batches> {
    prop::collection::vec((0_i16..3, prop::collection::vec((0_u8..3, 0_u32..6), 0..12)), 1..5)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_its_entries_one_by_one() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    let (runtime, cases, writer) = (tokio::runtime::Handle::current(), AtomicU32::new(0), pool.clone());
    tokio::task::spawn_blocking(move || {
        let mut runner =
            TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
        let result = runner.run(&batches(), |batches| {
            let case = format!("case{}", cases.fetch_add(1, Ordering::SeqCst));
            runtime.block_on(check(&writer, &case, batches))
        });
        if let Err(error) = result {
            panic!("{error}");
        }
    })
    .await
    .unwrap();
    assert_books_agree(&db).await;
}

/// Runs one case with accounts of its own.
async fn check(pool: &PgPool, case: &str, batches: Batches) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    for (partition, facts) in batches {
        let minor = |number: u32| 10 + i64::from(number);
        let entries: Vec<_> = facts
            .iter()
            .map(|(merchant, number)| {
                paid_by(case, &format!("{case}-M{merchant}"), *number, cny(minor(*number)))
            })
            .collect();
        let wanted: Vec<bool> = entries
            .iter()
            .zip(&facts)
            .map(|(entry, (_, number))| model.post(case, entry, partition, minor(*number)))
            .collect();
        let posted = post(pool, i32::from(partition), &entries).await;
        let got: Vec<bool> = posted.iter().map(|posted| matches!(posted, Posted::First(_))).collect();
        prop_assert_eq!(got, wanted);
    }
    let balances: Vec<(String, i16, i64, i64)> = sqlx::query_as(
        "SELECT account_code, shard, debit, credit FROM account_balance
         WHERE account_code LIKE 'clearing:generic:' || $1 || ':%' OR account_code LIKE 'payable:' || $1 || '-%'
         ORDER BY 1, 2",
    )
    .bind(case)
    .fetch_all(pool)
    .await
    .unwrap();
    prop_assert_eq!(balances, model.balances());
    Ok(())
}
