//! Table `callback_log`: gate 7's second line, and the evidence of what channels told.

use std::collections::HashSet;

use sqlx::PgConnection;
use time::OffsetDateTime;

/// One fact that a channel told.
#[derive(Debug, Clone)]
pub(crate) struct NewCallback {
    pub(crate) bucket: i16,
    pub(crate) channel: &'static str,
    pub(crate) channel_txn_id: String,
    pub(crate) action: String,
    pub(crate) pay_no: String,
    pub(crate) amount: Option<i64>,
    pub(crate) currency: Option<String>,
    pub(crate) source: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) occurred_at: Option<OffsetDateTime>,
    pub(crate) raw: Vec<u8>,
}

impl NewCallback {
    /// What makes it one fact.
    pub(crate) fn identity(&self) -> (String, String) {
        (self.channel_txn_id.clone(), self.action.clone())
    }
}

/// Writes facts that are not there yet; gives the identities that were new.
pub(crate) async fn insert_in_tx(
    tx: &mut PgConnection,
    callbacks: &[NewCallback],
    now: OffsetDateTime,
) -> Result<HashSet<(String, String)>, sqlx::Error> {
    if callbacks.is_empty() {
        return Ok(HashSet::new());
    }
    let mut order: Vec<&NewCallback> = callbacks.iter().collect();
    order.sort_by_key(|c| (c.bucket, c.channel, c.identity()));
    let column = |text: fn(&NewCallback) -> &str| -> Vec<String> {
        order.iter().map(|c| text(c).to_owned()).collect()
    };
    let new = sqlx::query!(
        "INSERT INTO callback_log (bucket, channel, channel_txn_id, action, pay_no, amount, currency, source, outcome,
                                   occurred_at, raw, received_at)
         SELECT *, $12 FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::BIGINT[],
                                   $7::TEXT[], $8::TEXT[], $9::TEXT[], $10::TIMESTAMPTZ[], $11::BYTEA[])
         ON CONFLICT DO NOTHING
         RETURNING channel_txn_id, action",
        &order.iter().map(|c| c.bucket).collect::<Vec<_>>(),
        &column(|c| c.channel),
        &column(|c| &c.channel_txn_id),
        &column(|c| &c.action),
        &column(|c| &c.pay_no),
        &order.iter().map(|c| c.amount).collect::<Vec<_>>() as _,
        &order.iter().map(|c| c.currency.clone()).collect::<Vec<_>>() as _,
        &column(|c| c.source),
        &column(|c| c.outcome),
        &order.iter().map(|c| c.occurred_at).collect::<Vec<_>>() as _,
        &order.iter().map(|c| c.raw.clone()).collect::<Vec<_>>(),
        now
    )
    .fetch_all(tx)
    .await?;
    Ok(new.into_iter().map(|row| (row.channel_txn_id, row.action)).collect())
}
