//! How a call about a refund ends, for every kind of answer.

use std::sync::Arc;

use channel::stripe::Client;
use channel::{ChannelClient as _, CreateRefund, FindRefund, Outcome, RefundTold};
use http::Method;
use pay_types::{Currency, Money, RefundWord};
use serde_json::{Value, json};

use super::support::{Far, Reply, Table, clock, error};
use crate::call::{pay_no, refund as order_refund};

async fn with(reply: Reply) -> (Client, Arc<Far>) {
    let far = Far::start([reply]).await;
    (Table::new(&far.base_url).client(&clock()), far)
}

fn refund() -> CreateRefund {
    CreateRefund { channel_txn_id: "pi_1".parse().unwrap(), ..order_refund() }
}

fn body(status: &str) -> Value {
    json!({
        "id": "re_1", "object": "refund", "amount": 1000, "currency": "cny", "created": 1_767_240_100,
        "metadata": { "refund_no": refund().refund_no.as_str(), "pay_no": pay_no().as_str() },
        "payment_intent": "pi_1", "status": status,
    })
}

fn list(refunds: &[Value], has_more: bool) -> Reply {
    Reply::Json(200, json!({ "object": "list", "data": refunds, "has_more": has_more }))
}

/// The words of the call, of the query by the channel's number and of the list are the same.
#[tokio::test]
async fn a_refunds_word_is_read_from_the_call_and_from_the_queries() {
    for (status, word) in [
        ("pending", RefundWord::Taken),
        ("requires_action", RefundWord::Taken),
        ("succeeded", RefundWord::Succeeded),
        ("failed", RefundWord::Failed),
        ("canceled", RefundWord::Failed),
    ] {
        let (client, far) = with(Reply::Json(200, body(status))).await;
        let told = client.refund(&refund()).await;
        let by_number = FindRefund { channel_refund_no: Some("re_1".to_owned()), ..refund().find() };
        assert_eq!(told, client.query_refund(&by_number).await, "{status}");
        assert_eq!(far.asked()[1].path.trim_end_matches('?'), "/v1/refunds/re_1");
        let mut other = body("failed");
        other["metadata"]["refund_no"] = json!("R2");
        let (client, far) = with(list(&[other, body(status)], true)).await;
        assert_eq!(told, client.query_refund(&refund().find()).await, "{status}");
        assert_eq!(far.asked()[0].path, "/v1/refunds?payment_intent=pi_1&limit=100");
        let Outcome::Accepted(told) = told else { panic!("{told:?}") };
        assert_eq!((told.word, told.channel_refund_no.as_deref()), (Some(word), Some("re_1")));
        assert_eq!(told.amount.unwrap().minor, 1000);
    }
}

#[tokio::test]
async fn a_refund_is_asked_of_the_intent_and_says_the_same_each_time() {
    let (client, far) = with(Reply::Json(200, body("pending"))).await;
    for _ in 0..2 {
        assert_eq!(client.refund(&refund()).await.label(), "accepted");
    }
    let asked = far.asked();
    assert_eq!(asked[0], asked[1]);
    assert_eq!((&asked[0].method, asked[0].path.as_str()), (&Method::POST, "/v1/refunds"));
    assert_eq!(asked[0].header("idempotency-key"), Some(format!("refund:{}", refund().refund_no).as_str()));
    for (name, value) in [
        ("payment_intent", "pi_1"),
        ("amount", "1000"),
        ("metadata[refund_no]", refund().refund_no.as_str()),
        ("metadata[pay_no]", pay_no().as_str()),
    ] {
        assert_eq!(asked[0].field(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(asked[0].field("reason"), None, "the channel knows three words, and ours is none of them");
}

/// Never by amount, and never from half a list. Fails when the only refund of the transaction is taken for ours.
#[tokio::test]
async fn a_refund_is_known_by_its_number_alone() {
    let mut other = body("succeeded");
    other["metadata"]["refund_no"] = json!("R2");
    let mut nameless = body("succeeded");
    nameless["metadata"] = json!({});
    let query = async |reply| with(reply).await.0.query_refund(&refund().find()).await;
    assert_eq!(
        query(list(&[other.clone(), nameless.clone()], false)).await,
        Outcome::Accepted(RefundTold::not_known())
    );
    assert_eq!(query(list(&[], false)).await, Outcome::Accepted(RefundTold::not_known()));
    assert_eq!(query(list(&[other.clone()], true)).await.label(), "unknown");
    assert_eq!(query(Reply::Json(200, json!({ "object": "list", "data": [] }))).await.label(), "unknown");
    assert_eq!(query(Reply::Json(200, body("succeeded"))).await.label(), "unknown", "no list");
    for told in [other, nameless] {
        let (client, _) = with(Reply::Json(200, told)).await;
        assert_eq!(client.refund(&refund()).await.label(), "unknown");
        let by_number = FindRefund { channel_refund_no: Some("re_1".to_owned()), ..refund().find() };
        assert_eq!(client.query_refund(&by_number).await.label(), "unknown");
    }
}

/// Money may have gone back in each of these: none may be read as a refusal.
#[tokio::test]
async fn a_refund_that_is_not_surely_refused_is_unknown() {
    let mut no_amount = body("succeeded");
    no_amount["amount"] = json!("1000");
    for reply in [
        Reply::Json(500, error("api_error", "")),
        Reply::Json(503, error("invalid_request_error", "amount_too_small")),
        Reply::Json(400, error("idempotency_error", "")),
        Reply::Json(400, error("invalid_request_error", "")),
        Reply::Json(400, error("invalid_request_error", "a_new_code")),
        Reply::Json(402, error("card_error", "card_declined")),
        Reply::Text(404, "<html>".to_owned()),
        Reply::Json(200, body("a_new_status")),
        Reply::Json(200, no_amount),
        Reply::CutShort,
        Reply::Redirect,
        Reply::Hang,
    ] {
        let (client, far) = with(reply.clone()).await;
        let outcome = client.refund(&refund()).await;
        assert_eq!(outcome.label(), "unknown", "{reply:?}: {outcome:?}");
        assert_eq!(far.asked().len(), 1, "sent once");
    }
    for (status, code, label) in [
        (400, "amount_too_small", "rejected"),
        (400, "charge_already_refunded", "retry_later"),
        (400, "charge_disputed", "retry_later"),
        (400, "balance_insufficient", "retry_later"),
        (404, "resource_missing", "retry_later"),
        (409, "idempotency_key_in_use", "retry_later"),
        (429, "rate_limit", "retry_later"),
    ] {
        let (client, _) = with(Reply::Json(status, error("invalid_request_error", code))).await;
        assert_eq!(client.refund(&refund()).await.label(), label, "{code}");
    }
}

#[tokio::test]
async fn an_amount_that_the_channel_cannot_say_is_refused_before_it_is_sent() {
    let (client, far) = with(Reply::Json(200, body("pending"))).await;
    let amount = Money::try_new(18_605, Currency::from_code("KWD").unwrap()).unwrap();
    assert_eq!(client.refund(&CreateRefund { amount, ..refund() }).await.label(), "rejected");
    assert!(far.asked().is_empty());
}
