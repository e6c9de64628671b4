//! Checkout sessions.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use time::{Duration, OffsetDateTime};

use crate::app::Simulator;
use crate::book::Call as BookCall;
use crate::control_types::PayOptions;
use crate::letter::Event;
use crate::order::Status;
use crate::stripe::call::{Call, Done, carry_out, coded, invalid, missing};
use crate::stripe::intents::NewObject;
use crate::stripe::params::Params;
use crate::stripe::show;
use crate::stripe::{Kind, Object};

/// A session lives for half an hour at least and for a day at most, which is also what one gets that names no time.
const LIFE_MIN: Duration = Duration::minutes(30);
const LIFE_MAX: Duration = Duration::hours(24);
/// Clocks differ: this much is let through at both ends.
const SLACK: Duration = Duration::seconds(5);
/// Items of one session.
const ITEMS_MAX: usize = 100;

pub(super) async fn create(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    carry_out(&simulator, request, |call| make(&simulator, call)).await
}

fn make(simulator: &Simulator, call: &Call) -> Done {
    let params = &call.params;
    let now = simulator.clock.now();
    if params.get("mode") != Some("payment") {
        return Done::refused(400, coded("parameter_missing", "mode must be payment"));
    }
    let Some((amount, currency, subject)) = sum(params) else {
        return Done::refused(400, coded("parameter_missing", "line_items must be priced, in one currency"));
    };
    let latest = now.saturating_add(LIFE_MAX);
    let expire_at = match params.number("expires_at") {
        Ok(None) => latest,
        Ok(Some(at)) => match OffsetDateTime::from_unix_timestamp(at) {
            Ok(at)
                if at >= now.saturating_add(LIFE_MIN.saturating_sub(SLACK))
                    && at <= latest.saturating_add(SLACK) =>
            {
                at
            }
            Ok(_) | Err(_) => {
                let message = "expires_at must be between 30 minutes and 24 hours from now";
                return Done::refused(400, invalid(message));
            }
        },
        Err(()) => return Done::refused(400, coded("parameter_invalid_integer", "expires_at is no number")),
    };
    let id = simulator.book.ids().id("cs_live_a1");
    let text = |name: &str| params.get(name).map(str::to_owned);
    let object = Object {
        kind: Kind::Session,
        client_secret: format!("{id}_secret_{}", simulator.book.ids().hex32()),
        id,
        metadata: params.map("metadata"),
        intent_metadata: params.map("payment_intent_data[metadata]"),
        client_reference_id: text("client_reference_id"),
        success_url: text("success_url"),
        cancel_url: text("cancel_url"),
    };
    let asked = NewObject { object, amount, currency, subject, expire_at };
    match asked.make(simulator, &call.side) {
        Ok(order) => {
            let json = show::object(&order)
                .map(|object| show::session(&call.side, &order, object, &simulator.public_url));
            Done::well(json.unwrap_or_default()).befallen(order.fate.create_delay_ms, order.fate.create_fault)
        }
        Err(done) => done,
    }
}

/// What all items cost, in which currency, and the name of the first.
fn sum(params: &Params) -> Option<(i64, &str, String)> {
    let mut total = 0_i64;
    let mut currency = None;
    for item in 0..ITEMS_MAX {
        let name = |rest: &str| format!("line_items[{item}]{rest}");
        let Some(unit) = params.number(&name("[price_data][unit_amount]")).ok()? else { break };
        let quantity = params.number(&name("[quantity]")).ok()?.unwrap_or(1);
        let its = params.get(&name("[price_data][currency]"))?;
        if *currency.get_or_insert(its) != its {
            return None;
        }
        total = total.checked_add(unit.checked_mul(quantity)?)?;
    }
    let subject = params.get("line_items[0][price_data][product_data][name]").unwrap_or_default();
    Some((total, currency?, subject.to_owned()))
}

pub(super) async fn query(
    State(simulator): State<Arc<Simulator>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    carry_out(&simulator, request, |call| about(&simulator, call, &id, BookCall::Query)).await
}

pub(super) async fn expire(
    State(simulator): State<Arc<Simulator>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    carry_out(&simulator, request, |call| {
        let before = simulator.book.find(&id, simulator.clock.now()).map(|order| order.status);
        if before.is_some_and(|status| status != Status::Created) {
            let message = "Only Checkout Sessions with a status in [\"open\"] can be expired.";
            return Done::failed(400, invalid(message));
        }
        let done = about(&simulator, call, &id, BookCall::Close);
        if let Some(order) = simulator.book.find(&id, simulator.clock.now())
            && order.owner == call.side.owner
            && order.status == Status::Closed
        {
            simulator.tell(&order, Event::Closed, &PayOptions::default());
        }
        done
    })
    .await
}

fn about(simulator: &Simulator, call: &Call, id: &str, book_call: BookCall) -> Done {
    let is_it = |object: &Object| object.kind == Kind::Session && object.id == id;
    let now = simulator.clock.now();
    let there = simulator.book.find(id, now).is_some_and(|order| show::object(&order).is_some_and(is_it));
    let order = Some(id).filter(|_| there);
    let Some(order) = order.and_then(|id| simulator.book.call(&call.side.owner, id, book_call, now)) else {
        return missing("checkout.session", id);
    };
    let Some(object) = show::object(&order) else { return missing("checkout.session", id) };
    let json = show::session(&call.side, &order, object, &simulator.public_url);
    let refunded = simulator.refunded_of(&order);
    Done::well(show::expanded(json, &call.params, &call.side, &order, refunded))
}

pub(super) async fn list(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    carry_out(&simulator, request, |call| {
        let orders = simulator.book.newest(&call.side.owner, simulator.clock.now());
        let intent = call.params.get("payment_intent");
        let all = orders
            .iter()
            .filter(|order| {
                intent.is_none_or(|id| order.charges.iter().any(|charge| charge.channel_txn_id == id))
            })
            .filter_map(|order| {
                let object = show::object(order).filter(|object| object.kind == Kind::Session)?;
                Some(show::session(&call.side, order, object, &simulator.public_url))
            })
            .collect();
        Done::well(show::page(all, &call.params, "/v1/checkout/sessions"))
    })
    .await
}
