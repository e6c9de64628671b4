//! One order in the book.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::fate::Fate;
use crate::sides::Owner;
use crate::{alipay, stripe, wechatpay};

/// State of an order at the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    Created,
    Paid,
    Closed,
    Failed,
}

/// What a create call asks for. A repeat must be equal in all of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Terms {
    pub(crate) merchant_id: String,
    pub(crate) pay_no: String,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) subject: String,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) expire_at: OffsetDateTime,
    pub(crate) notify_url: String,
}

impl Terms {
    /// Whether a repeat asks for the same. Only the generic channel compares the time of expiry: the others let callers name
    /// it as a span, which every call begins anew.
    fn same_as(&self, other: &Self, form: &Form) -> bool {
        match form {
            Form::Generic => self == other,
            Form::Alipay(_) | Form::WechatPay(_) | Form::Stripe(_) => {
                let other = Self { expire_at: self.expire_at, ..other.clone() };
                *self == other
            }
        }
    }
}

/// What an order is in its channel's protocol.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    Generic,
    Alipay(alipay::Trade),
    WechatPay(wechatpay::Deal),
    Stripe(Box<stripe::Object>),
}

/// An order that is asked for.
#[derive(Debug)]
pub(crate) struct NewOrder {
    pub(crate) owner: Owner,
    /// What the book knows it by: our number, or the channel's own where ours is no handle.
    pub(crate) key: String,
    pub(crate) form: Form,
    pub(crate) terms: Terms,
}

/// Money taken from a payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) channel_txn_id: String,
    pub(crate) at: OffsetDateTime,
}

/// Counts of what was done for one order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) create_calls: u64,
    pub(crate) query_calls: u64,
    pub(crate) close_calls: u64,
    pub(crate) notices_sent: u64,
    pub(crate) notices_acked: u64,
}

/// An order.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// Account whose key made it.
    pub(crate) owner: Owner,
    pub(crate) key: String,
    pub(crate) form: Form,
    pub(crate) terms: Terms,
    pub(crate) status: Status,
    pub(crate) charges: Vec<Charge>,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) changed_at: OffsetDateTime,
    pub(crate) counts: Counts,
    pub(crate) fate: Fate,
}

impl Order {
    pub(crate) fn new(asked: NewOrder, fate: Fate, now: OffsetDateTime) -> Self {
        let NewOrder { owner, key, form, terms } = asked;
        Self {
            owner,
            key,
            form,
            terms,
            status: Status::Created,
            charges: Vec::new(),
            created_at: now,
            changed_at: now,
            counts: Counts { create_calls: 1, ..Counts::default() },
            fate,
        }
    }

    /// An unpaid order is closed by its time. Looked at whenever the order is touched.
    pub(crate) fn expire(&mut self, now: OffsetDateTime) {
        if self.status == Status::Created && self.terms.expire_at <= now {
            self.status = Status::Closed;
            self.changed_at = self.terms.expire_at;
        }
    }

    /// Whether a create call asks for what this order is.
    pub(crate) fn is(&self, asked: &NewOrder) -> bool {
        self.owner == asked.owner && self.terms.same_as(&asked.terms, &self.form)
    }

    /// Whether the payer's side has met it; before, Alipay knows no such trade.
    pub(crate) fn is_met(&self) -> bool {
        match &self.form {
            Form::Alipay(trade) => trade.met || self.status != Status::Created,
            Form::Generic | Form::WechatPay(_) | Form::Stripe(_) => true,
        }
    }

    pub(crate) fn view(&self) -> OrderView {
        OrderView {
            pay_no: self.terms.pay_no.clone(),
            channel: self.owner.channel.as_str().to_owned(),
            account: self.owner.account.clone(),
            key: self.key.clone(),
            merchant_id: self.terms.merchant_id.clone(),
            amount: self.terms.amount,
            currency: self.terms.currency.clone(),
            subject: self.terms.subject.clone(),
            status: self.status,
            channel_txn_id: self.charges.first().map(|charge| charge.channel_txn_id.clone()),
            channel_txn_ids: self.charges.iter().map(|charge| charge.channel_txn_id.clone()).collect(),
            charges: u64::try_from(self.charges.len()).unwrap_or(u64::MAX),
            create_calls: self.counts.create_calls,
            query_calls: self.counts.query_calls,
            close_calls: self.counts.close_calls,
            notices_sent: self.counts.notices_sent,
            notices_acked: self.counts.notices_acked,
            refunds: 0,
            refunded: 0,
            notify_url: self.terms.notify_url.clone(),
            created_at: self.created_at,
            expire_at: self.terms.expire_at,
        }
    }
}

/// An order as the control calls show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderView {
    pub pay_no: String,
    pub channel: String,
    pub account: String,
    /// The channel's handle of it, as good as `pay_no` in control calls: of Stripe the object's id, else `pay_no`.
    pub key: String,
    pub merchant_id: String,
    /// Minor units by ISO 4217, whatever the protocol counts in.
    pub amount: i64,
    pub currency: String,
    pub subject: String,
    pub status: Status,
    /// The first transaction.
    pub channel_txn_id: Option<String>,
    /// All transactions; more than one only by `second-transaction`.
    pub channel_txn_ids: Vec<String>,
    /// Times money was taken.
    pub charges: u64,
    /// Verified create calls for this number, the first included.
    pub create_calls: u64,
    pub query_calls: u64,
    pub close_calls: u64,
    /// Notices about it that were sent: genuine ones and repeats, not lies.
    pub notices_sent: u64,
    /// Those of them that were answered 2xx.
    pub notices_acked: u64,
    /// Refunds of its money that were made and did not fail, and their minor units; told by the whole book only.
    pub refunds: u64,
    pub refunded: i64,
    pub notify_url: String,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub expire_at: OffsetDateTime,
}
