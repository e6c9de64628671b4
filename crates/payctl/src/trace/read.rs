//! What a trace reads.

use sqlx::PgPool;
use time::OffsetDateTime;

/// Payments that one word may find; an order has few attempts.
const FOUND_MAX: i64 = 20;
/// Refunds of one payment that are shown, oldest first: a payment that went back in a hundred parts fits.
const REFUNDS_MAX: i64 = 200;

#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Payment {
    pub(crate) pay_no: String,
    pub(crate) merchant_id: String,
    pub(crate) order_no: String,
    pub(crate) attempt_no: i16,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) channel: String,
    pub(crate) channel_account: String,
    pub(crate) state: String,
    pub(crate) version: i64,
    pub(crate) refund_reserved: i64,
    pub(crate) refunded: i64,
    pub(crate) channel_txn_id: Option<String>,
    pub(crate) last_error: Option<String>,
    pub(crate) traceparent: Option<String>,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) dispatched_at: Option<OffsetDateTime>,
    pub(crate) paid_at: Option<OffsetDateTime>,
    pub(crate) expire_at: OffsetDateTime,
}

pub(crate) async fn find(
    pool: &PgPool,
    what: &str,
    merchant: Option<&str>,
) -> Result<Vec<Payment>, sqlx::Error> {
    sqlx::query_as(
        "SELECT pay_no, merchant_id, order_no, attempt_no, amount, currency, channel, channel_account, state, version,
                refund_reserved, refunded, channel_txn_id, last_error, traceparent, created_at, dispatched_at, paid_at, expire_at
         FROM payment
         WHERE (pay_no = $1 OR order_no = $1
                OR pay_no IN (SELECT result_no FROM idempotent_log WHERE biz_key LIKE 'PAY:CREATE:%:' || $1)
                OR pay_no IN (SELECT pay_no FROM refund
                              WHERE refund_no = $1
                                 OR refund_no IN (SELECT result_no FROM idempotent_log
                                                  WHERE biz_key LIKE 'REFUND:CREATE:%:' || $1)))
           AND ($2::TEXT IS NULL OR merchant_id = $2)
         ORDER BY created_at LIMIT $3",
    )
    .bind(what)
    .bind(merchant)
    .bind(FOUND_MAX)
    .fetch_all(pool)
    .await
}

#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Key {
    pub(crate) biz_key: String,
    pub(crate) result_no: String,
    pub(crate) created_at: OffsetDateTime,
}

/// Keys that lead to the payment or to one of its refunds.
pub(crate) async fn keys(pool: &PgPool, numbers: &[&str]) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as(
        "SELECT biz_key, result_no, created_at FROM idempotent_log WHERE result_no = ANY($1) ORDER BY created_at",
    )
    .bind(numbers)
    .fetch_all(pool)
    .await
}

#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Refund {
    pub(crate) refund_no: String,
    pub(crate) kind: String,
    pub(crate) refund_request_no: Option<String>,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) reason: String,
    pub(crate) channel_txn_id: String,
    pub(crate) channel_refund_no: Option<String>,
    pub(crate) state: String,
    pub(crate) version: i64,
    pub(crate) approval: String,
    pub(crate) requested_by: Option<String>,
    pub(crate) decided_by: Option<String>,
    pub(crate) decision_note: Option<String>,
    pub(crate) returned_at: Option<OffsetDateTime>,
    pub(crate) last_error: Option<String>,
    pub(crate) tries: i32,
    pub(crate) created_at: OffsetDateTime,
}

/// Refunds of the payment's money, and of receipts under its number.
pub(crate) async fn refunds(pool: &PgPool, pay_no: &str) -> Result<Vec<Refund>, sqlx::Error> {
    sqlx::query_as(
        "SELECT refund_no, kind, refund_request_no, amount, currency, reason, channel_txn_id, channel_refund_no, state,
                version, approval, requested_by, decided_by, decision_note, returned_at, last_error, tries, created_at
         FROM refund WHERE pay_no = $1 ORDER BY created_at, refund_no LIMIT $2",
    )
    .bind(pay_no)
    .bind(REFUNDS_MAX)
    .fetch_all(pool)
    .await
}

pub(crate) async fn siblings(
    pool: &PgPool,
    payment: &Payment,
) -> Result<Vec<(String, i16, String)>, sqlx::Error> {
    sqlx::query_as(
        "SELECT pay_no, attempt_no, state FROM payment
         WHERE merchant_id = $1 AND order_no = $2 AND pay_no <> $3 ORDER BY attempt_no",
    )
    .bind(&payment.merchant_id)
    .bind(&payment.order_no)
    .bind(&payment.pay_no)
    .fetch_all(pool)
    .await
}

#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Word {
    pub(crate) received_at: OffsetDateTime,
    pub(crate) source: String,
    pub(crate) action: String,
    pub(crate) outcome: String,
    pub(crate) amount: Option<i64>,
    pub(crate) channel_txn_id: String,
}

pub(crate) async fn words(pool: &PgPool, pay_no: &str) -> Result<Vec<Word>, sqlx::Error> {
    sqlx::query_as(
        "SELECT received_at, source, action, outcome, amount, channel_txn_id FROM callback_log
         WHERE pay_no = $1 ORDER BY received_at",
    )
    .bind(pay_no)
    .fetch_all(pool)
    .await
}

#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Event {
    /// The refund that it is about.
    pub(crate) refund_no: Option<String>,
    pub(crate) event_id: i64,
    pub(crate) kind: String,
    pub(crate) from_state: Option<String>,
    pub(crate) to_state: Option<String>,
    pub(crate) cause: String,
    pub(crate) created_at: OffsetDateTime,
    /// `waiting`, `parked` or `sent`.
    pub(crate) place: String,
}

pub(crate) async fn events(pool: &PgPool, pay_no: &str) -> Result<Vec<Event>, sqlx::Error> {
    sqlx::query_as(
        "SELECT CASE WHEN e.type LIKE 'REFUND%' THEN SUBSTR(e.msg_key, STRPOS(e.msg_key, ':') + 1) END AS refund_no,
                e.event_id, e.type AS kind, e.from_state, e.to_state, e.cause, e.created_at,
                CASE WHEN k.event_id IS NOT NULL THEN 'parked' WHEN o.event_id IS NOT NULL THEN 'waiting' ELSE 'sent' END AS place
         FROM payment_event e
         LEFT JOIN outbox o ON o.bucket = e.bucket AND o.event_id = e.event_id
         LEFT JOIN outbox_parked k ON k.bucket = e.bucket AND k.event_id = e.event_id
         WHERE e.aggregate_id = $1 ORDER BY e.event_id",
    )
    .bind(pay_no)
    .fetch_all(pool)
    .await
}

#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Entry {
    pub(crate) refund_no: Option<String>,
    pub(crate) entry_id: i64,
    pub(crate) kind: String,
    pub(crate) posted_at: OffsetDateTime,
    pub(crate) lines: String,
}

pub(crate) async fn entries(pool: &PgPool, pay_no: &str) -> Result<Vec<Entry>, sqlx::Error> {
    sqlx::query_as(
        "SELECT e.refund_no, e.entry_id, e.kind, e.posted_at,
                STRING_AGG(p.side || ' ' || p.account_code || ' ' || p.amount, '   ' ORDER BY p.line_no) AS lines
         FROM entry e JOIN posting p ON p.entry_id = e.entry_id
         WHERE e.pay_no = $1 GROUP BY e.entry_id ORDER BY e.entry_id",
    )
    .bind(pay_no)
    .fetch_all(pool)
    .await
}

/// What a person must see: open anomalies of the payment and its refunds, receipts that nobody wanted.
pub(crate) async fn open(
    pool: &PgPool,
    pay_no: &str,
    numbers: &[&str],
) -> Result<Vec<(String, String, String)>, sqlx::Error> {
    sqlx::query_as(
        "SELECT kind, subject, detail::TEXT FROM anomaly WHERE subject = ANY($2) AND state = 'OPEN'
         UNION ALL
         SELECT 'RECEIPT ' || reason, channel_txn_id, amount || ' ' || currency || ' ' || state
         FROM unexpected_receipt WHERE pay_no = $1",
    )
    .bind(pay_no)
    .bind(numbers)
    .fetch_all(pool)
    .await
}
