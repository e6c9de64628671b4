//! Keeping what was refused at the edge: evidence is committed even when the request is refused.

use pay_types::{ChannelAccount, ChannelCode};
use serde_json::json;
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::Error;
use crate::store;
use crate::store::anomaly::NewAnomaly;

/// A notice that was refused at the edge.
#[derive(Debug, Clone)]
pub(crate) struct RefusedNotice {
    pub(crate) channel: ChannelCode,
    pub(crate) channel_account: ChannelAccount,
    pub(crate) reason: &'static str,
    /// SHA-256 of the raw body, lower hex: repeats of one body are counted, not kept again.
    pub(crate) body_sha256: String,
    pub(crate) raw_prefix: Vec<u8>,
    pub(crate) detail: String,
}

/// Keeps it as an anomaly.
pub(crate) async fn keep(pool: &PgPool, notice: RefusedNotice, now: OffsetDateTime) -> Result<(), Error> {
    let anomaly = NewAnomaly {
        kind: notice.reason,
        subject: format!("{}/{}/{}", notice.channel, notice.channel_account, notice.body_sha256),
        detail: json!({ "detail": notice.detail }),
        raw: Some(notice.raw_prefix),
    };
    let mut connection = pool.acquire().await?;
    store::anomaly::open_in_tx(&mut connection, &anomaly, now).await?;
    Ok(())
}
