//! What every creating call needs first: a place among those in hand, and the moment by which its caller must hear.

use std::time::Duration;

use contract::reason::{Reason, Refusal};
use service_kit::grpc;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;

use super::Api;

/// How long a caller should wait when all places are taken.
const OVERLOAD_RETRY: Duration = Duration::from_millis(250);

/// A place, given back when it is dropped.
pub(super) fn take(api: &Api) -> Result<SemaphorePermit<'_>, Refusal> {
    api.creates.try_acquire().map_err(|_| {
        Refusal::new(Reason::Overloaded, "more calls come than can be taken; send the same key again")
            .retry_after(OVERLOAD_RETRY)
    })
}

/// When the caller stops waiting.
pub(super) fn deadline(metadata: &MetadataMap) -> Instant {
    let now = Instant::now();
    now.checked_add(grpc::time_left(metadata, grpc::CALL_DEFAULT)).unwrap_or(now)
}
