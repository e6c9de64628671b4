//! How a call ends, for every kind of answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use channel::wechatpay::Client;
use channel::{ChannelClient as _, Closed, Credential, FindOrder, Outcome, StatedAmount};
use pay_types::{ChannelWord, Currency, Money, RefundWord};
use serde_json::{Value, json};
use service_kit::Clock;

use super::support::{
    APPID, CERTIFICATE, Far, MCHID, NEXT, PUBLIC_KEY, Pair, Reply, Table, adapter, transaction,
};
use crate::call::{order, pay_no, refund};

/// A client of an account with a certificate, and the channel's side of it.
async fn with(reply: Reply) -> (Client, Arc<Far>) {
    let far = Far::start(reply).await;
    let account = Table::new(&far.base_url, vec![&CERTIFICATE], vec![]).account();
    (adapter(&account, &Clock::system()).0, far)
}

fn signed(status: u16, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Reply::Signed(status, body, &CERTIFICATE)
}

fn error(code: &str) -> Value {
    json!({ "code": code, "message": "m" })
}

fn code_url() -> Value {
    json!({ "code_url": "weixin://wxpay/bizpayurl?pr=x" })
}

fn trade(state: &str) -> Value {
    let mut trade = transaction(pay_no().as_str());
    trade["trade_state"] = json!(state);
    trade
}

async fn query(reply: Reply) -> Outcome<channel::Queried> {
    with(reply).await.0.query(&FindOrder::by(&pay_no())).await
}

/// Our request verifies at the channel, a repeat is the same bytes, and it names what the channel's definition names.
#[tokio::test]
async fn a_create_says_the_same_each_time_and_brings_what_the_payer_needs() {
    let (client, far) = with(signed(200, &code_url())).await;
    for _ in 0..2 {
        let Outcome::Accepted(created) = client.create(&order()).await else { panic!("not accepted") };
        assert_eq!(created.credential, Credential::QrText("weixin://wxpay/bizpayurl?pr=x".to_owned()));
    }
    assert_eq!(far.verified.load(Ordering::SeqCst), 2);
    let asked = far.asked.lock().unwrap();
    assert_eq!(asked[0], asked[1]);
    assert_eq!((asked[0].0.as_str(), &asked[0].2), ("/v3/pay/transactions/native", &None));
    let body: Value = serde_json::from_str(&asked[0].1).unwrap();
    assert_eq!(
        body,
        json!({
            "appid": APPID, "mchid": MCHID, "description": "tea 茶", "out_trade_no": pay_no().as_str(),
            "time_expire": "2026-01-01T14:46:40+08:00", "notify_url": order().notify_url,
            "amount": { "total": 1000, "currency": "CNY" },
        })
    );
}

#[tokio::test]
async fn an_h5_order_brings_an_address() {
    let far = Far::start(signed(200, &json!({ "h5_url": "https://wx.example/pay?a=b" }))).await;
    let table = Table { product: "h5", ..Table::new(&far.base_url, vec![&CERTIFICATE], vec![]) };
    let client = adapter(&table.account(), &Clock::system()).0;
    let Outcome::Accepted(created) = client.create(&order()).await else { panic!("not accepted") };
    assert_eq!(created.credential, Credential::PayUrl("https://wx.example/pay?a=b".to_owned()));
    let asked = far.asked.lock().unwrap();
    assert_eq!(asked[0].0, "/v3/pay/transactions/h5");
    let body: Value = serde_json::from_str(&asked[0].1).unwrap();
    assert_eq!(body["scene_info"]["h5_info"]["type"], "Wap");
}

/// In public-key mode the channel is asked to sign with that key. Fails when the request does not name it.
#[tokio::test]
async fn an_account_with_a_public_key_asks_for_answers_by_it() {
    let far = Far::start(Reply::Signed(200, code_url().to_string(), &PUBLIC_KEY)).await;
    let account = Table::new(&far.base_url, vec![], vec![&PUBLIC_KEY]).account();
    let client = adapter(&account, &Clock::system()).0;
    assert_eq!(client.create(&order()).await.label(), "accepted");
    assert_eq!(far.asked.lock().unwrap()[0].2.as_deref(), Some(PUBLIC_KEY.id.as_str()));
    assert_eq!(far.certificates_asked.load(Ordering::SeqCst), 0);
}

/// What cannot be represented at the channel is refused before it is sent.
#[tokio::test]
async fn only_yuan_is_sent() {
    let (client, far) = with(signed(200, &code_url())).await;
    let mut order = order();
    order.amount = Money::try_new(1000, Currency::from_code("USD").unwrap()).unwrap();
    assert_eq!(client.create(&order).await.label(), "rejected");
    let mut refund = refund();
    refund.amount = order.amount;
    assert_eq!(client.refund(&refund).await.label(), "rejected");
    assert!(far.asked.lock().unwrap().is_empty());
}

/// A long subject is cut between characters, and the same each time.
#[tokio::test]
async fn a_description_has_at_most_127_characters() {
    let (client, far) = with(signed(200, &code_url())).await;
    let mut order = order();
    let long = "茶".repeat(200);
    if let Ok(subject) = long.parse() {
        order.subject = subject;
        assert_eq!(client.create(&order).await.label(), "accepted");
        let body: Value = serde_json::from_str(&far.asked.lock().unwrap()[0].1).unwrap();
        assert_eq!(body["description"].as_str().unwrap().chars().count(), 127);
    }
}

#[tokio::test]
async fn an_orders_state_is_read_from_the_query() {
    for (state, word) in [
        ("NOTPAY", None),
        ("USERPAYING", None),
        ("ACCEPT", None),
        ("SUCCESS", Some(ChannelWord::Paid)),
        // Some refund of it exists, so it was paid.
        ("REFUND", Some(ChannelWord::Paid)),
        ("CLOSED", Some(ChannelWord::Closed)),
        ("REVOKED", Some(ChannelWord::Closed)),
        ("PAYERROR", Some(ChannelWord::Failed)),
    ] {
        let Outcome::Accepted(queried) = query(signed(200, &trade(state))).await else { panic!("{state}") };
        assert_eq!((queried.known, queried.word), (true, word), "{state}");
        // The order's amount, not what coupons left of it.
        assert_eq!(queried.amount, Some(StatedAmount { minor: 1000, currency: "CNY".to_owned() }), "{state}");
        assert_eq!(queried.occurred_at.unwrap().unix_timestamp(), 1_767_240_005, "{state}");
    }
    let (client, far) = with(signed(200, &trade("NOTPAY"))).await;
    assert_eq!(client.query(&FindOrder::by(&pay_no())).await.label(), "accepted");
    let path = format!("/v3/pay/transactions/out-trade-no/{}?mchid={MCHID}", pay_no());
    assert_eq!(far.asked.lock().unwrap()[0].0, path);
}

/// Money may have moved in each of these: none may be read as failure, nor as success. Fails when a 5xx, a time-out, an
/// unverified answer or an unknown word is mapped to anything else.
#[tokio::test]
async fn whatever_is_not_surely_known_is_unknown() {
    let paid = trade("SUCCESS").to_string();
    let without = |field: &str| {
        let mut trade = trade("SUCCESS");
        trade.as_object_mut().unwrap().remove(field);
        signed(200, &trade)
    };
    let with_other = |field: &str| {
        let mut trade = trade("SUCCESS");
        trade[field] = json!("other");
        signed(200, &trade)
    };
    for reply in [
        signed(500, &error("SYSTEM_ERROR")),
        signed(500, &error("PARAM_ERROR")),
        signed(503, &error("FREQUENCY_LIMITED")),
        Reply::Unsigned(200, paid.clone()),
        Reply::Unsigned(400, error("PARAM_ERROR").to_string()),
        Reply::Unsigned(400, error("INVALID_REQUEST").to_string()),
        Reply::Unsigned(400, error("ORDER_CLOSED").to_string()),
        Reply::Unsigned(502, String::new()),
        Reply::SignedForOther(200, paid.clone()),
        Reply::SignedForOther(404, error("ORDER_NOT_EXIST").to_string()),
        Reply::SignedBefore(200, paid.clone()),
        // A key that nobody told us of.
        Reply::Signed(200, paid.clone(), &PUBLIC_KEY),
        signed(400, &error("A_NEW_CODE")),
        signed(200, &trade("A_NEW_STATE")),
        without("transaction_id"),
        without("amount"),
        without("success_time"),
        with_other("out_trade_no"),
        with_other("mchid"),
        with_other("appid"),
        Reply::Signed(200, paid.replace("1000", "\"1000\""), &CERTIFICATE),
        Reply::Signed(200, paid.replace("1000", "10.00"), &CERTIFICATE),
        Reply::Signed(200, format!("{} ", "x".repeat(70_000)), &CERTIFICATE),
        Reply::Signed(200, String::new(), &CERTIFICATE),
        Reply::CutShort,
        Reply::Redirect,
        Reply::Hang,
    ] {
        let (client, far) = with(reply.clone()).await;
        let outcome = client.query(&FindOrder::by(&pay_no())).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{reply:?}: {outcome:?}");
        assert_eq!(far.verified.load(Ordering::SeqCst), 1, "{reply:?} must be asked once, without a retry");
    }
}

/// Only a signed word that it never can rejects; the rest waits, and what stands under the number is asked for.
#[tokio::test]
async fn a_refusal_says_whether_to_try_again() {
    for (status, code, label) in [
        (400, "PARAM_ERROR", "rejected"),
        (400, "APPID_MCHID_NOT_MATCH", "rejected"),
        (400, "MCH_NOT_EXISTS", "rejected"),
        (400, "INVALID_REQUEST", "retry_later"),
        (403, "OUT_TRADE_NO_USED", "retry_later"),
        (400, "ORDERPAID", "retry_later"),
        (401, "SIGN_ERROR", "retry_later"),
        (403, "NO_AUTH", "retry_later"),
        (429, "FREQUENCY_LIMITED", "retry_later"),
    ] {
        let outcome = with(signed(status, &error(code))).await.0.create(&order()).await;
        assert_eq!(outcome.label(), label, "{code}");
    }
    // A gateway that does not know whose call it was does not sign; it may make us wait, and nothing else.
    for (status, code, label) in [
        (401, "SIGN_ERROR", "retry_later"),
        (429, "RATELIMIT_EXCEEDED", "retry_later"),
        (400, "MCH_NOT_EXISTS", "unknown"),
    ] {
        let reply = Reply::Unsigned(status, error(code).to_string());
        assert_eq!(with(reply).await.0.create(&order()).await.label(), label, "{code}");
    }
}

/// *Order does not exist* shortly after creation is no failure. Fails when a 404 is mapped to a word or a rejection.
#[tokio::test]
async fn a_number_that_the_channel_does_not_know_has_no_word() {
    for code in ["ORDER_NOT_EXIST", "ORDERNOTEXIST", "RESOURCE_NOT_EXISTS"] {
        let (client, _) = with(signed(404, &error(code))).await;
        let Outcome::Accepted(queried) = client.query(&FindOrder::by(&pay_no())).await else {
            panic!("{code}")
        };
        assert!(!queried.known && queried.word.is_none(), "{code}");
        let Outcome::Accepted(told) = client.query_refund(&refund().find()).await else { panic!("{code}") };
        assert!(!told.known && told.word.is_none(), "{code}");
        assert_eq!(client.close(&FindOrder::by(&pay_no())).await.label(), "retry_later", "{code}");
        assert_eq!(client.refund(&refund()).await.label(), "retry_later", "{code}");
    }
}

/// Only the channel's confirmed close closes: a 204 whose signature over nothing verifies. Fails when the empty body is not
/// verified.
#[tokio::test]
async fn a_close_is_closed_or_not_known() {
    let close = async |reply: Reply| {
        let (client, far) = with(reply).await;
        let outcome = client.close(&FindOrder::by(&pay_no())).await;
        (outcome, far)
    };
    let (outcome, far) = close(signed(204, &Value::Null)).await;
    assert_eq!(outcome, Outcome::Accepted(Closed::Closed));
    let path = format!("/v3/pay/transactions/out-trade-no/{}/close", pay_no());
    let asked = far.asked.lock().unwrap()[0].clone();
    assert_eq!((asked.0, asked.1), (path, format!("{{\"mchid\":\"{MCHID}\"}}")));
    assert_eq!(close(signed(400, &error("ORDER_CLOSED"))).await.0, Outcome::Accepted(Closed::Closed));
    for (reply, label) in [
        (Reply::Unsigned(204, String::new()), "unknown"),
        (Reply::SignedForOther(204, String::new()), "unknown"),
        (signed(200, &json!({})), "unknown"),
        (Reply::Unsigned(400, error("ORDER_CLOSED").to_string()), "unknown"),
        (signed(400, &error("ORDERPAID")), "retry_later"),
    ] {
        assert_eq!(close(reply.clone()).await.0.label(), label, "{reply:?}");
    }
}

fn refund_body(status: &str) -> Value {
    json!({
        "refund_id": "50000001", "out_refund_no": refund().refund_no.as_str(), "transaction_id": "T1",
        "out_trade_no": pay_no().as_str(), "status": status, "create_time": "2026-01-01T12:00:05+08:00",
        "amount": { "total": 1000, "refund": 300, "payer_total": 900, "payer_refund": 270, "currency": "CNY" },
    })
}

#[tokio::test]
async fn a_refunds_word_is_read_from_the_call_and_from_the_query() {
    for (status, word) in [
        ("PROCESSING", RefundWord::Taken),
        ("SUCCESS", RefundWord::Succeeded),
        ("CLOSED", RefundWord::Failed),
        ("ABNORMAL", RefundWord::Abnormal),
    ] {
        let (client, far) = with(signed(200, &refund_body(status))).await;
        let told = client.refund(&refund()).await;
        assert_eq!(told, client.query_refund(&refund().find()).await);
        let Outcome::Accepted(told) = told else { panic!("{told:?}") };
        assert_eq!((told.word, told.channel_refund_no.as_deref()), (Some(word), Some("50000001")));
        assert_eq!(told.amount, Some(StatedAmount { minor: 300, currency: "CNY".to_owned() }));
        let asked = far.asked.lock().unwrap();
        let body: Value = serde_json::from_str(&asked[0].1).unwrap();
        assert_eq!(body["amount"], json!({ "refund": 1000, "total": 1000, "currency": "CNY" }));
        assert_eq!(body["out_refund_no"], refund().refund_no.as_str());
        assert_eq!(asked[1].0, format!("/v3/refund/domestic/refunds/{}", refund().refund_no));
    }
}

/// Money may have gone back in each of these: none may be read as a refusal.
#[tokio::test]
async fn a_refund_that_is_not_surely_refused_is_unknown() {
    let other = refund_body("CLOSED").to_string().replace("\"out_refund_no\":\"R", "\"out_refund_no\":\"X");
    for reply in [
        signed(500, &error("PARAM_ERROR")),
        Reply::Unsigned(400, error("PARAM_ERROR").to_string()),
        signed(400, &error("A_NEW_CODE")),
        signed(200, &refund_body("A_NEW_STATUS")),
        Reply::Signed(200, other, &CERTIFICATE),
        Reply::Signed(200, refund_body("CLOSED").to_string().replace("300", "\"300\""), &CERTIFICATE),
        Reply::Unsigned(200, refund_body("CLOSED").to_string()),
        Reply::CutShort,
        Reply::Hang,
    ] {
        let outcome = with(reply.clone()).await.0.refund(&refund()).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{reply:?}: {outcome:?}");
    }
    for (code, label) in
        [("NOT_ENOUGH", "retry_later"), ("INVALID_REQUEST", "retry_later"), ("PARAM_ERROR", "rejected")]
    {
        assert_eq!(with(signed(400, &error(code))).await.0.refund(&refund()).await.label(), label, "{code}");
    }
}

/// An answer by a certificate that we do not have yet makes us fetch it, and is then believed: its money has moved already.
#[tokio::test]
async fn an_answer_by_a_new_certificate_is_verified_once_it_is_fetched() {
    let next: &'static Pair = &NEXT;
    let (client, far) = with(Reply::Signed(200, trade("SUCCESS").to_string(), next)).await;
    for _ in 0..3 {
        let Outcome::Accepted(queried) = client.query(&FindOrder::by(&pay_no())).await else { panic!() };
        assert_eq!(queried.word, Some(ChannelWord::Paid));
    }
    assert_eq!(far.certificates_asked.load(Ordering::SeqCst), 1);
}
