//! Transport: HTTP from channels.

mod body;
pub(crate) mod listener;
mod notify;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::post;

pub use body::BODY_BYTES_MAX;

use crate::app::Receiver;

pub(crate) fn router(receiver: Arc<Receiver>) -> Router {
    Router::new()
        .route("/v1/callbacks/{channel}/{channel_account}", post(notify::notify))
        // The body is read by hand, raw and with a limit of its own.
        .layer(DefaultBodyLimit::disable())
        .with_state(receiver)
}
