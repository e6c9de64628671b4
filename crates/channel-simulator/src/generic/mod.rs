//! The generic channel: HMAC-SHA256 both ways, with the same secrets on both sides.

mod call;
mod notice;
mod refund;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::Simulator;

pub(crate) use notice::{Fact, Letter, Message, letters, text};
pub(crate) use refund::{create as create_refund, query as query_refund};

pub(crate) fn routes() -> Router<Arc<Simulator>> {
    Router::new()
        .route("/v1/orders", post(call::create))
        .route("/v1/orders/{pay_no}", get(call::query))
        .route("/v1/orders/{pay_no}/close", post(call::close))
}
