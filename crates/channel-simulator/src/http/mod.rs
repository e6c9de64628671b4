//! Transport: the channel's own calls, the pay page, and the control calls.

mod channel;
mod control;
mod pay_page;
mod refund;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use crate::app::Simulator;

/// Largest request; the largest is a direct notice with a body of its own at the receiver's limit, escaped.
const REQUEST_BYTES_MAX: usize = 512 * 1024;

pub(crate) fn router(simulator: Arc<Simulator>) -> Router {
    let control = Router::new()
        .route("/control/book", get(control::book))
        .route("/control/plan", get(control::plan).put(control::set_plan))
        .route("/control/notices", post(control::notices))
        .route("/control/orders/{pay_no}", get(control::order))
        .route("/control/orders/{pay_no}/pay", post(control::pay))
        .route("/control/orders/{pay_no}/second-transaction", post(control::second_transaction))
        .route("/control/orders/{pay_no}/close", post(control::close))
        .route("/control/orders/{pay_no}/fail", post(control::fail))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&simulator), control::only_from_here));
    Router::new()
        .route("/v1/orders", post(channel::create))
        .route("/v1/orders/{pay_no}", get(channel::query))
        .route("/v1/orders/{pay_no}/close", post(channel::close))
        .route("/v1/refunds", post(refund::create))
        .route("/v1/refunds/{refund_no}", get(refund::query))
        .route("/pay/{pay_no}", get(pay_page::show).post(pay_page::pay))
        .merge(control)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(simulator)
}
