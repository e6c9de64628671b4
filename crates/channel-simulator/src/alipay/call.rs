//! One call of the gateway: parameters from query and form, the app's signature, and the signed answer.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use encoding_rs::{GBK, UTF_8};
use http::{HeaderValue, header};
use serde_json::{Map, Value, json};

use crate::alipay::{Side, Slashes};
use crate::app::Simulator;
use crate::fate::CreateFault;
use crate::form;

/// Largest call; an order is a few kilobytes with all its percent signs.
const CALL_BYTES_MAX: usize = 64 * 1024;

/// A call whose signature verified.
pub(super) struct Call {
    pub(super) side: Arc<Side>,
    pub(super) method: String,
    pub(super) biz: Value,
    pub(super) notify_url: String,
    /// Whether its notices are in GBK.
    pub(super) gbk: bool,
}

/// An answer before it is signed.
pub(super) struct Answer {
    node: Map<String, Value>,
    pub(super) wait_ms: u64,
    pub(super) fault: CreateFault,
}

impl Answer {
    pub(super) fn well(fields: Value) -> Self {
        let mut node = Map::new();
        node.insert("code".to_owned(), json!("10000"));
        node.insert("msg".to_owned(), json!("Success"));
        if let Value::Object(fields) = fields {
            node.extend(fields);
        }
        Self { node, wait_ms: 0, fault: CreateFault::None }
    }

    pub(super) fn refused(code: &str, sub_code: &str, sub_msg: &str) -> Self {
        let msg = match code {
            "20000" => "Service Currently Unavailable",
            "40001" => "Missing Required Arguments",
            "40002" => "Invalid Arguments",
            _ => "Business Failed",
        };
        let fields = [("code", code), ("msg", msg), ("sub_code", sub_code), ("sub_msg", sub_msg)];
        let node = fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        Self { node, wait_ms: 0, fault: CreateFault::None }
    }

    /// A business failure.
    pub(super) fn failed(sub_code: &str, sub_msg: &str) -> Self {
        Self::refused("40004", sub_code, sub_msg)
    }

    pub(super) fn befallen(self, wait_ms: u64, fault: CreateFault) -> Self {
        Self { wait_ms, fault, ..self }
    }

    pub(super) fn signed(&self, call: &Call) -> Response {
        self.over(call, None)
    }

    /// The same answer under a signature of something else.
    pub(super) fn spoilt(&self, call: &Call) -> Response {
        self.over(call, Some("something else"))
    }

    fn over(&self, call: &Call, other: Option<&str>) -> Response {
        let plain = Value::Object(self.node.clone()).to_string();
        let escaped = plain.replace('/', "\\/");
        let (sent, covered) = match call.side.slashes {
            Slashes::Plain => (&plain, &plain),
            Slashes::Escaped => (&escaped, &escaped),
            Slashes::EscapedAfterSigning => (&escaped, &plain),
        };
        let sign = call.side.key.sign(other.unwrap_or(covered).as_bytes());
        let name = call.method.replace('.', "_");
        let serial = call.side.alipay_cert_sn.as_ref();
        let serial = serial.map(|sn| format!(",\"alipay_cert_sn\":\"{sn}\"")).unwrap_or_default();
        sent_as(format!("{{\"{name}_response\":{sent}{serial},\"sign\":\"{sign}\"}}"))
    }

    /// An answer to somebody who could not be made out: nobody signs it.
    fn unsigned(&self) -> Response {
        sent_as(json!({ "error_response": self.node }).to_string())
    }
}

fn sent_as(body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    let kind = HeaderValue::from_static("text/html;charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Reads a call and finds whose it is. Some clients put all into the query, others part it between query and form.
pub(super) async fn read(simulator: &Simulator, request: Request) -> Result<Call, Response> {
    let refuse =
        |code: &str, sub_code: &str, message: &str| Answer::refused(code, sub_code, message).unsigned();
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, CALL_BYTES_MAX).await else {
        return Err(refuse("40002", "isv.invalid-parameter", "the call is larger than 64 KiB"));
    };
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let pairs = query.split(|byte| *byte == b'&').chain(body.split(|byte| *byte == b'&'));
    let params: Vec<Pair> = pairs.filter(|pair| !pair.is_empty()).map(Pair::read).collect();
    let encoding = match raw(&params, "charset") {
        None => return Err(refuse("40001", "isv.missing-charset", "charset must be there")),
        Some(name) if name.eq_ignore_ascii_case(b"utf-8") => UTF_8,
        Some(name) if name.eq_ignore_ascii_case(b"gbk") => GBK,
        Some(_) => return Err(refuse("40002", "isv.invalid-charset", "charset must be utf-8 or gbk")),
    };
    let in_address = query.split(|byte| *byte == b'&').any(|pair| Pair::read(pair).name == b"charset");
    let get = |name: &str| raw(&params, name).map(|value| encoding.decode(value).0.into_owned());
    for (name, wanted) in [("sign_type", "RSA2"), ("version", "1.0")] {
        if get(name).as_deref() != Some(wanted) {
            let message = format!("{name} must be {wanted}");
            return Err(refuse("40002", &format!("isv.invalid-{}", name.replace('_', "-")), &message));
        }
    }
    if get("timestamp").is_none_or(|text| text.len() != 19) {
        return Err(refuse("40001", "isv.missing-timestamp", "timestamp must be there"));
    }
    let app_id = get("app_id").unwrap_or_default();
    let side = simulator.sides.alipay.iter().find(|side| side.app_id == app_id);
    let Some(side) = side.cloned() else {
        return Err(refuse("40002", "isv.invalid-app-id", "app_id is not known"));
    };
    let method = get("method").unwrap_or_default();
    let mut call = Call {
        side,
        method,
        biz: Value::Null,
        notify_url: get("notify_url").unwrap_or_default(),
        gbk: encoding == GBK || !in_address,
    };
    if !call.side.app_key.verifies(&covered(&params), &get("sign").unwrap_or_default()) {
        let answer =
            Answer::refused("40002", "isv.invalid-signature", "the signature is not that of the call");
        return Err(answer.signed(&call));
    }
    call.biz = serde_json::from_str(&get("biz_content").unwrap_or_default()).unwrap_or_default();
    Ok(call)
}

/// A decoded parameter.
struct Pair {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Pair {
    fn read(pair: &[u8]) -> Self {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at_checked(at).unwrap_or((pair, b""));
        Self { name: form::decoded(name), value: form::decoded(value.get(1..).unwrap_or_default()) }
    }
}

fn raw<'a>(params: &'a [Pair], name: &str) -> Option<&'a [u8]> {
    params.iter().find(|pair| pair.name == name.as_bytes()).map(|pair| pair.value.as_slice())
}

/// What an app signs: all parameters that have a value, but the signature itself, by their names.
fn covered(params: &[Pair]) -> Vec<u8> {
    let mut signed: Vec<&Pair> =
        params.iter().filter(|pair| pair.name != b"sign" && !pair.value.is_empty()).collect();
    signed.sort_by(|one, other| one.name.cmp(&other.name));
    let each: Vec<Vec<u8>> =
        signed.iter().map(|pair| [pair.name.as_slice(), b"=", &pair.value].concat()).collect();
    each.join(&b'&')
}
