//! Refunds.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde_json::json;

use crate::app::Simulator;
use crate::refund::{MadeRefund, NewRefund, RefundTerms};
use crate::stripe::amount::from_stripe;
use crate::stripe::call::{Call, Done, carry_out, coded, invalid, missing};
use crate::stripe::show;

/// Reasons that Stripe knows.
const REASONS: [&str; 3] = ["duplicate", "fraudulent", "requested_by_customer"];

pub(crate) async fn create(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    carry_out(&simulator, request, |call| make(&simulator, call)).await
}

fn make(simulator: &Simulator, call: &Call) -> Done {
    let (params, now) = (&call.params, simulator.clock.now());
    let reason = params.get("reason").unwrap_or_default();
    if !reason.is_empty() && !REASONS.contains(&reason) {
        return Done::refused(400, invalid("reason must be duplicate, fraudulent or requested_by_customer"));
    }
    let charge = params.get("charge").and_then(|id| id.strip_prefix("ch_")).map(|rest| format!("pi_{rest}"));
    let Some(intent) = params.get("payment_intent").map(str::to_owned).or(charge) else {
        return Done::refused(400, coded("parameter_missing", "payment_intent or charge must be there"));
    };
    let order = simulator.book.find(&intent, now).filter(|order| order.owner == call.side.owner);
    let Some(order) = order else { return missing("payment_intent", &intent) };
    if !order.charges.iter().any(|charge| charge.channel_txn_id == intent) {
        let message = format!("This PaymentIntent ({intent}) does not have a successful charge to refund.");
        return Done::failed(400, invalid(&message));
    }
    let left = order.terms.amount.saturating_sub(simulator.refunding_of(&order, &intent));
    if left <= 0 {
        let error = coded("charge_already_refunded", "The charge has already been refunded.");
        return Done::failed(400, error);
    }
    let amount = match params.number("amount") {
        Ok(None) => Some(left),
        Ok(Some(amount)) => {
            from_stripe(amount, &order.terms.currency.to_ascii_lowercase()).map(|(amount, _)| amount)
        }
        Err(()) => None,
    };
    let Some(amount) = amount else {
        return Done::refused(400, coded("parameter_invalid_integer", "this amount cannot be given back"));
    };
    let metadata = params.map("metadata");
    let key = simulator.book.ids().id("re_3");
    let terms = RefundTerms {
        refund_no: metadata.get("refund_no").unwrap_or(&key).clone(),
        pay_no: order.terms.pay_no.clone(),
        channel_txn_id: intent,
        amount,
        currency: order.terms.currency.clone(),
        reason: reason.to_owned(),
        notify_url: order.terms.notify_url.clone(),
        metadata,
    };
    match simulator.book.refund(NewRefund { owner: order.owner, key, terms }, now) {
        MadeRefund::New(refund) | MadeRefund::Same(refund) => {
            simulator.refunded(&refund);
            Done::well(show::refund(&refund)).befallen(0, refund.fate.fault)
        }
        MadeRefund::Exceeds => {
            Done::failed(400, invalid("Refund amount is greater than unrefunded amount on charge"))
        }
        MadeRefund::FailedBeforeCommit => {
            Done::refused(500, json!({ "type": "api_error", "message": "nothing was done" }))
        }
        MadeRefund::Full => Done::refused(429, coded("rate_limit", "no more refunds are made")),
        MadeRefund::NoTransaction | MadeRefund::TermsDiffer => {
            Done::refused(404, coded("resource_missing", "the charge is not there"))
        }
    }
}

pub(crate) async fn query(
    State(simulator): State<Arc<Simulator>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    carry_out(&simulator, request, |call| match simulator.book.query_refund(&call.side.owner, &id) {
        Some(refund) => Done::well(show::refund(&refund)),
        None => missing("refund", &id),
    })
    .await
}

pub(crate) async fn list(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    carry_out(&simulator, request, |call| {
        let now = simulator.clock.now();
        let intent = call.params.get("payment_intent");
        let orders = match intent {
            Some(id) => {
                let order = simulator.book.find(id, now);
                order.into_iter().filter(|order| order.owner == call.side.owner).collect()
            }
            None => simulator.book.newest(&call.side.owner, now),
        };
        let refunds = orders.iter().flat_map(|order| simulator.book.refunds_of(order).into_iter().rev());
        let all = refunds
            .filter(|refund| intent.is_none_or(|id| refund.terms.channel_txn_id == id))
            .map(|refund| show::refund(&refund))
            .collect();
        Done::well(show::page(all, &call.params, "/v1/refunds"))
    })
    .await
}
