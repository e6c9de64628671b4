//! The channel's own calls: signed in, signed out.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use channel::generic::sign::{self, Covered, Stamp};
use channel::{Account, NoticeError};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use pay_types::{ChannelAccount, ChannelCode, Currency, Money};
use serde_json::{Value, json};

use crate::app::Simulator;
use crate::book::{Call, Made};
use crate::fault::Answers;
use crate::generic::notice::text;
use crate::order::{Form, NewOrder, Order, Terms};
use crate::sides::Owner;

/// Largest call; an order is a few hundred bytes.
const CALL_BYTES_MAX: usize = 64 * 1024;
/// Longest number that an order or a refund may have.
pub(super) const NUMBER_BYTES_MAX: usize = 64;

pub(super) async fn create(
    State(simulator): State<Arc<Simulator>>,
    request: axum::extract::Request,
) -> Response {
    let (account, body) = match authenticate(&simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let respond = |status, json| respond(&simulator, &account, status, &json);
    let terms = match read_terms(&body) {
        Ok(terms) => terms,
        Err(field) => return respond(422, error("FIELD_INVALID", field)),
    };
    let asked = NewOrder { owner: owner(&account), key: terms.pay_no.clone(), form: Form::Generic, terms };
    let order = match simulator.book.make(asked, simulator.clock.now()) {
        Made::Same(order) => return respond(200, show(&simulator, &order)),
        Made::TermsDiffer => return respond(409, error("TERMS_DIFFER", "the number exists on other terms")),
        Made::Expired => return respond(422, error("ORDER_EXPIRED", "expire_at is in the past")),
        Made::Full => return respond(429, error("BOOK_FULL", "no more orders are taken")),
        Made::FailedBeforeCommit => return respond(500, error("SYSTEM_ERROR", "nothing was done")),
        Made::New(order) => order,
    };
    simulator.made(&order);
    let answers = Answers {
        truth: || respond(200, show(&simulator, &order)),
        failed: || respond(500, error("SYSTEM_ERROR", "the order may exist")),
        spoilt: || spoilt(&simulator, &account, 200, &show(&simulator, &order)),
    };
    answers.befall(&simulator, order.fate.create_delay_ms, order.fate.create_fault).await
}

/// Whose the account's orders are.
pub(super) fn owner(account: &Account) -> Owner {
    Owner::new(ChannelCode::Generic, account.account().as_str())
}

pub(super) async fn query(
    State(simulator): State<Arc<Simulator>>,
    Path(pay_no): Path<String>,
    request: axum::extract::Request,
) -> Response {
    about(&simulator, &pay_no, Call::Query, request).await
}

pub(super) async fn close(
    State(simulator): State<Arc<Simulator>>,
    Path(pay_no): Path<String>,
    request: axum::extract::Request,
) -> Response {
    about(&simulator, &pay_no, Call::Close, request).await
}

async fn about(simulator: &Simulator, pay_no: &str, call: Call, request: axum::extract::Request) -> Response {
    let account = match authenticate(simulator, request).await {
        Ok((account, _)) => account,
        Err(response) => return response,
    };
    match simulator.book.call(&owner(&account), pay_no, call, simulator.clock.now()) {
        Some(order) => respond(simulator, &account, 200, &show(simulator, &order)),
        None => {
            respond(simulator, &account, 404, &error("ORDER_NOT_FOUND", "no such number of this account"))
        }
    }
}

/// Whose call it is, by the key that verifies it, and its body.
pub(super) async fn authenticate(
    simulator: &Simulator,
    request: axum::extract::Request,
) -> Result<(Arc<Account>, Bytes), Response> {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, CALL_BYTES_MAX).await else {
        return Err(unsigned(413, &error("TOO_LARGE", "the body is larger than 64 KiB")));
    };
    let mut refused = None;
    for account in &simulator.accounts {
        match verify(simulator, account, &parts, &body) {
            Ok(()) => return Ok((Arc::clone(account), body)),
            Err(refusal) => {
                // The refusal of the account whose key is named says most.
                if refused.is_none() || names_key(account, &parts) {
                    refused = Some((account, refusal));
                }
            }
        }
    }
    Err(match refused {
        Some((account, refusal)) if names_key(account, &parts) => {
            respond(simulator, account, 401, &error(refusal.reason.as_str(), refusal.detail))
        }
        Some((_, refusal)) => unsigned(401, &error(refusal.reason.as_str(), refusal.detail)),
        None => unsigned(401, &error("KEY_UNKNOWN", "there is no account")),
    })
}

fn verify(simulator: &Simulator, account: &Account, parts: &Parts, body: &[u8]) -> Result<(), NoticeError> {
    let path_and_query = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let covered = Covered::Request { method: parts.method.as_str(), path_and_query };
    sign::verify(account, covered, &parts.headers, body, simulator.clock.now()).map(|_| ())
}

fn names_key(account: &Account, parts: &Parts) -> bool {
    parts
        .headers
        .get(sign::KEY_ID)
        .and_then(|id| id.to_str().ok())
        .is_some_and(|id| account.key(id).is_some())
}

fn read_terms(body: &[u8]) -> Result<Terms, &'static str> {
    let terms: Terms =
        serde_json::from_slice(body).map_err(|_| "the body is not an order in JSON with all its fields")?;
    if terms.pay_no.len() > NUMBER_BYTES_MAX || terms.pay_no.parse::<ChannelAccount>().is_err() {
        return Err("pay_no must be 1 to 64 letters, digits, '_', '-' or '.'");
    }
    let currency = Currency::from_code(&terms.currency).map_err(|_| "currency is not ISO 4217")?;
    Money::try_new(terms.amount, currency).map_err(|_| "amount must be 1 to 1000000000000 minor units")?;
    reqwest::Url::parse(&terms.notify_url).map_err(|_| "notify_url is no address")?;
    Ok(terms)
}

fn show(simulator: &Simulator, order: &Order) -> Value {
    let mut shown = json!({
        "pay_no": order.terms.pay_no,
        "status": order.status,
        "amount": order.terms.amount,
        "currency": order.terms.currency,
        "pay_url": format!("{}/pay/{}", simulator.public_url, order.terms.pay_no),
        "occurred_at": text(order.changed_at),
    });
    if let (Some(charge), Some(map)) = (order.charges.first(), shown.as_object_mut()) {
        map.insert("channel_txn_id".to_owned(), json!(charge.channel_txn_id));
    }
    shown
}

pub(super) fn error(code: &str, message: &str) -> Value {
    json!({ "code": code, "message": message })
}

/// An answer under the account's current key.
pub(super) fn respond(simulator: &Simulator, account: &Account, status: u16, json: &Value) -> Response {
    signed(simulator, account, status, json, json.to_string().as_bytes())
}

/// An answer under the signature of another.
pub(super) fn spoilt(simulator: &Simulator, account: &Account, status: u16, json: &Value) -> Response {
    signed(simulator, account, status, json, b"something else")
}

fn signed(
    simulator: &Simulator,
    account: &Account,
    status: u16,
    json: &Value,
    covered_body: &[u8],
) -> Response {
    let mut response = unsigned(status, json);
    let nonce = sign::fresh_nonce();
    let stamp = Stamp { at: simulator.clock.now(), nonce: &nonce };
    let covered = Covered::Answer { status };
    let key = account.current_key().expect("generic calls are answered for accounts of the generic channel");
    sign::sign(response.headers_mut(), key, covered, stamp, covered_body);
    response
}

fn unsigned(status: u16, json: &Value) -> Response {
    let mut response = Response::new(Body::from(json.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
