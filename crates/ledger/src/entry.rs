//! One fact, on its way into the books.

use std::fmt;
use std::str::FromStr;

use pay_types::{Invalid, MerchantId, OrderNo, PayNo, RefundNo};
use time::OffsetDateTime;

use crate::BalancedEntry;

/// Longest key of a fact, bytes: kind, channel and the longest transaction number need 157.
pub const MSG_KEY_BYTES_MAX: usize = 200;

/// Key of a fact, for example `PAY_SUCCEEDED:P…`. A fact that is told again has the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MsgKey(String);

impl MsgKey {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MsgKey {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let valid =
            !text.is_empty() && text.len() <= MSG_KEY_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic());
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("msg_key", "must be 1 to 200 printable ASCII characters without blanks"))
        }
    }
}

impl fmt::Display for MsgKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Number of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(i64);

impl EntryId {
    #[must_use]
    pub fn new(value: i64) -> Self {
        Self(value)
    }

    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Kinds of facts that are booked. What becomes of each is told by the rules of `ledger-consumer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A payment was paid.
    PaySucceeded,
    /// Money came that no payment wanted.
    ReceiptUnexpected,
    /// A receipt that was booked for a wrong amount is taken back.
    ReceiptWithdrawn,
    /// A refund was given to the channel.
    RefundSubmitted,
    /// The channel has given the money back.
    RefundSucceeded,
    /// The channel will not give the money back.
    RefundFailed,
    /// The money of a refund that had succeeded came home.
    RefundReturned,
}

impl EntryKind {
    /// As `entry.kind` and the event's type hold it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PaySucceeded => "PAY_SUCCEEDED",
            Self::ReceiptUnexpected => "RECEIPT_UNEXPECTED",
            Self::ReceiptWithdrawn => "RECEIPT_WITHDRAWN",
            Self::RefundSubmitted => "REFUND_SUBMITTED",
            Self::RefundSucceeded => "REFUND_SUCCEEDED",
            Self::RefundFailed => "REFUND_FAILED",
            Self::RefundReturned => "REFUND_RETURNED",
        }
    }
}

/// Which row of an account's balance a writer adds to. Writers with different shards never wait for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(i16);

impl Shard {
    /// The shard of a partition of the event topic; `None` beyond 32,767 partitions or below none.
    #[must_use]
    pub fn of_partition(partition: i32) -> Option<Self> {
        i16::try_from(partition).ok().filter(|shard| *shard >= 0).map(Self)
    }

    /// The value as PostgreSQL `SMALLINT` holds it.
    #[must_use]
    pub fn as_i16(self) -> i16 {
        self.0
    }
}

/// An entry to be booked.
#[derive(Debug, Clone)]
pub struct NewEntry {
    pub msg_key: MsgKey,
    pub kind: EntryKind,
    pub merchant_id: MerchantId,
    pub order_no: OrderNo,
    pub pay_no: PayNo,
    pub refund_no: Option<RefundNo>,
    /// When the fact happened by the channel's clock.
    pub occurred_at: OffsetDateTime,
    pub body: BalancedEntry,
}
