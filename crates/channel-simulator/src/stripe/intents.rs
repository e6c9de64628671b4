//! Payment intents.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde_json::{Value, json};
use time::Duration;

use crate::app::Simulator;
use crate::book::{Call as BookCall, Made};
use crate::control_types::PayOptions;
use crate::letter::Event;
use crate::order::{Charge, Form, NewOrder, Order, Status, Terms};
use crate::stripe::amount::from_stripe;
use crate::stripe::call::{Call, Done, carry_out, coded, invalid, missing};
use crate::stripe::show;
use crate::stripe::{Kind, Object, Side};

/// An intent never expires; this is longer than any run.
const LIFE: Duration = Duration::days(3_650);

pub(super) async fn create(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    carry_out(&simulator, request, |call| make(&simulator, call)).await
}

fn make(simulator: &Simulator, call: &Call) -> Done {
    let params = &call.params;
    let (Ok(Some(amount)), Some(currency)) = (params.number("amount"), params.get("currency")) else {
        return Done::refused(400, coded("parameter_missing", "amount and currency must be there"));
    };
    let metadata = params.map("metadata");
    let id = simulator.book.ids().id("pi_3");
    let object = Object {
        kind: Kind::Intent,
        client_secret: format!("{id}_secret_{}", simulator.book.ids().hex32()),
        id,
        metadata,
        intent_metadata: BTreeMap::new(),
        client_reference_id: None,
        success_url: None,
        cancel_url: None,
    };
    let subject = params.get("description").unwrap_or_default().to_owned();
    let expire_at = simulator.clock.now().saturating_add(LIFE);
    let asked = NewObject { object, amount, currency, subject, expire_at };
    let order = match asked.make(simulator, &call.side) {
        Ok(order) => order,
        Err(done) => return done,
    };
    let order = if params.get("confirm") == Some("true") {
        match paid(simulator, call, &order) {
            Ok(order) => order,
            Err(done) => return done,
        }
    } else {
        order
    };
    let json = shown(&call.side, &order).unwrap_or_default();
    Done::well(json).befallen(order.fate.create_delay_ms, order.fate.create_fault)
}

/// An object that is asked for.
pub(super) struct NewObject<'a> {
    pub(super) object: Object,
    /// In Stripe's units.
    pub(super) amount: i64,
    pub(super) currency: &'a str,
    pub(super) subject: String,
    pub(super) expire_at: time::OffsetDateTime,
}

impl NewObject<'_> {
    /// Puts it into the book.
    pub(super) fn make(self, simulator: &Simulator, side: &Side) -> Result<Order, Done> {
        let Some((amount, currency)) = from_stripe(self.amount, self.currency) else {
            let error = coded("parameter_invalid_integer", "this amount or currency cannot be taken");
            return Err(Done::refused(400, error));
        };
        let object = self.object;
        let number = object.metadata.get("pay_no").or_else(|| object.intent_metadata.get("pay_no"));
        let pay_no = number.or(object.client_reference_id.as_ref()).unwrap_or(&object.id).clone();
        let terms = Terms {
            merchant_id: String::new(),
            pay_no,
            amount,
            currency,
            subject: self.subject,
            expire_at: self.expire_at,
            notify_url: side.webhook_url.clone(),
        };
        let key = object.id.clone();
        let asked = NewOrder { owner: side.owner.clone(), key, form: Form::Stripe(Box::new(object)), terms };
        match simulator.book.make(asked, simulator.clock.now()) {
            Made::New(order) | Made::Same(order) => {
                simulator.made(&order);
                Ok(order)
            }
            Made::FailedBeforeCommit => {
                Err(Done::refused(500, json!({ "type": "api_error", "message": "nothing was done" })))
            }
            Made::Full => Err(Done::refused(429, coded("rate_limit", "no more objects are made"))),
            Made::TermsDiffer | Made::Expired => {
                Err(Done::refused(400, invalid("expires_at is in the past")))
            }
        }
    }
}

pub(super) async fn confirm(
    State(simulator): State<Arc<Simulator>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    carry_out(&simulator, request, |call| {
        let Some((order, _)) = find(&simulator, &call.side, &id, BookCall::Query) else {
            return missing("payment_intent", &id);
        };
        match paid(&simulator, call, &order) {
            Ok(order) => Done::well(shown(&call.side, &order).unwrap_or_default()),
            Err(done) => done,
        }
    })
    .await
}

/// The payer's card is charged, or declined if it is one of those.
fn paid(simulator: &Simulator, call: &Call, order: &Order) -> Result<Order, Done> {
    let options = PayOptions::default();
    let declined = call.params.get("payment_method").is_some_and(|method| method.contains("Declined"));
    if declined && simulator.decline(&order.key, &options).is_ok() {
        let error = json!({
            "type": "card_error", "code": "card_declined", "decline_code": "generic_decline",
            "message": "Your card was declined.", "payment_intent": shown(&call.side, order),
        });
        return Err(Done::failed(402, error));
    }
    if order.status != Status::Created {
        return Err(unexpected(&call.side, order, "confirm"));
    }
    simulator.pay(&order.key, &options).map_err(|_| unexpected(&call.side, order, "confirm"))
}

fn unexpected(side: &Side, order: &Order, act: &str) -> Done {
    let intent = shown(side, order).unwrap_or_default();
    let status = intent.get("status").and_then(Value::as_str).unwrap_or_default();
    let message = format!("You cannot {act} this PaymentIntent because it has a status of {status}.");
    let mut error = coded("payment_intent_unexpected_state", &message);
    if let Some(error) = error.as_object_mut() {
        error.insert("payment_intent".to_owned(), intent);
    }
    Done::failed(400, error)
}

pub(super) async fn cancel(
    State(simulator): State<Arc<Simulator>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    carry_out(&simulator, request, |call| {
        let Some((before, _)) = find(&simulator, &call.side, &id, BookCall::Query) else {
            return missing("payment_intent", &id);
        };
        let closed = find(&simulator, &call.side, &id, BookCall::Close);
        match closed {
            Some((order, _)) if before.status == Status::Created && order.status == Status::Closed => {
                simulator.tell(&order, Event::Closed, &PayOptions::default());
                Done::well(shown(&call.side, &order).unwrap_or_default())
            }
            Some((order, _)) => unexpected(&call.side, &order, "cancel"),
            None => missing("payment_intent", &id),
        }
    })
    .await
}

pub(super) async fn query(
    State(simulator): State<Arc<Simulator>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    carry_out(&simulator, request, |call| {
        let Some((order, charge)) = find(&simulator, &call.side, &id, BookCall::Query) else {
            return missing("payment_intent", &id);
        };
        let Some(object) = show::object(&order) else { return missing("payment_intent", &id) };
        let json = show::intent(&call.side, &order, object, charge.as_ref());
        let refunded = simulator.refunded_of(&order);
        Done::well(show::expanded(json, &call.params, &call.side, &order, refunded))
    })
    .await
}

/// The order whose intent this is, and the charge that the intent made.
fn find(simulator: &Simulator, side: &Side, id: &str, call: BookCall) -> Option<(Order, Option<Charge>)> {
    let now = simulator.clock.now();
    let is_it = |order: &Order| {
        let charge = order.charges.iter().find(|charge| charge.channel_txn_id == id).cloned();
        let own = show::object(order).and_then(Object::intent_id) == Some(id);
        (own || charge.is_some()).then_some(charge)
    };
    is_it(&simulator.book.find(id, now)?)?;
    let order = simulator.book.call(&side.owner, id, call, now)?;
    let charge = is_it(&order)?;
    Some((order, charge))
}

/// The intent of an order that is one, or of a session that was paid.
fn shown(side: &Side, order: &Order) -> Option<Value> {
    let object = show::object(order)?;
    let charge = order.charges.first();
    (object.kind == Kind::Intent || charge.is_some()).then(|| show::intent(side, order, object, charge))
}

pub(super) async fn list(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    carry_out(&simulator, request, |call| {
        let orders = simulator.book.newest(&call.side.owner, simulator.clock.now());
        let all = orders.iter().filter_map(|order| shown(&call.side, order)).collect();
        Done::well(show::page(all, &call.params, "/v1/payment_intents"))
    })
    .await
}

/// Finds intents by `metadata['name']:'value'`.
pub(super) async fn search(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    carry_out(&simulator, request, |call| {
        let words: Option<(&str, &str)> = call.params.get("query").and_then(|query| {
            let mut parts = query.strip_prefix("metadata[")?.split(['\'', '"']);
            let (_, name, colon, value) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            (colon == "]:").then_some((name, value))
        });
        let Some((name, value)) = words else {
            return Done::refused(400, invalid("query must be metadata['name']:'value'"));
        };
        let orders = simulator.book.newest(&call.side.owner, simulator.clock.now());
        let has = |intent: &Value| {
            let metadata = intent.get("metadata").and_then(|metadata| metadata.get(name));
            metadata.and_then(Value::as_str) == Some(value)
        };
        let all = orders.iter().filter_map(|order| shown(&call.side, order)).filter(has).collect();
        let mut page = show::page(all, &call.params, "/v1/payment_intents/search");
        if let Some(page) = page.as_object_mut() {
            page.insert("object".to_owned(), json!("search_result"));
            page.insert("next_page".to_owned(), Value::Null);
        }
        Done::well(page)
    })
    .await
}
