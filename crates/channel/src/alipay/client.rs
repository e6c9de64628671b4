//! Calls to the gateway. One HTTP exchange each, nothing is sent twice: whether a second one is safe is decided above.
//!
//! Parameters stand in the address and `biz_content` in the body; `charset` in the address, or the gateway would read the bytes
//! as GBK. An answer is believed when the signature over its node verifies.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use pay_types::{ChannelTxnId, ChannelWord, Money, PayNo, RefundWord};
use serde_json::{Map, Value, json};
use service_kit::Clock;
use time::format_description::FormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::amount;
use super::settings::{Product, Settings};
use super::sign::{self, Parameter};
use super::states::{self, Refusal};
use crate::accounts::Account;
use crate::port::{
    ChannelClient, Closed, CreateOrder, CreateRefund, Created, Credential, FindOrder, FindRefund, Outcome,
    Queried, RefundTold, StatedAmount,
};
use crate::strict_json;

/// The channel's one currency.
pub(super) const CURRENCY: &str = "CNY";
/// Times are in this zone, and say none.
const ZONE_HOURS: i8 = 8;
const TIME: &[FormatItem<'_>] = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
/// Largest answer: an order is a kilobyte.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest text or address for the payer that is kept.
const CREDENTIAL_BYTES_MAX: usize = 4096;
/// Where an amount or a time is no number of ours to look at.
const CODE_DONE: &str = "10000";

/// Calls over one account.
#[derive(Debug)]
pub struct Client {
    settings: Arc<Settings>,
    http: reqwest::Client,
    base_url: String,
    limit: Duration,
    clock: Clock,
}

/// An answer's node, and whether its signature verifies.
struct Answer {
    body: Map<String, Value>,
    verified: bool,
}

impl Answer {
    fn text(&self, name: &str) -> &str {
        strict_json::text(&self.body, name).unwrap_or_default()
    }

    fn is_done(&self) -> bool {
        self.verified && self.text("code") == CODE_DONE
    }

    fn refusal(&self) -> Option<Refusal> {
        states::refusal(self.text("code"), self.text("sub_code")).filter(|_| self.verified)
    }

    fn refused<T>(&self) -> Outcome<T> {
        if self.text("code") == CODE_DONE {
            return unknown("the answer's signature does not verify");
        }
        states::refused(self.text("code"), self.text("sub_code"), self.text("sub_msg"), self.verified)
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
        self.find_refund(refund).boxed()
    }
}

impl Client {
    #[must_use]
    pub fn new(
        account: &Account,
        settings: &Arc<Settings>,
        http: reqwest::Client,
        limit: Duration,
        clock: Clock,
    ) -> Self {
        Self { settings: Arc::clone(settings), http, base_url: account.base_url().to_owned(), limit, clock }
    }

    async fn create_order(&self, order: &CreateOrder) -> Outcome<Created> {
        let (method, product_code) = match self.settings.product {
            Product::Page => ("alipay.trade.page.pay", Some("FAST_INSTANT_TRADE_PAY")),
            Product::Wap => ("alipay.trade.wap.pay", Some("QUICK_WAP_WAY")),
            Product::Qr => ("alipay.trade.precreate", None),
        };
        let Some((amount, expire)) = in_yuan(order.amount).zip(local(order.expire_at)) else {
            return Outcome::Rejected {
                code: "FIELD_INVALID".to_owned(),
                message: "the channel takes CNY only, until a time with four digits of the year".to_owned(),
            };
        };
        let mut content = json!({
            "out_trade_no": order.pay_no.as_str(),
            "total_amount": amount,
            "subject": order.subject.as_str(),
            "time_expire": expire,
        });
        if let (Some(code), Some(fields)) = (product_code, content.as_object_mut()) {
            fields.insert("product_code".to_owned(), Value::from(code));
        }
        let content = content.to_string();
        if product_code.is_some() {
            // No call: the payer's browser brings the signed parameters to the gateway.
            let parameters = self.parameters(method, &content, Some(&order.notify_url));
            let url = format!("{}?{}", self.base_url, form(&parameters));
            return created(Credential::PayUrl(url));
        }
        match self.call(method, &content, Some(&order.notify_url)).await {
            Ok(answer) if answer.is_done() => {
                if answer.text("out_trade_no") != order.pay_no.as_str() {
                    return unknown("the answer is about another order");
                }
                match answer.text("qr_code") {
                    text if (1..=CREDENTIAL_BYTES_MAX).contains(&text.len()) => {
                        created(Credential::QrText(text.to_owned()))
                    }
                    _ => unknown("the order has nothing for the payer in it"),
                }
            }
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    async fn query_order(&self, pay_no: &PayNo) -> Outcome<Queried> {
        let content = json!({ "out_trade_no": pay_no.as_str() }).to_string();
        match self.call("alipay.trade.query", &content, None).await {
            Ok(answer) if answer.is_done() => queried(&answer, pay_no),
            // Made at the channel only when the payer scans: no word about the payment.
            Ok(answer) if answer.refusal() == Some(Refusal::NotKnown) => {
                Outcome::Accepted(Queried::not_known())
            }
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    /// Asked for at the payment's expiry, when its QR text and its page have expired too: a number that was never scanned can be
    /// paid no more.
    async fn close_order(&self, pay_no: &PayNo) -> Outcome<Closed> {
        let content = json!({ "out_trade_no": pay_no.as_str() }).to_string();
        match self.call("alipay.trade.close", &content, None).await {
            Ok(answer) if answer.is_done() => Outcome::Accepted(Closed::Closed),
            Ok(answer) if answer.refusal() == Some(Refusal::NotKnown) => Outcome::Accepted(Closed::Closed),
            // Paid while closing is the usual race: a query tells.
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    async fn make_refund(&self, refund: &CreateRefund) -> Outcome<RefundTold> {
        let Some(amount) = in_yuan(refund.amount) else {
            return Outcome::Rejected {
                code: "FIELD_INVALID".to_owned(),
                message: "the channel gives back CNY only".to_owned(),
            };
        };
        let content = json!({
            "out_trade_no": refund.pay_no.as_str(),
            "trade_no": refund.channel_txn_id.as_str(),
            "refund_amount": amount,
            "out_request_no": refund.refund_no.as_str(),
            "refund_reason": refund.reason,
        })
        .to_string();
        match self.call("alipay.trade.refund", &content, None).await {
            Ok(answer) if answer.is_done() => match answer.text("fund_change") {
                // What it says of amounts is the sum of all refunds; this one is what was asked for under its number.
                "Y" => Outcome::Accepted(told(
                    RefundWord::Succeeded,
                    refund.amount,
                    time_of(&answer, "gmt_refund_pay"),
                )),
                _ => unknown("the refund moved no money by this call: ask by its number"),
            },
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    async fn find_refund(&self, refund: &FindRefund) -> Outcome<RefundTold> {
        let content = json!({
            "out_trade_no": refund.pay_no.as_str(),
            "trade_no": refund.channel_txn_id.as_str(),
            "out_request_no": refund.refund_no.as_str(),
            "query_options": ["gmt_refund_pay"],
        })
        .to_string();
        match self.call("alipay.trade.fastpay.refund.query", &content, None).await {
            Ok(answer) if answer.is_done() => {
                if answer.text("refund_status") != "REFUND_SUCCESS" {
                    // Not received, or failed: the same refund may be sent again under its number.
                    return Outcome::Accepted(RefundTold::not_known());
                }
                if answer.text("out_request_no") != refund.refund_no.as_str() {
                    return unknown("the answer is about another refund");
                }
                match amount::fen(answer.text("refund_amount")) {
                    Some(minor) if minor == refund.amount.minor() => Outcome::Accepted(told(
                        RefundWord::Succeeded,
                        refund.amount,
                        time_of(&answer, "gmt_refund_pay"),
                    )),
                    _ => unknown("the refund stands for another amount"),
                }
            }
            Ok(answer) if answer.refusal() == Some(Refusal::NotKnown) => {
                Outcome::Accepted(RefundTold::not_known())
            }
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    /// Every parameter of a request, signed.
    fn parameters(&self, method: &str, content: &str, notify_url: Option<&str>) -> Vec<Parameter> {
        let now = local(self.clock.now()).unwrap_or_default();
        let mut all: Vec<(&str, &str)> = vec![
            ("app_id", &self.settings.app_id),
            ("method", method),
            ("format", "JSON"),
            ("charset", "utf-8"),
            ("sign_type", "RSA2"),
            ("timestamp", &now),
            ("version", "1.0"),
            ("biz_content", content),
        ];
        all.extend(notify_url.map(|url| ("notify_url", url)));
        let mut parameters: Vec<Parameter> =
            all.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
        let signature = sign::request(&self.settings.app_key, &parameters);
        parameters.push((b"sign".to_vec(), signature.into_bytes()));
        parameters
    }

    async fn call(
        &self,
        method: &str,
        content: &str,
        notify_url: Option<&str>,
    ) -> Result<Answer, &'static str> {
        let parameters = self.parameters(method, content, notify_url);
        let (body, query): (Vec<Parameter>, Vec<Parameter>) =
            parameters.into_iter().partition(|(name, _)| name == b"biz_content");
        let url = format!("{}?{}", self.base_url, form(&query));
        let sent = self.exchange(url, form(&body));
        let text =
            tokio::time::timeout(self.limit, sent).await.unwrap_or(Err("no answer within the time limit"))?;
        let text = std::str::from_utf8(&text).map_err(|_| "the answer is no UTF-8")?;
        let (node, verified) = sign::node(&self.settings.keys, text, method)
            .ok_or("the answer is in no form of the channel's")?;
        let body = strict_json::object(node.as_bytes()).ok_or("the answer's node is no JSON object")?;
        Ok(Answer { body, verified })
    }

    async fn exchange(&self, url: String, body: String) -> Result<Bytes, &'static str> {
        let mut response = self
            .http
            .post(url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded;charset=utf-8")
            .body(body)
            .send()
            .await
            .map_err(|_| "the connection was lost before an answer")?;
        if !response.status().is_success() {
            return Err("the gateway did not answer 200");
        }
        let mut body = BytesMut::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|_| "the connection was lost within the answer")?
        {
            if body.len().saturating_add(chunk.len()) > ANSWER_BYTES_MAX {
                return Err("the answer is larger than 64 KiB");
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }
}

fn created(credential: Credential) -> Outcome<Created> {
    Outcome::Accepted(Created { credential, channel_txn_id: None, channel_order_no: None })
}

fn told(word: RefundWord, amount: Money, occurred_at: Option<OffsetDateTime>) -> RefundTold {
    let amount = StatedAmount { minor: amount.minor(), currency: CURRENCY.to_owned() };
    RefundTold { known: true, word: Some(word), channel_refund_no: None, amount: Some(amount), occurred_at }
}

fn queried(answer: &Answer, pay_no: &PayNo) -> Outcome<Queried> {
    if answer.text("out_trade_no") != pay_no.as_str() {
        return unknown("the answer is about another order");
    }
    let paid_at = time_of(answer, "send_pay_date");
    let word = match answer.text("trade_status") {
        "WAIT_BUYER_PAY" => None,
        "TRADE_SUCCESS" | "TRADE_FINISHED" => Some(ChannelWord::Paid),
        // Closed after it was paid: everything went back. It counts as paid, and the refunds are their own facts.
        "TRADE_CLOSED" if paid_at.is_some() => Some(ChannelWord::Paid),
        "TRADE_CLOSED" => Some(ChannelWord::Closed),
        _ => return unknown("the order has a state that we do not know"),
    };
    let queried = Queried {
        known: true,
        word,
        channel_txn_id: answer.text("trade_no").parse::<ChannelTxnId>().ok(),
        amount: amount::fen(answer.text("total_amount"))
            .map(|minor| StatedAmount { minor, currency: CURRENCY.to_owned() }),
        occurred_at: paid_at,
    };
    let whole = queried.channel_txn_id.is_some() && queried.amount.is_some();
    if word == Some(ChannelWord::Paid) && !whole {
        return unknown("a paid order must say its transaction and amount");
    }
    Outcome::Accepted(queried)
}

/// Yuan of an amount in the channel's currency.
fn in_yuan(amount: Money) -> Option<String> {
    (amount.currency().code() == CURRENCY).then(|| amount::yuan(amount.minor()))
}

/// A time as the channel writes it.
fn local(at: OffsetDateTime) -> Option<String> {
    let zone = UtcOffset::from_hms(ZONE_HOURS, 0, 0).ok()?;
    at.checked_to_offset(zone)?.format(TIME).ok()
}

/// A time as the channel writes it, perhaps with milliseconds behind it.
pub(super) fn read_time(text: &str) -> Option<OffsetDateTime> {
    let zone = UtcOffset::from_hms(ZONE_HOURS, 0, 0).ok()?;
    let whole = text.get(..19)?;
    Some(PrimitiveDateTime::parse(whole, TIME).ok()?.assume_offset(zone))
}

fn time_of(answer: &Answer, name: &str) -> Option<OffsetDateTime> {
    read_time(answer.text(name))
}

fn form(parameters: &[Parameter]) -> String {
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(name), sign::encoded(value)))
        .collect();
    pairs.join("&")
}
