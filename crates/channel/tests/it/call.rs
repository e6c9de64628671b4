//! How a call ends, for every kind of answer. The far side is a few lines of HTTP, so that it can answer as no sound channel
//! would.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use channel::generic::Client;
use channel::generic::sign::{self, Covered, Stamp};
use channel::{
    ChannelClient as _, Closed, CreateOrder, CreateRefund, Credential, FindOrder, Outcome, StatedAmount,
};
use http::{HeaderMap, StatusCode};
use pay_types::{Bucket, ChannelWord, Currency, Money, PayNo, RefundNo, RefundWord};
use service_kit::Clock;
use time::OffsetDateTime;
use tokio::net::TcpListener;

use crate::support::account;

const LIMIT: Duration = Duration::from_millis(1500);

/// What the far side does with a request.
#[derive(Debug, Clone)]
enum Reply {
    /// Answers, signed by the current key.
    Signed(u16, String),
    /// Answers, signed by the previous key, which is valid too.
    SignedByPrevious(u16, String),
    /// Answers with the signature of another status.
    SignedForOther(u16, String),
    Unsigned(u16, String),
    /// Says `content-length` and ends before it.
    CutShort,
    Redirect,
    Hang,
}

/// Starts a far side that does the same with every request; counts requests and whether their signatures verified.
async fn far_side(reply: Reply) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let verified = Arc::new(AtomicUsize::new(0));
    let (count, own) = (Arc::clone(&verified), account(&base_url));
    let handler = move |request: Request| {
        let (reply, count, account) = (reply.clone(), Arc::clone(&count), Arc::clone(&own));
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 16).await.unwrap();
            let covered =
                Covered::Request { method: parts.method.as_str(), path_and_query: parts.uri.path() };
            if sign::verify(&account, covered, &parts.headers, &body, Clock::system().now()).is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
            respond(reply, &account).await
        }
    };
    let router = Router::new().fallback(handler);
    service_kit::task::spawn("far_side", async move { axum::serve(listener, router).await });
    (base_url, verified)
}

async fn respond(reply: Reply, account: &channel::Account) -> Response {
    let signed = |key_id: &str, status: u16, covered: u16, body: String| {
        let mut headers = HeaderMap::new();
        let stamp = Stamp { at: Clock::system().now(), nonce: "nonce-of-the-answer" };
        let key = account.key(key_id).unwrap();
        sign::sign(&mut headers, key, Covered::Answer { status: covered }, stamp, body.as_bytes());
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response.headers_mut().extend(headers);
        response
    };
    match reply {
        Reply::Signed(status, body) => signed("k1", status, status, body),
        Reply::SignedByPrevious(status, body) => signed("k0", status, status, body),
        Reply::SignedForOther(status, body) => signed("k1", status, 299, body),
        Reply::Unsigned(status, body) => Response::builder().status(status).body(Body::from(body)).unwrap(),
        Reply::CutShort => {
            let chunks =
                futures::stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("cut"))]);
            Response::builder().header("content-length", "100").body(Body::from_stream(chunks)).unwrap()
        }
        Reply::Redirect => {
            Response::builder().status(307).header("location", "/elsewhere").body(Body::empty()).unwrap()
        }
        Reply::Hang => std::future::pending().await,
    }
}

fn client(base_url: &str) -> Client {
    let http =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    Client::new(account(base_url), http, LIMIT, Clock::system())
}

pub(crate) fn pay_no() -> PayNo {
    PayNo::new(1_767_240_006_000, [7; 10], Bucket::from_i16(1).unwrap())
}

pub(crate) fn order() -> CreateOrder {
    CreateOrder {
        pay_no: pay_no(),
        merchant_id: "M1".parse().unwrap(),
        amount: Money::try_new(1000, Currency::from_code("CNY").unwrap()).unwrap(),
        subject: "tea 茶".parse().unwrap(),
        expire_at: OffsetDateTime::from_unix_timestamp(1_767_250_000).unwrap(),
        notify_url: "http://127.0.0.1:2/v1/callbacks/generic/main".to_owned(),
    }
}

fn body(status: &str, more: &str) -> String {
    format!(
        r#"{{"pay_no":"{}","status":"{status}","amount":1000,"currency":"CNY","pay_url":"http://h/pay"{more}}}"#,
        pay_no()
    )
}

fn paid() -> String {
    body("PAID", r#","channel_txn_id":"T1","occurred_at":"2026-01-01T12:00:05+08:00""#)
}

fn error(code: &str) -> String {
    format!(r#"{{"code":"{code}","message":"m"}}"#)
}

#[tokio::test]
async fn a_verified_answer_is_accepted_and_our_request_verifies_there() {
    let (base_url, verified) = far_side(Reply::Signed(200, body("CREATED", ""))).await;
    let Outcome::Accepted(created) = client(&base_url).create(&order()).await else { panic!("not accepted") };
    assert_eq!(created.credential, Credential::PayUrl("http://h/pay".to_owned()));
    assert_eq!(created.channel_txn_id, None);
    let Outcome::Accepted(queried) = client(&base_url).query(&FindOrder::by(&pay_no())).await else {
        panic!("not accepted")
    };
    assert!(queried.known);
    assert_eq!(queried.word, None, "unpaid is no final word");
    assert_eq!(verified.load(Ordering::SeqCst), 2);
}

/// Both of the channel's keys verify while it changes them.
#[tokio::test]
async fn an_answer_by_the_other_valid_key_is_accepted() {
    let (base_url, _) = far_side(Reply::SignedByPrevious(200, body("CREATED", ""))).await;
    assert_eq!(client(&base_url).create(&order()).await.label(), "accepted");
}

#[tokio::test]
async fn a_final_word_comes_with_its_transaction_amount_and_time() {
    let (base_url, _) = far_side(Reply::Signed(200, paid())).await;
    let Outcome::Accepted(queried) = client(&base_url).query(&FindOrder::by(&pay_no())).await else {
        panic!("not accepted")
    };
    assert_eq!(queried.word, Some(ChannelWord::Paid));
    assert_eq!(queried.channel_txn_id.unwrap().as_str(), "T1");
    assert_eq!(queried.amount, Some(StatedAmount { minor: 1000, currency: "CNY".to_owned() }));
    assert_eq!(queried.occurred_at.unwrap().unix_timestamp(), 1_767_240_005);
}

/// Money may have moved in each of these: none may be read as failure, nor as success. Fails when a 5xx, a time-out, an
/// unverified answer or an unknown word is mapped to anything else.
#[tokio::test]
async fn whatever_is_not_surely_known_is_unknown() {
    let paid_without_txn = body("PAID", "");
    for reply in [
        Reply::Signed(500, error("FIELD_INVALID")),
        Reply::Signed(503, error("RATE_LIMITED")),
        Reply::Unsigned(200, paid()),
        Reply::Unsigned(409, error("TERMS_DIFFER")),
        Reply::Unsigned(404, error("ORDER_NOT_FOUND")),
        Reply::Unsigned(429, String::new()),
        Reply::SignedForOther(200, paid()),
        Reply::SignedForOther(409, error("TERMS_DIFFER")),
        Reply::Signed(400, error("A_NEW_CODE")),
        Reply::Signed(404, "not found".to_owned()),
        Reply::Signed(200, body("A_NEW_STATUS", "")),
        Reply::Signed(200, paid_without_txn),
        Reply::Signed(200, paid().replace(pay_no().as_str(), "P2")),
        Reply::Signed(200, format!("{} ", "x".repeat(70_000))),
        Reply::Signed(200, String::new()),
        Reply::CutShort,
        Reply::Redirect,
        Reply::Hang,
    ] {
        let (base_url, verified) = far_side(reply.clone()).await;
        let outcome = client(&base_url).query(&FindOrder::by(&pay_no())).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{reply:?}: {outcome:?}");
        assert_eq!(verified.load(Ordering::SeqCst), 1, "{reply:?} must be asked once, without a retry");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outcome = client(&format!("http://{nobody}")).create(&order()).await;
    assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
}

#[tokio::test]
async fn a_verified_refusal_says_whether_to_try_again() {
    for (code, label) in
        [("TERMS_DIFFER", "rejected"), ("RATE_LIMITED", "retry_later"), ("KEY_UNKNOWN", "retry_later")]
    {
        let (base_url, _) = far_side(Reply::Signed(409, error(code))).await;
        assert_eq!(client(&base_url).create(&order()).await.label(), label, "{code}");
    }
}

/// *Trade does not exist* shortly after creation is no failure. Fails when a 404 is mapped to a word or a rejection.
#[tokio::test]
async fn a_number_that_the_channel_does_not_know_has_no_word() {
    let (base_url, _) = far_side(Reply::Signed(404, error("ORDER_NOT_FOUND"))).await;
    let Outcome::Accepted(queried) = client(&base_url).query(&FindOrder::by(&pay_no())).await else {
        panic!("not accepted")
    };
    assert!(!queried.known && queried.word.is_none());
    assert_eq!(client(&base_url).close(&FindOrder::by(&pay_no())).await.label(), "retry_later");
}

/// Only the channel's confirmed close closes. Fails when an open or failed order counts as closed.
#[tokio::test]
async fn a_close_is_closed_paid_or_unknown() {
    let close = async |text: String| {
        let (base_url, _) = far_side(Reply::Signed(200, text)).await;
        client(&base_url).close(&FindOrder::by(&pay_no())).await
    };
    assert_eq!(close(body("CLOSED", "")).await, Outcome::Accepted(Closed::Closed));
    let Outcome::Accepted(Closed::AlreadyPaid(queried)) = close(paid()).await else {
        panic!("not already paid")
    };
    assert_eq!(queried.channel_txn_id.unwrap().as_str(), "T1");
    for status in ["CREATED", "FAILED"] {
        assert_eq!(close(body(status, "")).await.label(), "unknown", "{status}");
    }
}

pub(crate) fn refund() -> CreateRefund {
    CreateRefund {
        refund_no: RefundNo::new(1_767_240_006_000, [7; 10], Bucket::from_i16(1).unwrap()),
        pay_no: pay_no(),
        channel_txn_id: "T1".parse().unwrap(),
        paid: Money::try_new(1000, Currency::from_code("CNY").unwrap()).unwrap(),
        amount: Money::try_new(1000, Currency::from_code("CNY").unwrap()).unwrap(),
        reason: "LATE_SUCCESS".to_owned(),
        notify_url: "http://127.0.0.1:2/v1/callbacks/generic/main".to_owned(),
    }
}

fn refund_body(status: &str) -> String {
    let refund_no = refund().refund_no;
    format!(
        r#"{{"refund_no":"{refund_no}","channel_refund_no":"C1","status":"{status}","amount":1000,"currency":"CNY"}}"#
    )
}

#[tokio::test]
async fn a_refunds_word_is_read_from_the_call_and_from_the_query() {
    for (status, word) in [
        ("ACCEPTED", RefundWord::Taken),
        ("SUCCEEDED", RefundWord::Succeeded),
        ("FAILED", RefundWord::Failed),
    ] {
        let (base_url, verified) = far_side(Reply::Signed(200, refund_body(status))).await;
        let client = client(&base_url);
        let told = client.refund(&refund()).await;
        assert_eq!(told, client.query_refund(&refund().find()).await);
        let Outcome::Accepted(told) = told else { panic!("{told:?}") };
        assert_eq!((told.word, told.channel_refund_no.as_deref()), (Some(word), Some("C1")));
        assert_eq!(verified.load(Ordering::SeqCst), 2);
    }
}

/// Money may have gone back in each of these: none may be read as a refusal. Fails when a 5xx, an unknown word, another
/// refund's answer or a number that stands on other terms counts as failed.
#[tokio::test]
async fn a_refund_that_is_not_surely_refused_is_unknown() {
    for reply in [
        Reply::Signed(500, error("TRANSACTION_NOT_FOUND")),
        Reply::Unsigned(409, error("REFUND_EXCEEDS_TRANSACTION")),
        Reply::Signed(409, error("TERMS_DIFFER")),
        Reply::Signed(400, error("A_NEW_CODE")),
        Reply::Signed(200, refund_body("A_NEW_STATUS")),
        Reply::Signed(200, refund_body("FAILED").replace("\"refund_no\":\"R", "\"refund_no\":\"X")),
        Reply::Signed(200, refund_body("FAILED").replace("1000", "\"1000\"")),
        Reply::CutShort,
        Reply::Hang,
    ] {
        let (base_url, _) = far_side(reply.clone()).await;
        let outcome = client(&base_url).refund(&refund()).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{reply:?}: {outcome:?}");
    }
    for (code, label) in [
        ("TRANSACTION_NOT_FOUND", "rejected"),
        ("REFUND_EXCEEDS_TRANSACTION", "rejected"),
        ("RATE_LIMITED", "retry_later"),
        ("REFUND_NOT_FOUND", "retry_later"),
    ] {
        let (base_url, _) = far_side(Reply::Signed(409, error(code))).await;
        assert_eq!(client(&base_url).refund(&refund()).await.label(), label, "{code}");
    }
    let (base_url, _) = far_side(Reply::Signed(404, error("REFUND_NOT_FOUND"))).await;
    let Outcome::Accepted(told) = client(&base_url).query_refund(&refund().find()).await else { panic!() };
    assert!(!told.known && told.word.is_none());
}
