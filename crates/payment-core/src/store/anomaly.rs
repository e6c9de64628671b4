//! Table `anomaly`: what a person must see. One open row for one subject; repeats are counted.

use serde_json::Value;
use sqlx::PgConnection;
use time::OffsetDateTime;

/// One anomaly.
#[derive(Debug, Clone)]
pub(crate) struct NewAnomaly {
    pub(crate) kind: &'static str,
    pub(crate) subject: String,
    pub(crate) detail: Value,
    pub(crate) raw: Option<Vec<u8>>,
}

/// Opens an anomaly, or counts a repeat of an open one.
pub(crate) async fn open_in_tx(
    tx: &mut PgConnection,
    anomaly: &NewAnomaly,
    now: OffsetDateTime,
) -> Result<(), sqlx::Error> {
    let done = sqlx::query!(
        "INSERT INTO anomaly (kind, subject, detail, raw, opened_at, seen_at)
         VALUES ($1, $2, $3, $4, $5, $5)
         ON CONFLICT (kind, subject) WHERE state = 'OPEN'
         DO UPDATE SET seen_count = anomaly.seen_count + 1, seen_at = EXCLUDED.seen_at",
        anomaly.kind,
        anomaly.subject,
        anomaly.detail,
        anomaly.raw,
        now
    )
    .execute(tx)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
}
