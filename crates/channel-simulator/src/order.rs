//! One order in the book.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::plan::Fate;

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
    pub(crate) account: String,
    pub(crate) terms: Terms,
    pub(crate) status: Status,
    pub(crate) charges: Vec<Charge>,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) changed_at: OffsetDateTime,
    pub(crate) counts: Counts,
    pub(crate) fate: Fate,
}

impl Order {
    pub(crate) fn new(account: &str, terms: Terms, fate: Fate, now: OffsetDateTime) -> Self {
        Self {
            account: account.to_owned(),
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

    pub(crate) fn view(&self) -> OrderView {
        OrderView {
            pay_no: self.terms.pay_no.clone(),
            account: self.account.clone(),
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
    pub account: String,
    pub merchant_id: String,
    /// Minor units.
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
