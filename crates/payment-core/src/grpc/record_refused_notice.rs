//! `RecordRefusedNotice`: evidence of a notice that was refused at the edge.

use contract::core::{RecordRefusedNoticeRequest, RecordRefusedNoticeResponse};
use contract::validate;
use pay_types::Invalid;

use super::Core;
use crate::Error;
use crate::payment::evidence::{self, RefusedNotice};

/// Reasons that the edge may give.
const REASONS: [&str; 4] =
    ["SIGNATURE_INVALID", "TIMESTAMP_OUTSIDE_WINDOW", "KEY_UNKNOWN", "NOTICE_MALFORMED"];
/// Bytes of the body that are kept.
const RAW_PREFIX_MAX: usize = 4096;
/// Characters of the detail.
const DETAIL_MAX: usize = 500;

pub(super) async fn handle(
    core: &Core,
    request: RecordRefusedNoticeRequest,
) -> Result<RecordRefusedNoticeResponse, Error> {
    let invalid = |field, rule| Error::from(validate::invalid(Invalid::new(field, rule)));
    let reason = REASONS
        .into_iter()
        .find(|reason| *reason == request.reason)
        .ok_or_else(|| invalid("reason", "must be a reason of the edge"))?;
    if request.body_sha256.len() != 32 {
        return Err(invalid("body_sha256", "must be 32 bytes"));
    }
    let notice = RefusedNotice {
        channel: request.channel.parse().map_err(validate::invalid)?,
        channel_account: request.channel_account.parse().map_err(validate::invalid)?,
        reason,
        body_sha256: request.body_sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
        raw_prefix: request.raw_prefix.into_iter().take(RAW_PREFIX_MAX).collect(),
        detail: request.detail.chars().filter(|c| *c != '\0').take(DETAIL_MAX).collect(),
    };
    evidence::keep(&core.channels.pool, notice, core.channels.clock.now()).await?;
    Ok(RecordRefusedNoticeResponse {})
}
