//! A notice of the generic channel: its body and its signature.

use std::sync::Arc;

use bytes::Bytes;
use channel::Account;
use channel::generic::sign::{self, Covered, Stamp};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::app::Simulator;
use crate::control_types::Signature;
use crate::letter::{Event, Sealed};
use crate::order::Order;
use crate::refund::RefundStatus;

/// What a notice says.
#[derive(Debug, Clone)]
pub(crate) struct Fact<'a> {
    pub(crate) notify_id: &'a str,
    pub(crate) event: &'a str,
    pub(crate) merchant_id: &'a str,
    pub(crate) pay_no: &'a str,
    /// Empty: the channel has none.
    pub(crate) channel_txn_id: &'a str,
    pub(crate) amount: i64,
    pub(crate) currency: &'a str,
    pub(crate) occurred_at: String,
    /// Our number of the refund and the channel's own; of a fact about a refund only.
    pub(crate) refund: Option<(&'a str, &'a str)>,
}

impl<'a> Fact<'a> {
    /// What is true about an order.
    pub(crate) fn about(order: &'a Order, event: &'a str, notify_id: &'a str) -> Self {
        Self {
            notify_id,
            event,
            merchant_id: &order.terms.merchant_id,
            pay_no: &order.terms.pay_no,
            channel_txn_id: "",
            amount: order.terms.amount,
            currency: &order.terms.currency,
            occurred_at: text(order.changed_at),
            refund: None,
        }
    }

    pub(crate) fn body(&self) -> Bytes {
        let mut map = Map::new();
        for (name, value) in [
            ("notify_id", json!(self.notify_id)),
            ("event", json!(self.event)),
            ("merchant_id", json!(self.merchant_id)),
            ("pay_no", json!(self.pay_no)),
            ("channel_txn_id", json!(self.channel_txn_id)),
            ("amount", json!(self.amount)),
            ("currency", json!(self.currency)),
            ("occurred_at", json!(self.occurred_at)),
        ] {
            if !(name == "channel_txn_id" && self.channel_txn_id.is_empty()) {
                map.insert(name.to_owned(), value);
            }
        }
        if let Some((refund_no, channel_refund_no)) = self.refund {
            map.insert("refund_no".to_owned(), json!(refund_no));
            map.insert("channel_refund_no".to_owned(), json!(channel_refund_no));
        }
        Bytes::from(Value::Object(map).to_string())
    }
}

/// RFC 3339.
pub(crate) fn text(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_default()
}

/// A message ready to be signed.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) account: Arc<Account>,
    pub(crate) method: Method,
    pub(crate) url: reqwest::Url,
    pub(crate) body: Bytes,
    pub(crate) signature: Signature,
    pub(crate) key_id: Option<String>,
    pub(crate) signed_path: Option<String>,
    pub(crate) at: OffsetDateTime,
    pub(crate) nonce: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Message {
    /// A sound notice to `url`.
    pub(crate) fn new(account: Arc<Account>, url: reqwest::Url, body: Bytes, at: OffsetDateTime) -> Self {
        Self {
            account,
            method: Method::POST,
            url,
            body,
            signature: Signature::Valid,
            key_id: None,
            signed_path: None,
            at,
            nonce: sign::fresh_nonce(),
            headers: Vec::new(),
        }
    }

    fn signed_headers(&self) -> HeaderMap {
        let called = match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        };
        let path_and_query = self.signed_path.as_deref().unwrap_or(&called);
        let covered = Covered::Request { method: self.method.as_str(), path_and_query };
        let claimed = self.key_id.as_deref();
        let key = claimed
            .and_then(|id| self.account.key(id))
            .or_else(|| self.account.current_key())
            .expect("a generic notice is made for an account of the generic channel");
        let body = match self.signature {
            Signature::Wrong | Signature::Probe => Bytes::from_static(b"something else"),
            Signature::Valid | Signature::Missing => self.body.clone(),
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        sign::sign(&mut headers, key, covered, Stamp { at: self.at, nonce: &self.nonce }, &body);
        if let Some(claimed) = claimed.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(sign::KEY_ID, claimed);
        }
        if self.signature == Signature::Missing {
            headers.remove(sign::SIGNATURE);
        }
        headers.extend(self.headers.iter().map(|(name, value)| (Some(name.clone()), value.clone())));
        headers
    }

    /// As it goes on the wire.
    pub(crate) fn sealed(&self) -> Sealed {
        Sealed { headers: self.signed_headers(), body: self.body.clone() }
    }
}

/// A notice that is signed anew for each sending.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    account: Arc<Account>,
    body: Bytes,
}

impl Letter {
    pub(crate) fn seal(&self, url: &reqwest::Url, at: OffsetDateTime, signature: Signature) -> Sealed {
        let message = Message::new(Arc::clone(&self.account), url.clone(), self.body.clone(), at);
        Message { signature, ..message }.sealed()
    }
}

/// The notice about an event; `None` where the channel has no word for it.
pub(crate) fn letters(simulator: &Simulator, order: &Order, event: Event<'_>) -> Option<Letter> {
    let account = Arc::clone(simulator.account(&order.owner.account)?);
    let notify_id = simulator.book.ids().id("N");
    let about = |event| Fact::about(order, event, &notify_id);
    let body = match event {
        Event::Paid(charge) => Fact {
            channel_txn_id: &charge.channel_txn_id,
            occurred_at: text(charge.at),
            ..about("payment.succeeded")
        }
        .body(),
        // An older message about a paid order says what was true before the payment.
        Event::Closed if !order.charges.is_empty() => {
            Fact { occurred_at: text(order.created_at), ..about("payment.closed") }.body()
        }
        Event::Closed => about("payment.closed").body(),
        Event::Failed => about("payment.failed").body(),
        Event::Declined => return None,
        Event::Refund { refund, .. } => {
            let event = match refund.status {
                RefundStatus::Accepted => return None,
                RefundStatus::Succeeded => "refund.succeeded",
                RefundStatus::Failed => "refund.failed",
                RefundStatus::Abnormal => "refund.abnormal",
            };
            Fact {
                channel_txn_id: &refund.terms.channel_txn_id,
                amount: refund.terms.amount,
                occurred_at: text(refund.changed_at),
                refund: Some((&refund.terms.refund_no, &refund.channel_refund_no)),
                ..about(event)
            }
            .body()
        }
    };
    Some(Letter { account, body })
}
