//! Alipay, `OpenAPI` 2.0: one gateway, signed forms in, signed nodes of JSON out, notices as signed forms.

mod bill;
mod call;
mod notice;
mod pay;
mod refund;
mod trade;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use pay_types::ChannelCode;
use serde::Deserialize;
use serde_json::Value;
use service_kit::config::Secret;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::app::Simulator;
use crate::fault::Answers;
use crate::ids::in_china;
use crate::rsa::{PrivateKey, PublicKey};
use crate::sides::Owner;

use call::{Answer, Call};
pub(crate) use notice::{Letter, letter};

/// Waits between sendings of a notice, seconds.
pub(crate) const RETRY_S: [u32; 7] = [240, 600, 600, 3_600, 7_200, 21_600, 54_000];

/// How the slashes in an answer are written. Both escaped forms were seen: some clients try the signature again without the
/// backslashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Slashes {
    #[default]
    Plain,
    /// `\/`, and signed so.
    Escaped,
    /// `\/`, and signed without the backslashes.
    EscapedAfterSigning,
}

/// As `simulator.toml` has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSide {
    app_id: String,
    seller_id: String,
    app_public_key: Secret,
    private_key: Secret,
    #[serde(default)]
    slashes: Slashes,
    /// Named in answers and notices, as in certificate mode.
    alipay_cert_sn: Option<String>,
}

/// An account as Alipay knows it.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) owner: Owner,
    app_id: String,
    seller_id: String,
    app_key: PublicKey,
    key: PrivateKey,
    slashes: Slashes,
    alipay_cert_sn: Option<String>,
}

impl Side {
    pub(crate) fn check(account: &str, raw: RawSide) -> Result<Self, &'static str> {
        let app_key = PublicKey::from_pem(raw.app_public_key.expose());
        let key = PrivateKey::from_pem(raw.private_key.expose());
        Ok(Self {
            owner: Owner::new(ChannelCode::Alipay, account),
            app_id: raw.app_id,
            seller_id: raw.seller_id,
            app_key: app_key.ok_or("app_public_key must be a public key in PEM")?,
            key: key.ok_or("private_key must be an RSA key in PKCS#8 PEM")?,
            slashes: raw.slashes,
            alipay_cert_sn: raw.alipay_cert_sn,
        })
    }
}

/// What an order is at Alipay, beside its terms.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trade {
    /// Whether the payer has scanned or opened it; a trade begins then, and is not known before.
    pub(crate) met: bool,
    passback_params: Option<String>,
    /// Whether notices come in GBK: the caller asked for it, or named its charset where the gateway does not look, in the form
    /// and not in the address.
    gbk: bool,
}

/// As Alipay writes times.
fn text(at: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    in_china(at).format(format).unwrap_or_default()
}

/// Fen as yuan with two digits.
fn yuan(fen: i64) -> String {
    let (whole, rest) = (fen.checked_div(100).unwrap_or(0), fen.checked_rem(100).unwrap_or(0));
    format!("{whole}.{:02}", rest.unsigned_abs())
}

/// Yuan with two digits at most, as fen.
fn fen(text: &str) -> Option<i64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(rest) || rest.len() > 2 {
        return None;
    }
    let rest = format!("{rest:0<2}").parse::<i64>().ok()?;
    let fen = whole.parse::<i64>().ok()?.checked_mul(100)?.checked_add(rest)?;
    (1..=10_000_000_000).contains(&fen).then_some(fen)
}

pub(crate) fn routes() -> Router<Arc<Simulator>> {
    Router::new()
        .route("/gateway.do", get(gateway).post(gateway))
        .route("/alipay/bill.zip", get(bill::download))
}

/// The one address, for every method, by GET and by POST.
async fn gateway(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    let call = match call::read(&simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let answer = match call.method.as_str() {
        "alipay.trade.page.pay" | "alipay.trade.wap.pay" => return pay::page(&simulator, &call).await,
        "alipay.trade.precreate" => pay::precreate(&simulator, &call),
        "alipay.trade.query" => trade::query(&simulator, &call),
        "alipay.trade.close" => trade::close(&simulator, &call),
        "alipay.trade.refund" => refund::create(&simulator, &call),
        "alipay.trade.fastpay.refund.query" => refund::query(&simulator, &call),
        "alipay.data.dataservice.bill.downloadurl.query" => bill::link(&simulator, &call),
        _ => Answer::refused("40002", "isv.invalid-method", "the method is not known here"),
    };
    let failed = Answer::refused("20000", "isp.unknow-error", "the service is not available");
    let answers = Answers {
        truth: || answer.signed(&call),
        failed: || failed.signed(&call),
        spoilt: || answer.spoilt(&call),
    };
    answers.befall(&simulator, answer.wait_ms, answer.fault).await
}

/// A text of the call's JSON.
fn param<'a>(call: &'a Call, name: &str) -> Option<&'a str> {
    call.biz.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// An amount in the call's JSON, as text or as a number: clients send both.
fn amount(call: &Call, name: &str) -> Option<i64> {
    match call.biz.get(name)? {
        Value::String(text) => fen(text),
        Value::Number(number) => fen(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yuan_are_exact() {
        for (text, value) in [
            ("0.01", Some(1)),
            ("12.3", Some(1_230)),
            ("88", Some(8_800)),
            ("0.00", None),
            ("1.234", None),
            ("-1", None),
            ("1e2", None),
            (".5", None),
            ("1.", None),
            (" 1", None),
        ] {
            assert_eq!(fen(text), value, "{text}");
        }
        assert_eq!((yuan(1).as_str(), yuan(123_456).as_str()), ("0.01", "1234.56"));
    }
}
