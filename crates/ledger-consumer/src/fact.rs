//! A fact about a payment, checked and typed: what an event says, once it is believed.

use ledger::MsgKey;
use pay_types::{AttemptNo, ChannelAccount, ChannelCode, ChannelTxnId, MerchantId, Money, OrderNo, PayNo};
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
}

impl Kind {
    pub const ALL: [Self; 6] = [
        Self::PayCreated,
        Self::PaySucceeded,
        Self::PayFailed,
        Self::PayClosed,
        Self::ReceiptUnexpected,
        Self::ReceiptWithdrawn,
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
        }
    }

    /// Whether money moved, so that the channel must have a number for it.
    #[must_use]
    pub fn moves_money(self) -> bool {
        match self {
            Self::PaySucceeded | Self::ReceiptUnexpected | Self::ReceiptWithdrawn => true,
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
    pub occurred_at: OffsetDateTime,
}
