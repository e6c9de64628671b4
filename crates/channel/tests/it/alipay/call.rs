//! How a call ends, for every kind of answer.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use channel::rsa::{PrivateKey, PublicKey};
use channel::{ChannelClient as _, Closed, Credential, FindOrder, Outcome};
use http::StatusCode;
use pay_types::{ChannelWord, RefundWord};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::support::{OURS, THEIRS, client};
use crate::call::{order, pay_no, refund};

#[derive(Debug, Clone)]
enum Reply {
    /// Signed as the channel does; the method's node.
    Signed(Value),
    Unsigned(Value),
    ByAnother(Value),
    Text(u16, String),
    Hang,
}

/// A gateway that verifies our signature and gives one reply. Gives its address and what was asked.
async fn gateway(reply: Reply) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/gateway.do", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let app = Router::new().fallback(move |request: Request| {
        let (reply, seen) = (reply.clone(), Arc::clone(&seen));
        async move { answer(reply, &seen, request).await }
    });
    service_kit::task::spawn("gateway", async move { axum::serve(listener, app).await });
    (url, asked)
}

async fn answer(reply: Reply, seen: &Mutex<Vec<String>>, request: Request) -> Response {
    let query = request.uri().query().unwrap().to_owned();
    let body = axum::body::to_bytes(request.into_body(), 65_536).await.unwrap();
    let method = verified(&query, &body);
    seen.lock().unwrap().push(method.clone());
    let node = |value: &Value| format!("{}_response", method.replace('.', "_")) + "\":" + &value.to_string();
    let text = match reply {
        Reply::Signed(value) => signed(&node(&value), &value, &THEIRS.private),
        Reply::ByAnother(value) => signed(&node(&value), &value, &OURS.private),
        Reply::Unsigned(value) => format!("{{\"{}}}", node(&value)),
        Reply::Text(status, text) => {
            let mut response = Response::new(Body::from(text));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            return response;
        }
        Reply::Hang => std::future::pending().await,
    };
    Response::new(Body::from(text))
}

fn signed(node: &str, value: &Value, key: &str) -> String {
    let signature = PrivateKey::parse(key).unwrap().sign(value.to_string().as_bytes());
    format!("{{\"{node},\"sign\":\"{}\"}}", STANDARD.encode(signature))
}

/// Checks our signature over query and body together; gives the method.
fn verified(query: &str, body: &Bytes) -> String {
    let form = format!("{query}&{}", std::str::from_utf8(body).unwrap());
    let decode = |text: &str| -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let pair = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&pair).unwrap(), 16).unwrap());
            } else {
                bytes.push(byte);
            }
        }
        bytes
    };
    let mut pairs: Vec<(String, Vec<u8>)> = form
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), decode(value)))
        .collect();
    pairs.sort();
    let sign = pairs.iter().find(|(name, _)| name == "sign").unwrap().1.clone();
    let parts: Vec<Vec<u8>> = pairs
        .iter()
        .filter(|(name, value)| name != "sign" && !value.is_empty())
        .map(|(name, value)| [name.as_bytes(), b"=", value].concat())
        .collect();
    let signature = STANDARD.decode(sign).unwrap();
    assert!(PublicKey::parse(&OURS.public).unwrap().verify(&parts.join(&b'&'), &signature), "our signature");
    let method = pairs.iter().find(|(name, _)| name == "method").unwrap();
    String::from_utf8(method.1.clone()).unwrap()
}

fn find() -> FindOrder {
    FindOrder::by(&pay_no())
}

fn trade(status: &str, more: Value) -> Value {
    let mut node = json!({
        "code": "10000", "msg": "Success", "out_trade_no": pay_no().as_str(), "trade_no": "2025T1",
        "trade_status": status, "total_amount": "10.00",
    });
    node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    node
}

fn failed(sub_code: &str) -> Value {
    json!({ "code": "40004", "msg": "Business Failed", "sub_code": sub_code, "sub_msg": "words/with slash" })
}

/// The payer's address is signed and makes no call. Fails when a page payment asks the gateway.
#[tokio::test]
async fn a_page_payment_is_a_signed_address() {
    for (product, method) in [("page", "alipay.trade.page.pay"), ("wap", "alipay.trade.wap.pay")] {
        let (url, asked) = gateway(Reply::Hang).await;
        let Outcome::Accepted(created) = client(&url, product).create(&order()).await else { panic!() };
        let Credential::PayUrl(address) = created.credential else { panic!("{created:?}") };
        let query = address.strip_prefix(&format!("{url}?")).unwrap();
        assert_eq!(verified(query, &Bytes::new()), method);
        assert!(asked.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_qr_payment_brings_its_text() {
    let node = json!({ "code": "10000", "out_trade_no": pay_no().as_str(), "qr_code": "https://qr/1" });
    let (url, asked) = gateway(Reply::Signed(node)).await;
    let Outcome::Accepted(created) = client(&url, "qr").create(&order()).await else { panic!() };
    assert_eq!(created.credential, Credential::QrText("https://qr/1".to_owned()));
    assert_eq!(*asked.lock().unwrap(), ["alipay.trade.precreate"]);
}

/// Each state is the word that it is, by its marks. Fails when a paid and refunded trade counts as closed.
#[tokio::test]
async fn a_query_tells_the_state_by_its_marks() {
    let paid = json!({ "send_pay_date": "2025-03-14 09:59:58" });
    for (status, more, word) in [
        ("WAIT_BUYER_PAY", json!({}), None),
        ("TRADE_SUCCESS", paid.clone(), Some(ChannelWord::Paid)),
        ("TRADE_FINISHED", paid.clone(), Some(ChannelWord::Paid)),
        ("TRADE_CLOSED", paid, Some(ChannelWord::Paid)),
        ("TRADE_CLOSED", json!({}), Some(ChannelWord::Closed)),
    ] {
        let (url, _) = gateway(Reply::Signed(trade(status, more))).await;
        let Outcome::Accepted(queried) = client(&url, "page").query(&find()).await else {
            panic!("{status}")
        };
        assert_eq!((queried.known, queried.word), (true, word), "{status}");
        assert_eq!(queried.amount.unwrap().minor, 1_000);
    }
    let (url, _) = gateway(Reply::Signed(failed("ACQ.TRADE_NOT_EXIST"))).await;
    let Outcome::Accepted(queried) = client(&url, "page").query(&find()).await else { panic!() };
    assert!(!queried.known && queried.word.is_none(), "not scanned yet is no word");
    let Outcome::Accepted(closed) = client(&url, "page").close(&find()).await else { panic!() };
    assert_eq!(closed, Closed::Closed, "never scanned, and its time is over");
}

/// Money may have moved in each of these. Fails when an unsigned or foreign answer is believed, or an unknown word read.
#[tokio::test]
async fn whatever_is_not_surely_known_is_unknown() {
    for reply in [
        Reply::Unsigned(trade("TRADE_SUCCESS", json!({}))),
        Reply::ByAnother(trade("TRADE_CLOSED", json!({}))),
        Reply::Unsigned(failed("ACQ.TRADE_NOT_EXIST")),
        Reply::Signed(failed("ACQ.SYSTEM_ERROR")),
        Reply::Signed(failed("ACQ.A_NEW_WORD")),
        Reply::Signed(trade("A_NEW_STATE", json!({}))),
        Reply::Signed(trade("TRADE_SUCCESS", json!({ "out_trade_no": "P2" }))),
        Reply::Signed(trade("TRADE_SUCCESS", json!({ "total_amount": "1E+1" }))),
        Reply::Signed(json!({ "code": "20000", "sub_code": "isp.unknow-error" })),
        Reply::Text(500, String::new()),
        Reply::Text(200, "<html>".to_owned()),
        Reply::Text(200, "[".repeat(60_000)),
        Reply::Text(200, "x".repeat(70_000)),
        Reply::Hang,
    ] {
        let (url, asked) = gateway(reply.clone()).await;
        let outcome = client(&url, "page").query(&find()).await;
        assert_eq!(outcome.label(), "unknown", "{reply:?}: {outcome:?}");
        assert_eq!(asked.lock().unwrap().len(), 1, "asked once, without a retry");
    }
}

/// Only `fund_change = Y` and `REFUND_SUCCESS` say that money went back; what is not known may be sent again under its number.
#[tokio::test]
async fn a_refund_is_done_only_by_its_own_words() {
    let done = |more: Value| {
        let mut node = json!({ "code": "10000", "out_trade_no": pay_no().as_str(), "refund_fee": "30.00" });
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Reply::Signed(node)
    };
    let (url, _) = gateway(done(json!({ "fund_change": "Y" }))).await;
    let Outcome::Accepted(told) = client(&url, "page").refund(&refund()).await else { panic!() };
    assert_eq!(told.word, Some(RefundWord::Succeeded));
    assert_eq!(told.amount.unwrap().minor, 1_000, "this refund, not the sum of all");
    for unsure in [json!({ "fund_change": "N" }), json!({})] {
        let (url, _) = gateway(done(unsure)).await;
        assert_eq!(client(&url, "page").refund(&refund()).await.label(), "unknown");
    }
    let asked = refund().find();
    let of = |amount: &str| {
        done(json!({
            "refund_status": "REFUND_SUCCESS", "out_request_no": refund().refund_no.as_str(), "refund_amount": amount,
        }))
    };
    let (url, _) = gateway(of("10.00")).await;
    let Outcome::Accepted(told) = client(&url, "page").query_refund(&asked).await else { panic!() };
    assert_eq!((told.known, told.word), (true, Some(RefundWord::Succeeded)));
    let (url, _) = gateway(of("9.99")).await;
    assert_eq!(client(&url, "page").query_refund(&asked).await.label(), "unknown");
    let (url, _) = gateway(done(json!({}))).await;
    let Outcome::Accepted(told) = client(&url, "page").query_refund(&asked).await else { panic!() };
    assert!(!told.known, "not received, or failed: the same one may be sent again");
}
