//! One call of Stripe's API: whose it is, what it asks for, and how its answer is kept and sent.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

use crate::app::Simulator;
use crate::fate::CreateFault;
use crate::fault;
use crate::stripe::Side;
use crate::stripe::answers::Known;
use crate::stripe::params::Params;

/// Largest call; a session with many items is a few kilobytes.
const CALL_BYTES_MAX: usize = 64 * 1024;
/// Longest idempotency key.
const KEY_BYTES_MAX: usize = 255;

/// A call whose key was recognised.
pub(super) struct Call {
    pub(super) side: Arc<Side>,
    pub(super) params: Params,
}

/// What a call came to.
pub(super) struct Done {
    status: u16,
    json: Value,
    /// Whether the work had begun: then a repeat under the same key is answered with the same.
    kept: bool,
    wait_ms: u64,
    fault: CreateFault,
}

impl Done {
    pub(super) fn well(json: Value) -> Self {
        Self { status: 200, json, kept: true, wait_ms: 0, fault: CreateFault::None }
    }

    /// A refusal before the work began.
    pub(super) fn refused(status: u16, error: Value) -> Self {
        Self { status, json: json!({ "error": error }), kept: false, wait_ms: 0, fault: CreateFault::None }
    }

    /// A refusal by the state of things: kept.
    pub(super) fn failed(status: u16, error: Value) -> Self {
        Self { kept: true, ..Self::refused(status, error) }
    }

    pub(super) fn befallen(self, wait_ms: u64, fault: CreateFault) -> Self {
        Self { wait_ms, fault, ..self }
    }
}

/// An error object without a code.
pub(super) fn invalid(message: &str) -> Value {
    json!({ "type": "invalid_request_error", "message": message })
}

/// An error object with a code.
pub(super) fn coded(code: &str, message: &str) -> Value {
    json!({ "type": "invalid_request_error", "code": code, "message": message })
}

pub(super) fn missing(what: &str, id: &str) -> Done {
    Done::refused(404, coded("resource_missing", &format!("No such {what}: '{id}'")))
}

/// Reads a call, does its work at most once for its idempotency key, and answers.
pub(super) async fn carry_out(
    simulator: &Simulator,
    request: Request,
    work: impl FnOnce(&Call) -> Done + Send,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, CALL_BYTES_MAX).await else {
        return refuse(simulator, 413, invalid("the body is larger than 64 KiB"));
    };
    let Some(side) = caller(simulator, parts.headers.get(header::AUTHORIZATION)) else {
        return refuse(simulator, 401, invalid("Invalid API Key provided"));
    };
    let mut params = Params::read(parts.uri.query().unwrap_or_default().as_bytes());
    let key = parts.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let key = key.filter(|_| parts.method == Method::POST).map(str::to_owned);
    if parts.method == Method::POST {
        params = Params::read(&body);
    }
    let asked = format!("{} {}", parts.uri.path(), params.fingerprint());
    let call = Call { side, params };
    let key = key.map(|key| (call.side.owner.account.clone(), key));
    if let Some(key) = &key {
        if key.1.is_empty() || key.1.len() > KEY_BYTES_MAX {
            return refuse(simulator, 400, invalid("Idempotency-Key must have 1 to 255 characters"));
        }
        match simulator.stripe_answers.begin(key, &asked) {
            Known::Not => {}
            Known::Answered(status, body) => return answer(simulator, status, body, true),
            Known::Running => {
                let error = coded("idempotency_key_in_use", "another request with this key is running");
                return refuse(simulator, 409, error);
            }
            Known::OtherParameters => {
                let message = "Keys for idempotent requests can only be used with the same parameters";
                return refuse(simulator, 400, json!({ "type": "idempotency_error", "message": message }));
            }
        }
    }
    let done = work(&call);
    let body = Bytes::from(done.json.to_string());
    match key {
        Some(key) if done.kept => {
            let wait = Duration::from_millis(done.wait_ms);
            simulator.stripe_answers.keep(key, asked, (done.status, body.clone()), wait);
        }
        Some(key) => simulator.stripe_answers.forget(&key),
        None => {}
    }
    let answers = fault::Answers {
        truth: || answer(simulator, done.status, body.clone(), false),
        failed: || refuse(simulator, 503, json!({ "type": "api_error", "message": "try again" })),
        // Stripe signs no answers.
        spoilt: || answer(simulator, done.status, body.clone(), false),
    };
    answers.befall(simulator, done.wait_ms, done.fault).await
}

/// Whose key stands in `Authorization`, as bearer or as the name of a basic one.
fn caller(simulator: &Simulator, authorization: Option<&HeaderValue>) -> Option<Arc<Side>> {
    let text = authorization?.to_str().ok()?;
    let key = if let Some(key) = text.strip_prefix("Bearer ") {
        key.to_owned()
    } else {
        let basic = STANDARD.decode(text.strip_prefix("Basic ")?).ok()?;
        String::from_utf8(basic).ok()?.split(':').next()?.to_owned()
    };
    let same = |side: &&Arc<Side>| bool::from(side.secret_key.expose().as_bytes().ct_eq(key.as_bytes()));
    simulator.sides.stripe.iter().find(same).cloned()
}

fn refuse(simulator: &Simulator, status: u16, error: Value) -> Response {
    answer(simulator, status, Bytes::from(json!({ "error": error }).to_string()), false)
}

fn answer(simulator: &Simulator, status: u16, body: Bytes, replayed: bool) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(id) = HeaderValue::from_str(&simulator.book.ids().id("req_")) {
        headers.insert("request-id", id);
    }
    if replayed {
        headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    response
}
