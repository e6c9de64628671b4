//! What the control calls take and give: the vocabulary of tests and of the demo.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::order::OrderView;
use crate::refund::RefundView;

/// The whole book.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookView {
    pub totals: Totals,
    /// In the order of creation; empty when the call asks for totals only.
    pub orders: Vec<OrderView>,
    /// In the order of creation; empty when the call asks for totals only.
    pub refunds: Vec<RefundView>,
}

/// Sums over the book since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Distinct orders.
    pub orders: u64,
    /// Verified create calls, repeats and refused ones included.
    pub create_calls: u64,
    pub orders_created: u64,
    pub orders_paid: u64,
    pub orders_closed: u64,
    pub orders_failed: u64,
    /// Times money was taken.
    pub charges: u64,
    /// Minor units taken, by currency.
    pub charged: BTreeMap<String, i64>,
    /// Distinct refunds.
    pub refunds: u64,
    /// Verified refund calls, repeats and refused ones included.
    pub refund_calls: u64,
    /// Minor units that went back, by currency.
    pub refunded: BTreeMap<String, i64>,
    /// Notices about refunds, copies and repeats included.
    pub refund_notices_sent: u64,
    /// Genuine notices about payments that were sent, copies and repeats included.
    pub notices_sent: u64,
    /// Those of them that were answered 2xx.
    pub notices_acked: u64,
    /// First sendings that were left out on purpose.
    pub notices_lost_first: u64,
    /// Late `payment.closed` notices about paid orders, copies included.
    pub closed_after_paid_sent: u64,
    /// Lies by kind: distinct ones, however often each was sent.
    pub lies: LieTotals,
    /// Notices and payments that still wait to be done, those in hand included.
    pub pending: u64,
    /// Notices that had no 2xx after the last try.
    pub given_up: u64,
    /// Notices and payments that found no place in the queue.
    pub dropped: u64,
    /// Messages of `POST /control/notices`.
    pub direct_notices: u64,
}

/// Lies that were told, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LieTotals {
    pub wrong_amount: u64,
    pub unknown_pay_no: u64,
    pub bad_signature: u64,
    pub stale_timestamp: u64,
    pub foreign_account: u64,
    pub probe_signature: u64,
}

/// How one order is paid; what is left out, the plan decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PayOptions {
    /// No notice at all: only a query finds out.
    pub silent: bool,
    /// Copies of the notice.
    pub repeats: Option<u32>,
    /// Wait before the notice, milliseconds.
    pub notice_delay_ms: Option<u64>,
    /// The first sending is left out.
    pub lose: Option<bool>,
}

/// A refund that is made at the channel itself, not by a call of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RefundOptions {
    /// Minor units; all of the order's amount.
    pub amount: Option<i64>,
    /// The transaction; the first.
    pub channel_txn_id: Option<String>,
}

/// How a direct notice is signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Signature {
    #[default]
    Valid,
    /// Of another body.
    Wrong,
    /// The header or the field is left out.
    Missing,
    /// One that begins `WECHATPAY/SIGNTEST/`; of the other channels as good as a wrong one.
    Probe,
}

/// A notice of the caller's making, sent at once. Fields that are left out are filled from the order of `pay_no`, if the
/// book has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DirectNotice {
    /// Whose protocol; the order's channel, else `generic`.
    pub channel: Option<String>,
    /// Whose keys sign; the order's account, else the first in the file.
    pub account: Option<String>,
    /// Where to; the order's `notify_url`, else the account's.
    pub url: Option<String>,
    /// `POST`.
    pub method: Option<String>,
    pub notify_id: Option<String>,
    /// `payment.succeeded`.
    pub event: Option<String>,
    pub merchant_id: Option<String>,
    pub pay_no: Option<String>,
    /// Of a notice about a refund: our number of it, and the channel's own.
    pub refund_no: Option<String>,
    pub channel_refund_no: Option<String>,
    /// The order's transaction, else a new one. Empty: the field is left out.
    pub channel_txn_id: Option<String>,
    pub amount: Option<i64>,
    pub currency: Option<String>,
    /// RFC 3339; now.
    pub occurred_at: Option<String>,
    /// The whole body, in place of the fields above.
    pub body: Option<String>,
    pub signature: Signature,
    /// The key id that is claimed. One that the account has also signs; else the current key does.
    pub key_id: Option<String>,
    /// The path and query that are signed, in place of those called.
    pub signed_path: Option<String>,
    /// Unix seconds; now.
    pub timestamp: Option<i64>,
    /// Added to the timestamp, seconds.
    pub timestamp_offset_s: i64,
    /// The nonce of every copy.
    pub nonce: Option<String>,
    /// A nonce for each copy, in place of one for all.
    pub fresh_nonces: bool,
    /// More headers.
    pub headers: BTreeMap<String, String>,
    /// Copies; 1.
    pub repeats: Option<u32>,
    /// Copies on their way at the same time; 1.
    pub parallel: Option<u32>,
}

/// The answer to one copy of a direct notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// HTTP status; `None` when no answer came.
    pub status: Option<u16>,
    pub body: String,
}
