//! A refund: the row, checked, and one that is about to be written.

use pay_types::{
    ChannelAccount, ChannelCode, ChannelTxnId, Currency, Invalid, MerchantId, Money, PayNo, RefundNo,
    RefundState,
};
use time::OffsetDateTime;

use crate::payment::Payment;
use crate::payment::judge::Unwanted;

/// What a refund gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefundKind {
    /// Money that no payment wanted.
    Receipt,
    /// A payment's own money.
    Payment,
}

impl RefundKind {
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Receipt => "RECEIPT",
            Self::Payment => "PAYMENT",
        }
    }
}

/// Whether a second person must agree before the channel is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approval {
    NotNeeded,
    Waiting,
    Approved,
    Rejected,
}

impl Approval {
    const ALL: [Self; 4] = [Self::NotNeeded, Self::Waiting, Self::Approved, Self::Rejected];

    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NotNeeded => "NOT_NEEDED",
            Self::Waiting => "WAITING",
            Self::Approved => "APPROVED",
            Self::Rejected => "REJECTED",
        }
    }
}

/// One refund.
#[derive(Debug, Clone)]
pub(crate) struct Refund {
    pub(crate) refund_no: RefundNo,
    pub(crate) kind: RefundKind,
    pub(crate) pay_no: PayNo,
    pub(crate) merchant_id: MerchantId,
    pub(crate) refund_request_no: Option<String>,
    pub(crate) amount: Money,
    pub(crate) reason: String,
    pub(crate) channel: ChannelCode,
    pub(crate) channel_account: ChannelAccount,
    pub(crate) channel_txn_id: ChannelTxnId,
    pub(crate) channel_refund_no: Option<String>,
    pub(crate) state: RefundState,
    pub(crate) version: i64,
    pub(crate) last_error: Option<String>,
    pub(crate) tries: i32,
    pub(crate) approval: Approval,
    pub(crate) requested_by: Option<String>,
    pub(crate) decided_by: Option<String>,
    pub(crate) returned_at: Option<OffsetDateTime>,
    pub(crate) traceparent: Option<String>,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) updated_at: OffsetDateTime,
}

/// A row as the database gives it.
#[derive(Debug)]
pub(crate) struct RefundRow {
    pub(crate) refund_no: String,
    pub(crate) kind: String,
    pub(crate) pay_no: String,
    pub(crate) merchant_id: String,
    pub(crate) refund_request_no: Option<String>,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) reason: String,
    pub(crate) channel: String,
    pub(crate) channel_account: String,
    pub(crate) channel_txn_id: String,
    pub(crate) channel_refund_no: Option<String>,
    pub(crate) state: String,
    pub(crate) version: i64,
    pub(crate) last_error: Option<String>,
    pub(crate) tries: i32,
    pub(crate) approval: String,
    pub(crate) requested_by: Option<String>,
    pub(crate) decided_by: Option<String>,
    pub(crate) returned_at: Option<OffsetDateTime>,
    pub(crate) traceparent: Option<String>,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) updated_at: OffsetDateTime,
}

impl TryFrom<RefundRow> for Refund {
    type Error = Invalid;

    fn try_from(row: RefundRow) -> Result<Self, Invalid> {
        let kind = [RefundKind::Receipt, RefundKind::Payment].into_iter().find(|k| k.as_str() == row.kind);
        let approval = Approval::ALL.into_iter().find(|a| a.as_str() == row.approval);
        Ok(Self {
            refund_no: row.refund_no.parse()?,
            kind: kind.ok_or(Invalid::new("kind", "must be RECEIPT or PAYMENT"))?,
            pay_no: row.pay_no.parse()?,
            merchant_id: row.merchant_id.parse()?,
            refund_request_no: row.refund_request_no,
            amount: Money::try_new(row.amount, Currency::from_code(&row.currency)?)?,
            reason: row.reason,
            channel: row.channel.parse()?,
            channel_account: row.channel_account.parse()?,
            channel_txn_id: row.channel_txn_id.parse()?,
            channel_refund_no: row.channel_refund_no,
            state: row.state.parse()?,
            version: row.version,
            last_error: row.last_error,
            tries: row.tries,
            approval: approval.ok_or(Invalid::new("approval", "must be a known word"))?,
            requested_by: row.requested_by,
            decided_by: row.decided_by,
            returned_at: row.returned_at,
            traceparent: row.traceparent,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// A refund that is about to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewRefund {
    pub(crate) refund_no: RefundNo,
    pub(crate) kind: RefundKind,
    pub(crate) pay_no: PayNo,
    pub(crate) merchant_id: MerchantId,
    /// `None` for money that nobody asked back.
    pub(crate) refund_request_no: Option<String>,
    pub(crate) amount: Money,
    pub(crate) reason: String,
    pub(crate) channel: ChannelCode,
    pub(crate) channel_account: ChannelAccount,
    pub(crate) channel_txn_id: ChannelTxnId,
    pub(crate) approval: Approval,
    pub(crate) requested_by: Option<String>,
    /// When a job looks at it if nothing else has happened by then; what waits for a person is not looked at.
    pub(crate) next_try_at: OffsetDateTime,
    pub(crate) traceparent: Option<String>,
}

impl NewRefund {
    /// Sends back the whole of a receipt that no payment wanted.
    pub(crate) fn of_receipt(
        payment: &Payment,
        amount: Money,
        channel_txn_id: &ChannelTxnId,
        reason: Unwanted,
        traceparent: Option<String>,
        now: OffsetDateTime,
    ) -> Self {
        let now_ms = now.unix_timestamp_nanos().checked_div(1_000_000).unwrap_or_default();
        let now_ms = u64::try_from(now_ms).unwrap_or_default();
        Self {
            refund_no: RefundNo::new(now_ms, rand::random(), payment.bucket()),
            kind: RefundKind::Receipt,
            pay_no: payment.pay_no.clone(),
            merchant_id: payment.merchant_id.clone(),
            refund_request_no: None,
            amount,
            reason: reason.as_str().to_owned(),
            channel: payment.channel,
            channel_account: payment.channel_account.clone(),
            channel_txn_id: channel_txn_id.clone(),
            approval: Approval::NotNeeded,
            requested_by: None,
            next_try_at: now,
            traceparent,
        }
    }
}
