//! Table `orphan_notice`: words about payments that we do not know (yet).

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

/// One orphan.
#[derive(Debug, Clone)]
pub(crate) struct Orphan {
    pub(crate) bucket: i16,
    pub(crate) channel: String,
    pub(crate) channel_account: String,
    pub(crate) channel_txn_id: String,
    pub(crate) action: String,
    pub(crate) pay_no: String,
    pub(crate) amount: Option<i64>,
    pub(crate) currency: Option<String>,
    pub(crate) source: String,
    pub(crate) occurred_at: Option<OffsetDateTime>,
    pub(crate) raw: Vec<u8>,
    pub(crate) tries: i32,
}

/// Keeps an orphan; a repeat is counted.
pub(crate) async fn keep_in_tx(
    tx: &mut PgConnection,
    orphan: &Orphan,
    next_try_at: OffsetDateTime,
) -> Result<(), sqlx::Error> {
    let done = sqlx::query!(
        "INSERT INTO orphan_notice (bucket, channel, channel_account, channel_txn_id, action, pay_no, amount, currency,
                                    source, occurred_at, raw, next_try_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT ON CONSTRAINT pk_orphan_notice DO UPDATE SET seen_count = orphan_notice.seen_count + 1",
        orphan.bucket,
        orphan.channel,
        orphan.channel_account,
        orphan.channel_txn_id,
        orphan.action,
        orphan.pay_no,
        orphan.amount,
        orphan.currency,
        orphan.source,
        orphan.occurred_at,
        orphan.raw,
        next_try_at
    )
    .execute(tx)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
}

/// Takes orphans that are due, for one job at a time; `next_try_at` is when another job may take them.
pub(crate) async fn take_due(
    pool: &PgPool,
    now: OffsetDateTime,
    next_try_at: OffsetDateTime,
    rows_max: i64,
) -> Result<Vec<Orphan>, sqlx::Error> {
    sqlx::query_as!(
        Orphan,
        "UPDATE orphan_notice o SET tries = o.tries + 1, next_try_at = $2
         FROM (SELECT bucket, channel, channel_txn_id, action, pay_no FROM orphan_notice
               WHERE state = 'WAITING' AND next_try_at <= $1
               ORDER BY next_try_at LIMIT $3 FOR UPDATE SKIP LOCKED) AS due
         WHERE o.bucket = due.bucket AND o.channel = due.channel AND o.channel_txn_id = due.channel_txn_id
           AND o.action = due.action AND o.pay_no = due.pay_no
         RETURNING o.bucket, o.channel, o.channel_account, o.channel_txn_id, o.action, o.pay_no, o.amount, o.currency,
                   o.source, o.occurred_at, o.raw, o.tries",
        now,
        next_try_at,
        rows_max
    )
    .fetch_all(pool)
    .await
}

/// Ends an orphan: `APPLIED` or `GIVEN_UP`.
pub(crate) async fn end_in_tx(
    tx: &mut PgConnection,
    orphan: &Orphan,
    state: &str,
) -> Result<(), sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE orphan_notice SET state = $6
         WHERE bucket = $1 AND channel = $2 AND channel_txn_id = $3 AND action = $4 AND pay_no = $5",
        orphan.bucket,
        orphan.channel,
        orphan.channel_txn_id,
        orphan.action,
        orphan.pay_no,
        state
    )
    .execute(tx)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
}
