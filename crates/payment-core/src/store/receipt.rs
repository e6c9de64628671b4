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
}

/// Writes one receipt; false when the transaction has one already.
pub(crate) async fn insert_in_tx(
    tx: &mut PgConnection,
    receipt: &NewReceipt,
    now: OffsetDateTime,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "INSERT INTO unexpected_receipt (bucket, channel, channel_account, channel_txn_id, pay_no, amount, currency,
                                         reason, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT DO NOTHING",
        receipt.bucket,
        receipt.channel,
        receipt.channel_account,
        receipt.channel_txn_id,
        receipt.pay_no,
        receipt.amount,
        receipt.currency,
        receipt.reason,
        now
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
           AND r.reason = 'AMOUNT_MISMATCH' AND r.state = 'OPEN'
         RETURNING r.pay_no, r.channel_txn_id, r.amount, r.currency",
        buckets,
        channels,
        transactions
    )
    .fetch_all(tx)
    .await
}

/// A receipt that was withdrawn.
#[derive(Debug)]
pub(crate) struct Withdrawn {
    pub(crate) pay_no: String,
    pub(crate) channel_txn_id: String,
    pub(crate) amount: i64,
    pub(crate) currency: String,
}
