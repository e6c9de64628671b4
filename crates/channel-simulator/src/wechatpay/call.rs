//! One call of the API: who signed it, and the signed answer.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::app::Simulator;
use crate::wechatpay::Side;

/// Largest call; an order is a few hundred bytes.
const CALL_BYTES_MAX: usize = 64 * 1024;
/// A call signed this far from our clock is not taken, seconds.
const WINDOW_S_MAX: u64 = 300;
const SCHEME: &str = "WECHATPAY2-SHA256-RSA2048";

/// A call whose signature verified.
pub(super) struct Call {
    pub(super) side: Arc<Side>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Bytes,
    /// Which key the caller wants the answer signed with.
    wanted_serial: Option<String>,
}

impl Call {
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// An answer before it is signed: a status, and a body that 204 does not have.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) json: Option<Value>,
}

impl Answer {
    pub(super) fn well(json: Value) -> Self {
        Self { status: 200, json: Some(json) }
    }

    pub(super) fn error(status: u16, code: &str, message: &str) -> Self {
        Self { status, json: Some(json!({ "code": code, "message": message })) }
    }

    /// Signs it with the key that the caller wants.
    pub(super) fn signed(&self, simulator: &Simulator, call: &Call) -> Response {
        self.over(simulator, call, None)
    }

    /// The same answer under a signature of something else.
    pub(super) fn spoilt(&self, simulator: &Simulator, call: &Call) -> Response {
        self.over(simulator, call, Some(b"something else"))
    }

    fn over(&self, simulator: &Simulator, call: &Call, other: Option<&[u8]>) -> Response {
        let body = self.json.as_ref().map(Value::to_string).unwrap_or_default();
        let key = call.side.key(call.wanted_serial.as_deref());
        let covered = other.unwrap_or(body.as_bytes());
        let stamp = Stamp::new(simulator.clock.now().unix_timestamp());
        let signature = key.key.sign(&stamp.covering(covered));
        let mut response = unsigned(self.status, &body);
        stamp.put(response.headers_mut(), &key.serial, &signature);
        if let Ok(id) = HeaderValue::from_str(&simulator.book.ids().id("08")) {
            response.headers_mut().insert("request-id", id);
        }
        response
    }
}

/// Time and nonce of a message of the channel's.
pub(super) struct Stamp {
    time: i64,
    nonce: String,
}

impl Stamp {
    pub(super) fn new(time: i64) -> Self {
        Self { time, nonce: format!("{:032x}", rand::random::<u128>()) }
    }

    /// What is signed of a message with this body.
    pub(super) fn covering(&self, body: &[u8]) -> Vec<u8> {
        [format!("{}\n{}\n", self.time, self.nonce).as_bytes(), body, b"\n"].concat()
    }

    pub(super) fn put(&self, headers: &mut HeaderMap, serial: &str, signature: &str) {
        for (name, value) in [
            ("wechatpay-timestamp", self.time.to_string().as_str()),
            ("wechatpay-nonce", &self.nonce),
            ("wechatpay-signature", signature),
            ("wechatpay-serial", serial),
            ("wechatpay-signature-type", SCHEME),
        ] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

/// Reads a call and finds whose it is.
pub(super) async fn authenticate(simulator: &Simulator, request: Request) -> Result<Call, Response> {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, CALL_BYTES_MAX).await else {
        return Err(refusal(400, "PARAM_ERROR", "the body is larger than 64 KiB"));
    };
    let sign_error = |message: &str| refusal(401, "SIGN_ERROR", message);
    let authorization = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let claimed = authorization
        .and_then(Claim::read)
        .ok_or_else(|| sign_error("Authorization must be WECHATPAY2-SHA256-RSA2048 with all five parts"))?;
    let side = simulator.sides.wechatpay.iter().find(|side| side.mchid == claimed.mchid);
    let side = side.ok_or_else(|| refusal(401, "SIGN_ERROR", "mchid is not known"))?;
    if !side.merchant_serial.eq_ignore_ascii_case(claimed.serial_no) {
        return Err(sign_error("serial_no is not that of the merchant's certificate"));
    }
    if !side.merchant_key.verifies(&claimed.covered(&parts, &body), claimed.signature) {
        return Err(sign_error("the signature is not that of the call"));
    }
    let time = claimed.timestamp.parse::<i64>().ok();
    if time.is_none_or(|time| simulator.clock.now().unix_timestamp().abs_diff(time) > WINDOW_S_MAX) {
        return Err(sign_error("timestamp is more than five minutes away"));
    }
    let query = parts.uri.query().unwrap_or_default().as_bytes().split(|byte| *byte == b'&');
    let wanted = parts.headers.get("wechatpay-serial").and_then(|serial| serial.to_str().ok());
    Ok(Call {
        side: Arc::clone(side),
        query: query.filter(|pair| !pair.is_empty()).map(crate::form::pair).collect(),
        body,
        wanted_serial: wanted.map(str::to_owned),
    })
}

/// What `Authorization` says.
struct Claim<'a> {
    mchid: &'a str,
    nonce_str: &'a str,
    timestamp: &'a str,
    serial_no: &'a str,
    signature: &'a str,
}

impl<'a> Claim<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let parts = text.strip_prefix(SCHEME)?.trim_start();
        let part = |name: &str| {
            parts.split(',').find_map(|part| {
                let value = part.trim().strip_prefix(name)?.strip_prefix('=')?;
                value.strip_prefix('"')?.strip_suffix('"')
            })
        };
        Some(Self {
            mchid: part("mchid")?,
            nonce_str: part("nonce_str")?,
            timestamp: part("timestamp")?,
            serial_no: part("serial_no")?,
            signature: part("signature")?,
        })
    }

    /// What the merchant signed: the path as it was sent.
    fn covered(&self, parts: &Parts, body: &[u8]) -> Vec<u8> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let head = format!("{}\n{path}\n{}\n{}\n", parts.method, self.timestamp, self.nonce_str);
        [head.as_bytes(), body, b"\n"].concat()
    }
}

/// A refusal that nobody signs: it is not known for whom.
fn refusal(status: u16, code: &str, message: &str) -> Response {
    unsigned(status, &json!({ "code": code, "message": message }).to_string())
}

fn unsigned(status: u16, body: &str) -> Response {
    let mut response = Response::new(Body::from(body.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !body.is_empty() {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    }
    response
}
