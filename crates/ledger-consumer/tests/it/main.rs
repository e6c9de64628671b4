//! The consumer against a real PostgreSQL and a real Kafka.
#![cfg(test)]
#![expect(clippy::arithmetic_side_effects, reason = "an overflow in a test panics, as it should")]

mod consume;
mod faults;
mod gate;
mod kill;
mod model;
mod park;
mod trace;

use broker::{Message, Producer, ProducerSettings, Record};
use contract::event::{PaymentEvent, header};
use ledger_consumer::apply::Applier;
use pay_types::{Bucket, MerchantId, OrderNo, PayNo};
use service_kit::switch::Switches;
use sqlx::postgres::{PgPool, PgPoolOptions};
use test_kit::{Db, Topic};

/// Payment `number` of a merchant was paid, into our account `main`.
fn paid(merchant: &str, number: u32, amount: i64) -> PaymentEvent {
    let pay_no = pay_no(merchant, number);
    PaymentEvent {
        msg_key: format!("PAY_SUCCEEDED:{pay_no}"),
        r#type: "PAY_SUCCEEDED".into(),
        pay_no: pay_no.to_string(),
        merchant_id: merchant.into(),
        order_no: format!("O{number}"),
        attempt_no: 1,
        amount,
        currency: "CNY".into(),
        channel: "generic".into(),
        channel_account: "main".into(),
        channel_txn_id: format!("T-{merchant}-{number}"),
        occurred_at: "2025-03-14T02:30:00Z".into(),
        created_at: "2025-03-14T02:30:01Z".into(),
        version: 2,
        ..Default::default()
    }
}

/// Another kind of fact about the same payment.
fn fact(kind: &str, merchant: &str, number: u32, amount: i64) -> PaymentEvent {
    let event = paid(merchant, number, amount);
    PaymentEvent { msg_key: format!("{kind}:{}", event.pay_no), r#type: kind.into(), ..event }
}

/// A step of a refund of such a payment, or of a receipt under its number.
fn refund(step: &str, kind: &str, merchant: &str, number: u32, amount: i64) -> PaymentEvent {
    let event = fact(step, merchant, number, amount);
    let refund_no = event.pay_no.replacen('P', "R", 1);
    PaymentEvent {
        msg_key: format!("{step}:{refund_no}"),
        refund_no,
        refund_kind: kind.into(),
        channel_txn_id: format!("T-{merchant}-{number}"),
        ..event
    }
}

fn pay_no(merchant: &str, number: u32) -> PayNo {
    let merchant_id: MerchantId = merchant.parse().unwrap();
    let order_no: OrderNo = format!("O{number}").parse().unwrap();
    let mut entropy = [0; 10];
    entropy[..4].copy_from_slice(&number.to_be_bytes());
    entropy[4..8].copy_from_slice(&u32::try_from(merchant.len()).unwrap().to_be_bytes());
    PayNo::new(0, entropy, Bucket::of(&merchant_id, &order_no))
}

fn headers(event: &PaymentEvent) -> Vec<(String, Vec<u8>)> {
    [
        (header::ID, event.msg_key.as_str()),
        (header::TYPE, &event.r#type),
        (header::SUBJECT, &event.pay_no),
        (header::SPEC_VERSION, "1.0"),
    ]
    .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
    .to_vec()
}

/// A message as it would be read from partition 0 of a topic `t`.
fn message(offset: i64, event: &PaymentEvent) -> Message {
    Message {
        topic: "t".into(),
        partition: 0,
        offset,
        key: Some(key(event).into_bytes()),
        value: Some(serde_json::to_vec(event).unwrap()),
        headers: headers(event),
        timestamp_ms: None,
    }
}

fn key(event: &PaymentEvent) -> String {
    format!("{}:{}", event.merchant_id, event.order_no)
}

fn messages(events: &[PaymentEvent]) -> Vec<Message> {
    (0..).zip(events).map(|(offset, event)| message(offset, event)).collect()
}

fn pool(db: &Db) -> PgPool {
    PgPoolOptions::new().max_connections(8).connect_lazy(db.url_as("ledger_consumer").expose()).unwrap()
}

fn applier(db: &Db) -> Applier {
    Applier::new(pool(db), Switches::all_on())
}

/// Applies a batch to its end, and gives the codes of what was parked now.
async fn apply(applier: &Applier, batch: &[Message]) -> Vec<&'static str> {
    let applied = applier.apply(batch).await;
    assert!(applied.stopped.is_none(), "{:?}", applied.stopped);
    assert_eq!(applied.done, batch.len());
    applied.parked.iter().map(|(_, cause)| cause.code()).collect()
}

/// Everything that a batch may change, in one value; without numbers and times, which no batch decides.
#[derive(Debug, PartialEq, Eq)]
struct Books {
    /// Key, account, side, amount.
    postings: Vec<(String, String, String, i64)>,
    /// Account, shard, debit, credit.
    balances: Vec<(String, i16, i64, i64)>,
    marks: Vec<String>,
    /// Offset, error.
    parked: Vec<(i64, String)>,
}

async fn books(db: &Db) -> Books {
    let postings = sqlx::query_as(
        "SELECT e.msg_key, p.account_code, p.side, p.amount FROM entry e JOIN posting p USING (entry_id) ORDER BY 1, 2, 3",
    );
    let balances =
        sqlx::query_as("SELECT account_code, shard, debit, credit FROM account_balance ORDER BY 1, 2");
    let marks = sqlx::query_scalar("SELECT biz_key FROM idempotent_log ORDER BY 1");
    let parked =
        sqlx::query_as("SELECT offset_no, error FROM parked_message ORDER BY partition_no, offset_no");
    Books {
        postings: postings.fetch_all(db.pool()).await.unwrap(),
        balances: balances.fetch_all(db.pool()).await.unwrap(),
        marks: marks.fetch_all(db.pool()).await.unwrap(),
        parked: parked.fetch_all(db.pool()).await.unwrap(),
    }
}

async fn count(db: &Db, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(db.pool()).await.unwrap()
}

async fn entries(db: &Db) -> i64 {
    count(db, "SELECT count(*) FROM entry").await
}

/// Running totals are the sums of the postings, and debits equal credits.
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
    let difference = count(db, "SELECT (SUM(debit) - SUM(credit))::BIGINT FROM account_balance").await;
    assert_eq!(difference, 0);
}

fn producer(topic: &Topic) -> Producer {
    Producer::connect(&ProducerSettings::new(topic.brokers())).unwrap()
}

/// Sends events as the relay does; gives the partitions they went to.
async fn send(producer: &Producer, topic: &Topic, events: &[PaymentEvent]) -> Vec<i32> {
    let parts: Vec<_> =
        events.iter().map(|event| (key(event), serde_json::to_vec(event).unwrap(), headers(event))).collect();
    let records = parts
        .iter()
        .map(|(key, value, headers)| Record {
            topic: topic.name(),
            key: Some(key.as_bytes()),
            value: Some(value),
            headers: headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect(),
        })
        .collect();
    let delivered = producer.send_all(records).await;
    delivered.into_iter().map(|delivery| delivery.unwrap().partition).collect()
}
