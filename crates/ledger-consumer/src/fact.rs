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
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::PayCreated,
        Self::PaySucceeded,
        Self::PayFailed,
        Self::PayClosed,
        Self::ReceiptUnexpected,
        Self::ReceiptWithdrawn,
        Self::RefundSubmitted,
        Self::RefundSucceeded,
        Self::RefundFailed,
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
        }
    }

    /// Whether it is about a refund, so that it must have the refund's number.
    #[must_use]
    pub fn is_refund(self) -> bool {
        match self {
            Self::RefundSubmitted | Self::RefundSucceeded | Self::RefundFailed => true,
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
            | Self::RefundFailed => true,
            Self::PayCreated | Self::PayFailed | Self::PayClosed => false,
        }
    }
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
    /// There whenever the fact is about a refund, and only then. Refunds give back receipts that no payment wanted.
    pub refund_no: Option<RefundNo>,
    pub occurred_at: OffsetDateTime,
}
