//! Calls to the generic channel. One HTTP exchange each, nothing is sent twice: whether a second one is safe is decided
//! above, in `guard.rs` and where the payment's row is.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use pay_types::{ChannelTxnId, ChannelWord, PayNo, RefundNo};
use serde_json::{Map, Value, json};
use service_kit::Clock;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::refund;
use super::sign::{self, Covered, Stamp};
use super::states::{self, Refusal, Status};
use crate::accounts::Account;
use crate::port::{
    ChannelClient, Closed, CreateOrder, CreateRefund, Created, Credential, FindOrder, FindRefund, Outcome,
    Queried, RefundTold, StatedAmount,
};
use crate::strict_json;

/// Largest answer: an order is a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest pay address that is kept.
const PAY_URL_BYTES_MAX: usize = 2048;

/// Calls over one account.
#[derive(Debug)]
pub struct Client {
    account: Arc<Account>,
    http: reqwest::Client,
    limit: Duration,
    clock: Clock,
}

/// An answer whose signature was checked.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Map<String, Value>,
}

/// Why there is no answer; something may have been sent.
struct NoAnswer(&'static str);

impl<T> From<NoAnswer> for Outcome<T> {
    fn from(none: NoAnswer) -> Self {
        unknown(none.0)
    }
}

pub(super) fn unknown<T>(why: &str) -> Outcome<T> {
    Outcome::Unknown { why: why.to_owned() }
}

impl ChannelClient for Client {
    fn create<'a>(&'a self, order: &'a CreateOrder) -> BoxFuture<'a, Outcome<Created>> {
        self.create_order(order).boxed()
    }

    fn query<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Queried>> {
        self.query_order(&order.pay_no).boxed()
    }

    fn close<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Closed>> {
        self.close_order(&order.pay_no).boxed()
    }

    fn refund<'a>(&'a self, refund: &'a CreateRefund) -> BoxFuture<'a, Outcome<RefundTold>> {
        self.make_refund(refund).boxed()
    }

    fn query_refund<'a>(&'a self, refund: &'a FindRefund) -> BoxFuture<'a, Outcome<RefundTold>> {
        self.find_refund(&refund.refund_no).boxed()
    }
}

impl Client {
    #[must_use]
    pub fn new(account: Arc<Account>, http: reqwest::Client, limit: Duration, clock: Clock) -> Self {
        Self { account, http, limit, clock }
    }

    async fn create_order(&self, order: &CreateOrder) -> Outcome<Created> {
        let Ok(expire_at) = order.expire_at.format(&Rfc3339) else {
            return Outcome::Rejected {
                code: "FIELD_INVALID".to_owned(),
                message: "expire_at is no time of RFC 3339".to_owned(),
            };
        };
        let body = json!({
            "merchant_id": order.merchant_id.as_str(),
            "pay_no": order.pay_no.as_str(),
            "amount": order.amount.minor(),
            "currency": order.amount.currency().code(),
            "subject": order.subject.as_str(),
            "expire_at": expire_at,
            "notify_url": order.notify_url,
        });
        let body = Bytes::from(body.to_string());
        match self.call(Method::POST, "/v1/orders", body).await {
            Ok(answer) => created(&answer, &order.pay_no),
            Err(none) => none.into(),
        }
    }

    async fn query_order(&self, pay_no: &PayNo) -> Outcome<Queried> {
        match self.call(Method::GET, &format!("/v1/orders/{pay_no}"), Bytes::new()).await {
            Ok(answer) if is_not_known(&answer) => Outcome::Accepted(Queried::not_known()),
            Ok(answer) => queried(&answer, pay_no),
            Err(none) => none.into(),
        }
    }

    async fn close_order(&self, pay_no: &PayNo) -> Outcome<Closed> {
        let answer = match self.call(Method::POST, &format!("/v1/orders/{pay_no}/close"), Bytes::new()).await
        {
            Ok(answer) => answer,
            Err(none) => return none.into(),
        };
        queried(&answer, pay_no).and_then(|order| match order.word {
            Some(ChannelWord::Closed) => Outcome::Accepted(Closed::Closed),
            Some(ChannelWord::Paid) => Outcome::Accepted(Closed::AlreadyPaid(order)),
            Some(ChannelWord::Failed) => unknown("the order has failed instead: query it"),
            None => unknown("the order is still open after its close: query it"),
        })
    }

    async fn make_refund(&self, refund: &CreateRefund) -> Outcome<RefundTold> {
        match self.call(Method::POST, "/v1/refunds", refund::body(refund)).await {
            Ok(answer) => refund::told(&answer, &refund.refund_no),
            Err(none) => none.into(),
        }
    }

    async fn find_refund(&self, refund_no: &RefundNo) -> Outcome<RefundTold> {
        match self.call(Method::GET, &format!("/v1/refunds/{refund_no}"), Bytes::new()).await {
            Ok(answer) if is_not_known(&answer) => Outcome::Accepted(RefundTold::not_known()),
            Ok(answer) => refund::told(&answer, refund_no),
            Err(none) => none.into(),
        }
    }

    /// One exchange, to the last byte of the answer, within the limit.
    async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, NoAnswer> {
        tokio::time::timeout(self.limit, self.exchange(method, path, body))
            .await
            .unwrap_or(Err(NoAnswer("no answer within the time limit")))
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, NoAnswer> {
        let url = reqwest::Url::parse(&format!("{}{path}", self.account.base_url()))
            .map_err(|_| NoAnswer("the address of the call is none"))?;
        let mut headers = HeaderMap::new();
        let covered = Covered::Request { method: method.as_str(), path_and_query: url.path() };
        let stamp = Stamp { at: self.clock.now(), nonce: &sign::fresh_nonce() };
        let key = self.account.current_key().ok_or(NoAnswer("the account has no shared secret"))?;
        sign::sign(&mut headers, key, covered, stamp, &body);
        if method == Method::POST {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let response = self
            .http
            .request(method, url)
            .headers(headers)
            .body(body)
            .send()
            .await
            .map_err(|_| NoAnswer("the connection was lost before an answer"))?;
        self.answer(response).await
    }

    async fn answer(&self, mut response: reqwest::Response) -> Result<Answer, NoAnswer> {
        let status = response.status();
        if !(status.is_success() || status.is_client_error()) {
            return Err(NoAnswer("the channel answered neither 2xx nor 4xx"));
        }
        let mut body = BytesMut::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len().saturating_add(chunk.len()) <= ANSWER_BYTES_MAX => {
                    body.extend_from_slice(&chunk);
                }
                Ok(Some(_)) => return Err(NoAnswer("the answer is larger than 64 KiB")),
                Ok(None) => break,
                Err(_) => return Err(NoAnswer("the connection was lost within the answer")),
            }
        }
        let covered = Covered::Answer { status: status.as_u16() };
        sign::verify(&self.account, covered, response.headers(), &body, self.clock.now())
            .map_err(|_| NoAnswer("the answer's signature does not verify"))?;
        let body = strict_json::object(&body).ok_or(NoAnswer("the answer is no JSON object of ours"))?;
        Ok(Answer { status, body })
    }
}

fn is_not_known(answer: &Answer) -> bool {
    answer.status.is_client_error()
        && strict_json::text(&answer.body, "code").and_then(states::refusal) == Some(Refusal::NotKnown)
}

/// The order in a 2xx answer, if it is about our number.
fn order<'a, T>(answer: &'a Answer, pay_no: &PayNo) -> Result<(&'a Map<String, Value>, Status), Outcome<T>> {
    let body = &answer.body;
    if !answer.status.is_success() {
        let code = strict_json::text(body, "code").unwrap_or_default();
        let message = strict_json::text(body, "message").unwrap_or_default();
        return Err(states::refused(answer.status.as_u16(), code, message));
    }
    if strict_json::text(body, "pay_no") != Some(pay_no.as_str()) {
        return Err(unknown("the answer is about another order"));
    }
    match strict_json::text(body, "status").and_then(states::status) {
        Some(status) => Ok((body, status)),
        None => Err(unknown("the order has a status that we do not know")),
    }
}

fn created(answer: &Answer, pay_no: &PayNo) -> Outcome<Created> {
    let body = match order(answer, pay_no) {
        Ok((body, _)) => body,
        Err(outcome) => return outcome,
    };
    match strict_json::text(body, "pay_url").filter(|url| (1..=PAY_URL_BYTES_MAX).contains(&url.len())) {
        Some(url) => Outcome::Accepted(Created {
            credential: Credential::PayUrl(url.to_owned()),
            channel_txn_id: channel_txn_id(body),
            channel_order_no: None,
        }),
        None => unknown("the order has no pay_url"),
    }
}

fn queried(answer: &Answer, pay_no: &PayNo) -> Outcome<Queried> {
    let (body, status) = match order(answer, pay_no) {
        Ok(order) => order,
        Err(outcome) => return outcome,
    };
    let minor = body.get("amount").and_then(Value::as_i64);
    let currency = strict_json::text(body, "currency").map(str::to_owned);
    let queried = Queried {
        known: true,
        word: match status {
            Status::Open => None,
            Status::Final(word) => Some(word),
        },
        channel_txn_id: channel_txn_id(body),
        amount: minor.zip(currency).map(|(minor, currency)| StatedAmount { minor, currency }),
        occurred_at: strict_json::text(body, "occurred_at")
            .and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok()),
    };
    let whole = queried.channel_txn_id.is_some() && queried.amount.is_some() && queried.occurred_at.is_some();
    if queried.word == Some(ChannelWord::Paid) && !whole {
        return unknown("a paid order must say its transaction, amount, currency and time");
    }
    Outcome::Accepted(queried)
}

fn channel_txn_id(body: &Map<String, Value>) -> Option<ChannelTxnId> {
    strict_json::text(body, "channel_txn_id").and_then(|text| text.parse().ok())
}
