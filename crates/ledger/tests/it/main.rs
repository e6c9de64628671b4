//! The books against a real PostgreSQL.
#![cfg(test)]
#![expect(clippy::arithmetic_side_effects, reason = "an overflow in a test panics, as it should")]

mod as_of;
mod immutable;
mod model;
mod parallel;
mod post_once;
mod read;

use ledger::{Account, BalancedEntry, EntryKind, MsgKey, NewEntry, Posted, Shard};
use pay_types::{Bucket, ChannelCode, Currency, MerchantId, Money, OrderNo, PayNo};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use test_kit::Db;
use time::OffsetDateTime;

/// 2025-03-14 00:00:00 UTC, the day on which the tests' facts happen.
const DAY: i64 = 1_741_910_400;

fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(DAY + seconds).unwrap()
}

fn shard(partition: i32) -> Shard {
    Shard::of_partition(partition).unwrap()
}

fn cny(minor: i64) -> Money {
    Money::try_new(minor, Currency::from_code("CNY").unwrap()).unwrap()
}

fn key(text: &str) -> MsgKey {
    text.parse().unwrap()
}

fn clearing(account: &str, amount: Money) -> Account {
    Account::clearing(ChannelCode::Generic, &account.parse().unwrap(), amount.currency())
}

fn payable(merchant: &str, amount: Money) -> Account {
    Account::payable(&merchant.parse().unwrap(), amount.currency())
}

/// Payment number `number` of a merchant's order `O{number}`, booked as paid.
fn paid(merchant: &str, number: u32, amount: Money) -> NewEntry {
    paid_by("main", merchant, number, amount)
}

fn paid_by(account: &str, merchant: &str, number: u32, amount: Money) -> NewEntry {
    let body = BalancedEntry::transfer(clearing(account, amount), payable(merchant, amount), amount).unwrap();
    entry(merchant, number, body)
}

fn entry(merchant: &str, number: u32, body: BalancedEntry) -> NewEntry {
    let merchant_id: MerchantId = merchant.parse().unwrap();
    let order_no: OrderNo = format!("O{number}").parse().unwrap();
    let mut entropy = [0; 10];
    entropy[..4].copy_from_slice(&number.to_be_bytes());
    let pay_no = PayNo::new(0, entropy, Bucket::of(&merchant_id, &order_no));
    NewEntry {
        msg_key: key(&format!("PAY_SUCCEEDED:{merchant}:{pay_no}")),
        kind: EntryKind::PaySucceeded,
        merchant_id,
        order_no,
        pay_no,
        refund_no: None,
        occurred_at: at(i64::from(number)),
        body,
    }
}

/// A pool with a service's rights.
fn pool_as(db: &Db, role: &str) -> PgPool {
    let options: PgConnectOptions = db.url_as(role).expose().parse().unwrap();
    let options = options.options([("plan_cache_mode", "force_custom_plan")]);
    PgPoolOptions::new().max_connections(8).connect_lazy_with(options)
}

/// Books a batch in a transaction of its own, with the consumer's rights.
async fn post(pool: &PgPool, partition: i32, entries: &[NewEntry]) -> Vec<Posted> {
    let mut tx = pool.begin().await.unwrap();
    let posted = ledger::post_in_tx(&mut tx, shard(partition), entries).await.unwrap();
    tx.commit().await.unwrap();
    posted
}

/// Every balance by code and shard.
async fn balances(db: &Db) -> Vec<(String, i16, i64, i64)> {
    sqlx::query_as("SELECT account_code, shard, debit, credit FROM account_balance ORDER BY 1, 2")
        .fetch_all(db.pool())
        .await
        .unwrap()
}

async fn count(db: &Db, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(db.pool()).await.unwrap()
}

/// Debits less credits over the postings, and over the running totals: both zero, and both sides alike.
async fn assert_books_agree(db: &Db) {
    let off = count(
        db,
        "SELECT count(*) FROM (
           SELECT account_code, SUM(debit) AS debit, SUM(credit) AS credit FROM account_balance GROUP BY 1
         ) b FULL JOIN (
           SELECT account_code, COALESCE(SUM(amount) FILTER (WHERE side = 'D'), 0) AS debit,
                  COALESCE(SUM(amount) FILTER (WHERE side = 'C'), 0) AS credit
           FROM posting GROUP BY 1
         ) p USING (account_code)
         WHERE b.debit IS DISTINCT FROM p.debit OR b.credit IS DISTINCT FROM p.credit",
    )
    .await;
    assert_eq!(off, 0, "running totals must be the sums of the postings");
    let unbalanced = count(
        db,
        "SELECT count(*) FROM (
           SELECT 1 FROM posting GROUP BY entry_id, currency
           HAVING SUM(CASE side WHEN 'D' THEN amount ELSE -amount END) <> 0
         ) u",
    )
    .await;
    assert_eq!(unbalanced, 0, "every entry must balance");
}
