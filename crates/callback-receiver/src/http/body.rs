//! The raw body: bounded in size and time, and never decoded, decompressed or put together anew.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http::{HeaderMap, header};

/// Largest notice; those of all channels are a few kilobytes, and the core keeps the whole of it.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest wait for the whole body. Channels send it in one piece; who needs longer holds a place on purpose.
const BODY_WAIT_MAX: Duration = Duration::from_secs(5);

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoBody {
    TooLarge,
    TooSlow,
    /// The connection ended within it.
    Broken,
}

/// Reads the body. One that says it is too large is not begun, one that turns out to be is not finished.
pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, NoBody> {
    let stated = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    if stated.is_some_and(|stated| stated > BODY_BYTES_MAX) {
        return Err(NoBody::TooLarge);
    }
    tokio::time::timeout(BODY_WAIT_MAX, collect(body)).await.unwrap_or(Err(NoBody::TooSlow))
}

async fn collect(body: Body) -> Result<Bytes, NoBody> {
    let mut pieces = body.into_data_stream();
    let mut whole = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| NoBody::Broken)?;
        if whole.len().saturating_add(piece.len()) > BODY_BYTES_MAX {
            return Err(NoBody::TooLarge);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}
