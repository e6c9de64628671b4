//! Calls to WeChat Pay. One HTTP exchange each, nothing is sent twice: whether a second one is safe is decided above, in
//! `guard.rs` and where the payment's row is.
//!
//! A 2xx is believed when its signature verifies. An error may come without one, from a gateway that does not know whose call
//! it was: such an error is a hint that may make us wait or ask, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use pay_types::{ChannelTxnId, ChannelWord, Money, PayNo, RefundNo};
use serde_json::{Map, Value, json};
use service_kit::Clock;
use time::UtcOffset;
use time::format_description::well_known::Rfc3339;

use super::exchange::{Exchange, RawAnswer};
use super::keys;
use super::notice::{CHANNEL_REFUND_NO_BYTES_MAX, CURRENCY, Reader, amount, currency, printable, time_of};
use super::settings::{Product, Settings};
use super::sign::{self, SIGNATURE};
use super::states::{self, Refusal, TradeState};
use crate::accounts::Account;
use crate::port::{
    ChannelClient, Closed, CreateOrder, CreateRefund, Created, Credential, FindOrder, FindRefund,
    NoticeReason, Outcome, Queried, RefundTold, StatedAmount,
};
use crate::{strict_header, strict_json};

/// Longest description of an order, characters; longer subjects are cut.
const DESCRIPTION_CHARS_MAX: usize = 127;
/// Longest text or address for the payer that is kept.
const CREDENTIAL_BYTES_MAX: usize = 2048;
/// The channel writes and reads times in this offset.
const OFFSET_HOURS: i8 = 8;

/// Calls over one account.
#[derive(Debug)]
pub struct Client {
    settings: Arc<Settings>,
    exchange: Exchange,
}

/// What one account's client and reader need; both are made from it and share the account's keys.
#[derive(Debug, Clone)]
pub struct Wire {
    pub http: reqwest::Client,
    pub limit: Duration,
    pub clock: Clock,
}

impl Wire {
    /// The client of an account.
    #[must_use]
    pub fn client(&self, account: &Account, settings: &Arc<Settings>) -> Client {
        Client { settings: Arc::clone(settings), exchange: self.exchange(account) }
    }

    /// The reader of an account's notices.
    #[must_use]
    pub fn reader(&self, account: &Account, settings: &Arc<Settings>) -> Reader {
        Reader::with(Arc::clone(settings), self.exchange(account))
    }

    fn exchange(&self, account: &Account) -> Exchange {
        Exchange::new(self.http.clone(), account.base_url(), self.limit, self.clock.clone())
    }
}

/// An answer that may be read: a 2xx or a 4xx whose signature was checked, or a 4xx without one.
struct Answer {
    status: StatusCode,
    body: Map<String, Value>,
    verified: bool,
}

impl Answer {
    fn code(&self) -> &str {
        strict_json::text(&self.body, "code").unwrap_or_default()
    }

    fn refusal(&self) -> Option<Refusal> {
        if self.status.is_success() { None } else { states::refusal(self.code()) }
    }

    fn refused<T>(&self) -> Outcome<T> {
        let message = strict_json::text(&self.body, "message").unwrap_or_default();
        states::refused(self.status.as_u16(), self.code(), message, self.verified)
    }
}

fn unknown<T>(why: &str) -> Outcome<T> {
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
    async fn create_order(&self, order: &CreateOrder) -> Outcome<Created> {
        let (path, field) = match self.settings.product {
            Product::Native => ("/v3/pay/transactions/native", "code_url"),
            Product::H5 => ("/v3/pay/transactions/h5", "h5_url"),
        };
        let body = match self.order_body(order) {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        let answer = match self.call(Method::POST, path, body).await {
            Ok(answer) if answer.status.is_success() => answer,
            Ok(answer) => return answer.refused(),
            Err(why) => return unknown(why),
        };
        let text = strict_json::text(&answer.body, field)
            .filter(|text| (1..=CREDENTIAL_BYTES_MAX).contains(&text.len()))
            .map(str::to_owned);
        match text.zip(Some(self.settings.product)) {
            Some((text, Product::Native)) => accepted(Credential::QrText(text)),
            Some((url, Product::H5)) => accepted(Credential::PayUrl(url)),
            None => unknown("the order has nothing for the payer in it"),
        }
    }

    /// The body of a create. A repeat is the same bytes.
    fn order_body(&self, order: &CreateOrder) -> Result<Bytes, Outcome<Created>> {
        in_yuan(order.amount)?;
        let offset = UtcOffset::from_hms(OFFSET_HOURS, 0, 0).expect("eight hours are an offset");
        let time_expire = order
            .expire_at
            .checked_to_offset(offset)
            .and_then(|at| at.replace_nanosecond(0).ok()?.format(&Rfc3339).ok())
            .ok_or_else(|| field_invalid("expire_at is no time of RFC 3339"))?;
        let description: String = order.subject.as_str().chars().take(DESCRIPTION_CHARS_MAX).collect();
        let mut body = json!({
            "appid": self.settings.appid,
            "mchid": self.settings.mchid,
            "description": description,
            "out_trade_no": order.pay_no.as_str(),
            "time_expire": time_expire,
            "notify_url": order.notify_url,
            "amount": { "total": order.amount.minor(), "currency": CURRENCY },
        });
        if let (Product::H5, Some(fields)) = (self.settings.product, body.as_object_mut()) {
            let scene = json!({ "payer_client_ip": self.settings.h5_payer_ip, "h5_info": { "type": "Wap" } });
            fields.insert("scene_info".to_owned(), scene);
        }
        Ok(Bytes::from(body.to_string()))
    }

    async fn query_order(&self, pay_no: &PayNo) -> Outcome<Queried> {
        let path = format!("/v3/pay/transactions/out-trade-no/{pay_no}?mchid={}", self.settings.mchid);
        match self.call(Method::GET, &path, Bytes::new()).await {
            Ok(answer) if answer.status.is_success() => self.queried(&answer.body, pay_no),
            Ok(answer) if answer.refusal() == Some(Refusal::NotKnown) => {
                Outcome::Accepted(Queried::not_known())
            }
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    fn queried(&self, body: &Map<String, Value>, pay_no: &PayNo) -> Outcome<Queried> {
        if strict_json::text(body, "out_trade_no") != Some(pay_no.as_str()) {
            return unknown("the answer is about another order");
        }
        if strict_json::text(body, "mchid") != Some(&self.settings.mchid)
            || strict_json::text(body, "appid") != Some(&self.settings.appid)
        {
            return unknown("the answer is about another account's order");
        }
        let Some(state) = strict_json::text(body, "trade_state").and_then(states::trade_state) else {
            return unknown("the order has a state that we do not know");
        };
        let queried = Queried {
            known: true,
            word: match state {
                TradeState::Open => None,
                TradeState::Final(word) => Some(word),
            },
            channel_txn_id: strict_json::text(body, "transaction_id")
                .and_then(|text| text.parse::<ChannelTxnId>().ok()),
            amount: stated(body, "total"),
            occurred_at: time_of(body, "success_time"),
        };
        let whole =
            queried.channel_txn_id.is_some() && queried.amount.is_some() && queried.occurred_at.is_some();
        if queried.word == Some(ChannelWord::Paid) && !whole {
            return unknown("a paid order must say its transaction, amount and time");
        }
        Outcome::Accepted(queried)
    }

    async fn close_order(&self, pay_no: &PayNo) -> Outcome<Closed> {
        let path = format!("/v3/pay/transactions/out-trade-no/{pay_no}/close");
        let body = Bytes::from(json!({ "mchid": self.settings.mchid }).to_string());
        match self.call(Method::POST, &path, body).await {
            Ok(answer) if answer.status == StatusCode::NO_CONTENT => Outcome::Accepted(Closed::Closed),
            Ok(answer) if answer.status.is_success() => unknown("the close was answered with something else"),
            Ok(answer) if answer.verified && answer.refusal() == Some(Refusal::Closed) => {
                Outcome::Accepted(Closed::Closed)
            }
            // Paid, for one: the query brings its transaction and amount.
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    async fn make_refund(&self, refund: &CreateRefund) -> Outcome<RefundTold> {
        if let Err(outcome) = in_yuan(refund.amount).and_then(|()| in_yuan(refund.paid)) {
            return outcome;
        }
        let body = json!({
            "transaction_id": refund.channel_txn_id.as_str(),
            "out_refund_no": refund.refund_no.as_str(),
            "reason": refund.reason,
            "notify_url": refund.notify_url,
            "amount": {
                "refund": refund.amount.minor(),
                "total": refund.paid.minor(),
                "currency": CURRENCY,
            },
        });
        match self.call(Method::POST, "/v3/refund/domestic/refunds", Bytes::from(body.to_string())).await {
            Ok(answer) if answer.status.is_success() => refund_told(&answer.body, &refund.refund_no),
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    async fn find_refund(&self, refund_no: &RefundNo) -> Outcome<RefundTold> {
        let path = format!("/v3/refund/domestic/refunds/{refund_no}");
        match self.call(Method::GET, &path, Bytes::new()).await {
            Ok(answer) if answer.status.is_success() => refund_told(&answer.body, refund_no),
            Ok(answer) if answer.refusal() == Some(Refusal::NotKnown) => {
                Outcome::Accepted(RefundTold::not_known())
            }
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    /// One call and its answer, as far as it may be read.
    async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, &'static str> {
        let raw = self.exchange.send(&self.settings, method, path, body).await?;
        let status = raw.status;
        if !(status.is_success() || status.is_client_error()) {
            return Err("the channel answered neither 2xx nor 4xx");
        }
        let is_signed = raw.headers.contains_key(SIGNATURE);
        if is_signed {
            self.verify(&raw).await?;
        } else if status.is_success() {
            return Err("the answer has no signature");
        }
        let body = if raw.body.is_empty() {
            Map::new()
        } else {
            strict_json::object(&raw.body).ok_or("the answer is no JSON object")?
        };
        Ok(Answer { status, body, verified: is_signed })
    }

    /// Checks the answer's signature, if need be with a certificate that is fetched now.
    async fn verify(&self, raw: &RawAnswer) -> Result<(), &'static str> {
        let now = self.exchange.now();
        let mut verified = sign::verify(&self.settings, &raw.headers, &raw.body, now);
        if let Err(error) = &verified
            && error.reason == NoticeReason::KeyUnknown
            && let Some(serial) = strict_header::single(&raw.headers, &sign::SERIAL)
        {
            keys::refreshed(&self.settings, &self.exchange, serial).await;
            verified = sign::verify(&self.settings, &raw.headers, &raw.body, now);
        }
        match verified {
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::debug!(error = %error, "an answer does not verify");
                Err("the answer's signature does not verify")
            }
        }
    }
}

fn accepted(credential: Credential) -> Outcome<Created> {
    Outcome::Accepted(Created { credential, channel_txn_id: None, channel_order_no: None })
}

fn refund_told(body: &Map<String, Value>, refund_no: &RefundNo) -> Outcome<RefundTold> {
    if strict_json::text(body, "out_refund_no") != Some(refund_no.as_str()) {
        return unknown("the answer is about another refund");
    }
    let Some(word) = strict_json::text(body, "status").and_then(states::refund_word) else {
        return unknown("the refund has a status that we do not know");
    };
    let Some(stated) = stated(body, "refund") else {
        return unknown("a refund must say its amount");
    };
    Outcome::Accepted(RefundTold {
        known: true,
        word: Some(word),
        channel_refund_no: printable(body, "refund_id", CHANNEL_REFUND_NO_BYTES_MAX),
        amount: Some(stated),
        occurred_at: time_of(body, "success_time"),
    })
}

/// An amount of an answer; where it names no currency, the one that there is.
fn stated(body: &Map<String, Value>, name: &str) -> Option<StatedAmount> {
    let currency = currency(body)?.unwrap_or_else(|| CURRENCY.to_owned());
    Some(StatedAmount { minor: amount(body, name)?, currency })
}

/// Only yuan can be paid, in whole fen, as `Money` has them: anything else is refused before it is sent.
fn in_yuan<T>(money: Money) -> Result<(), Outcome<T>> {
    if money.currency().code() == CURRENCY {
        Ok(())
    } else {
        Err(field_invalid("the channel takes CNY only"))
    }
}

fn field_invalid<T>(message: &str) -> Outcome<T> {
    Outcome::Rejected { code: "FIELD_INVALID".to_owned(), message: message.to_owned() }
}
