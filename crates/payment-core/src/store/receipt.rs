//! Table `unexpected_receipt`: genuine money that no payment wanted, one row for one transaction of a channel.

use sqlx::PgConnection;
use time::OffsetDateTime;

/// One receipt.
#[derive(Debug, Clone)]
pub(crate) struct NewReceipt {
    pub(crate) bucket: i16,
    pub(crate) channel: &'static str,
    pub(crate) channel_account: String,
    pub(crate) channel_txn_id: String,
    pub(crate) pay_no: String,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) reason: &'static str,
    /// The refund that is written with it; `None` leaves it open for a person.
    pub(crate) refund_no: Option<String>,
}

/// Writes one receipt; false when the transaction has one already.
pub(crate) async fn insert_in_tx(
    tx: &mut PgConnection,
    receipt: &NewReceipt,
    now: OffsetDateTime,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "INSERT INTO unexpected_receipt (bucket, channel, channel_account, channel_txn_id, pay_no, amount, currency,
                                         reason, created_at, refund_no, state)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT DO NOTHING",
        receipt.bucket,
        receipt.channel,
        receipt.channel_account,
        receipt.channel_txn_id,
        receipt.pay_no,
        receipt.amount,
        receipt.currency,
        receipt.reason,
        now,
        receipt.refund_no,
        if receipt.refund_no.is_some() { "REFUNDING" } else { "OPEN" }
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Withdraws receipts that were booked for a wrong amount, now that the channel has told the right one for the same
/// transaction; gives what was withdrawn.
pub(crate) async fn withdraw_in_tx(
    tx: &mut PgConnection,
    buckets: &[i16],
    channels: &[String],
    transactions: &[String],
) -> Result<Vec<Withdrawn>, sqlx::Error> {
    if buckets.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_as!(
        Withdrawn,
        "UPDATE unexpected_receipt r SET state = 'WITHDRAWN'
         FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[]) AS w (bucket, channel, channel_txn_id)
         WHERE r.bucket = w.bucket AND r.channel = w.channel AND r.channel_txn_id = w.channel_txn_id
           AND r.reason IN ('AMOUNT_MISMATCH', 'CURRENCY_MISMATCH') AND r.state = 'OPEN'
         RETURNING r.pay_no, r.channel_txn_id, r.amount, r.currency",
        buckets,
        channels,
        transactions
    )
    .fetch_all(tx)
    .await
}

/// Ends the sending back of a receipt: `REFUNDED`, or `OPEN` again when its refund failed.
pub(crate) async fn end_refund_in_tx(
    tx: &mut PgConnection,
    place: (i16, &str, &str),
    refund_no: &str,
    state: &str,
) -> Result<(), sqlx::Error> {
    let (bucket, channel, channel_txn_id) = place;
    let done = sqlx::query!(
        "UPDATE unexpected_receipt SET state = $5
         WHERE bucket = $1 AND channel = $2 AND channel_txn_id = $3 AND refund_no = $4 AND state = 'REFUNDING'",
        bucket,
        channel,
        channel_txn_id,
        refund_no,
        state
    )
    .execute(tx)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
}

/// A receipt that was withdrawn.
#[derive(Debug)]
pub(crate) struct Withdrawn {
    pub(crate) pay_no: String,
    pub(crate) channel_txn_id: String,
    pub(crate) amount: i64,
    pub(crate) currency: String,
}

/// A receipt whose money had gone back and has come home is in suspense again, for a person.
pub(crate) async fn reopen_in_tx(
    tx: &mut PgConnection,
    place: (i16, &str, &str),
    refund_no: &str,
) -> Result<(), sqlx::Error> {
    let (bucket, channel, channel_txn_id) = place;
    let done = sqlx::query!(
        "UPDATE unexpected_receipt SET state = 'OPEN'
         WHERE bucket = $1 AND channel = $2 AND channel_txn_id = $3 AND refund_no = $4 AND state = 'REFUNDED'",
        bucket,
        channel,
        channel_txn_id,
        refund_no
    )
    .execute(tx)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
}
