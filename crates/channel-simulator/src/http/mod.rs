//! Transport: the channels' own calls, the pay page, and the control calls.

mod control;
mod pay_page;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::header;

use crate::app::Simulator;
use crate::{alipay, generic, stripe, wechatpay};

pub(crate) use pay_page::show as show_pay_page;

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
        .route("/control/orders/{pay_no}/decline", post(control::decline))
        .route("/control/orders/{pay_no}/meet", post(control::meet))
        .route("/control/orders/{pay_no}/refund", post(control::refund))
        .route("/control/refunds/{refund_no}/{word}", post(control::set_refund))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&simulator), control::only_from_here));
    Router::new()
        .merge(generic::routes())
        .merge(alipay::routes())
        .merge(wechatpay::routes())
        .merge(stripe::routes())
        .route("/v1/refunds", post(create_refund).get(stripe::list_refunds))
        .route("/v1/refunds/{refund_no}", get(query_refund))
        .route("/pay/{pay_no}", get(pay_page::show).post(pay_page::pay))
        .merge(control)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(simulator)
}

/// Two channels have calls under this path; only Stripe's callers bring an `Authorization`.
async fn create_refund(state: State<Arc<Simulator>>, request: Request) -> Response {
    if request.headers().contains_key(header::AUTHORIZATION) {
        stripe::create_refund(state, request).await
    } else {
        generic::create_refund(state, request).await
    }
}

async fn query_refund(state: State<Arc<Simulator>>, path: Path<String>, request: Request) -> Response {
    if request.headers().contains_key(header::AUTHORIZATION) {
        stripe::query_refund(state, path, request).await
    } else {
        generic::query_refund(state, path, request).await
    }
}
