//! A fact about a payment, checked and typed: what an event says, once it is believed.

use ledger::MsgKey;
use pay_types::{
    AttemptNo, ChannelAccount, ChannelCode, ChannelTxnId, MerchantId, Money, OrderNo, PayNo, RefundNo,
};
use time::OffsetDateTime;

/// Kinds of facts that this version knows. An unknown one is parked, never passed over: it may be money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    PayCreated,
    PaySucceeded,
    PayFailed,
    PayClosed,
    ReceiptUnexpected,
    ReceiptWithdrawn,
    RefundSubmitted,
    RefundSucceeded,
    RefundFailed,
    RefundCreated,
    RefundAccepted,
    RefundRejected,
    RefundReturned,
}

impl Kind {
    pub const ALL: [Self; 13] = [
        Self::PayCreated,
        Self::PaySucceeded,
        Self::PayFailed,
        Self::PayClosed,
        Self::ReceiptUnexpected,
        Self::ReceiptWithdrawn,
        Self::RefundSubmitted,
        Self::RefundSucceeded,
        Self::RefundFailed,
        Self::RefundCreated,
        Self::RefundAccepted,
        Self::RefundRejected,
        Self::RefundReturned,
    ];

    /// As the event's type tells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        use contract::event::kind;
        match self {
            Self::PayCreated => kind::PAY_CREATED,
            Self::PaySucceeded => kind::PAY_SUCCEEDED,
            Self::PayFailed => kind::PAY_FAILED,
            Self::PayClosed => kind::PAY_CLOSED,
            Self::ReceiptUnexpected => kind::RECEIPT_UNEXPECTED,
            Self::ReceiptWithdrawn => kind::RECEIPT_WITHDRAWN,
            Self::RefundSubmitted => kind::REFUND_SUBMITTED,
            Self::RefundSucceeded => kind::REFUND_SUCCEEDED,
            Self::RefundFailed => kind::REFUND_FAILED,
            Self::RefundCreated => kind::REFUND_CREATED,
            Self::RefundAccepted => kind::REFUND_ACCEPTED,
            Self::RefundRejected => kind::REFUND_REJECTED,
            Self::RefundReturned => kind::REFUND_RETURNED,
        }
    }

    /// Whether it is about a refund, so that it must have the refund's number and kind.
    #[must_use]
    pub fn is_refund(self) -> bool {
        match self {
            Self::RefundSubmitted
            | Self::RefundSucceeded
            | Self::RefundFailed
            | Self::RefundCreated
            | Self::RefundAccepted
            | Self::RefundRejected
            | Self::RefundReturned => true,
            Self::PayCreated
            | Self::PaySucceeded
            | Self::PayFailed
            | Self::PayClosed
            | Self::ReceiptUnexpected
            | Self::ReceiptWithdrawn => false,
        }
    }

    /// Whether money moved, so that the channel must have a number for it.
    #[must_use]
    pub fn moves_money(self) -> bool {
        match self {
            Self::PaySucceeded
            | Self::ReceiptUnexpected
            | Self::ReceiptWithdrawn
            | Self::RefundSubmitted
            | Self::RefundSucceeded
            | Self::RefundFailed
            | Self::RefundReturned => true,
            Self::PayCreated
            | Self::PayFailed
            | Self::PayClosed
            | Self::RefundCreated
            | Self::RefundAccepted
            | Self::RefundRejected => false,
        }
    }
}

/// What a refund gives back, and so whose account it is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundKind {
    /// A payment's own money.
    Payment,
    /// Money that no payment wanted.
    Receipt,
}

impl RefundKind {
    pub const ALL: [Self; 2] = [Self::Payment, Self::Receipt];

    /// As the event's `refund_kind` tells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Payment => "PAYMENT",
            Self::Receipt => "RECEIPT",
        }
    }
}

/// The refund that a fact is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    pub refund_no: RefundNo,
    pub kind: RefundKind,
}

/// The fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    pub msg_key: MsgKey,
    pub kind: Kind,
    pub pay_no: PayNo,
    pub merchant_id: MerchantId,
    pub order_no: OrderNo,
    pub attempt_no: AttemptNo,
    pub amount: Money,
    pub channel: ChannelCode,
    pub channel_account: ChannelAccount,
    /// There whenever money moved.
    pub channel_txn_id: Option<ChannelTxnId>,
    /// There whenever the fact is about a refund, and only then.
    pub refund: Option<Refund>,
    pub occurred_at: OffsetDateTime,
}
