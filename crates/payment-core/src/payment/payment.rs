//! A payment as this crate works with it: a checked row.

use pay_types::{
    AttemptNo, Bucket, ChannelAccount, ChannelCode, Currency, Invalid, MerchantId, Money, OrderNo, PayNo,
    PaymentState, Subject,
};
use serde_json::Value;
use time::OffsetDateTime;

/// One payment.
#[derive(Debug, Clone)]
pub(crate) struct Payment {
    pub(crate) pay_no: PayNo,
    pub(crate) merchant_id: MerchantId,
    pub(crate) order_no: OrderNo,
    pub(crate) attempt_no: AttemptNo,
    pub(crate) amount: Money,
    pub(crate) channel: ChannelCode,
    pub(crate) channel_account: ChannelAccount,
    pub(crate) subject: Subject,
    pub(crate) state: PaymentState,
    pub(crate) version: i64,
    pub(crate) channel_txn_id: Option<String>,
    pub(crate) paid_at: Option<OffsetDateTime>,
    pub(crate) credential: Option<Value>,
    pub(crate) last_error: Option<String>,
    pub(crate) refunded: i64,
    /// What went back and what is on its way back.
    pub(crate) refund_reserved: i64,
    pub(crate) channel_order_no: Option<String>,
    pub(crate) expire_at: OffsetDateTime,
    pub(crate) dispatched_at: Option<OffsetDateTime>,
    pub(crate) metadata: Value,
    /// Trace of the creating call; later steps continue it.
    pub(crate) traceparent: Option<String>,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) updated_at: OffsetDateTime,
}

impl Payment {
    #[must_use]
    pub(crate) fn bucket(&self) -> Bucket {
        self.pay_no.bucket()
    }

    /// Key of the event records: one order, one partition, in order.
    #[must_use]
    pub(crate) fn partition_key(&self) -> String {
        format!("{}:{}", self.merchant_id, self.order_no)
    }
}

/// A row as the database gives it.
#[derive(Debug)]
pub(crate) struct PaymentRow {
    pub(crate) pay_no: String,
    pub(crate) merchant_id: String,
    pub(crate) order_no: String,
    pub(crate) attempt_no: i16,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) channel: String,
    pub(crate) channel_account: String,
    pub(crate) subject: String,
    pub(crate) state: String,
    pub(crate) version: i64,
    pub(crate) channel_txn_id: Option<String>,
    pub(crate) paid_at: Option<OffsetDateTime>,
    pub(crate) credential: Option<Value>,
    pub(crate) last_error: Option<String>,
    pub(crate) refunded: i64,
    pub(crate) refund_reserved: i64,
    pub(crate) channel_order_no: Option<String>,
    pub(crate) expire_at: OffsetDateTime,
    pub(crate) dispatched_at: Option<OffsetDateTime>,
    pub(crate) metadata: Value,
    pub(crate) traceparent: Option<String>,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) updated_at: OffsetDateTime,
}

impl TryFrom<PaymentRow> for Payment {
    type Error = Invalid;

    fn try_from(row: PaymentRow) -> Result<Self, Invalid> {
        Ok(Self {
            pay_no: row.pay_no.parse()?,
            merchant_id: row.merchant_id.parse()?,
            order_no: row.order_no.parse()?,
            attempt_no: AttemptNo::try_new(i64::from(row.attempt_no))?,
            amount: Money::try_new(row.amount, Currency::from_code(&row.currency)?)?,
            channel: row.channel.parse()?,
            channel_account: row.channel_account.parse()?,
            subject: row.subject.parse()?,
            state: row.state.parse()?,
            version: row.version,
            channel_txn_id: row.channel_txn_id,
            paid_at: row.paid_at,
            credential: row.credential,
            last_error: row.last_error,
            refunded: row.refunded,
            refund_reserved: row.refund_reserved,
            channel_order_no: row.channel_order_no,
            expire_at: row.expire_at,
            dispatched_at: row.dispatched_at,
            metadata: row.metadata,
            traceparent: row.traceparent,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// A payment that is about to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewPayment {
    pub(crate) pay_no: PayNo,
    pub(crate) merchant_id: MerchantId,
    pub(crate) order_no: OrderNo,
    pub(crate) attempt_no: AttemptNo,
    pub(crate) amount: Money,
    pub(crate) channel: ChannelCode,
    pub(crate) channel_account: ChannelAccount,
    pub(crate) subject: Subject,
    pub(crate) expire_at: OffsetDateTime,
    /// When a job looks at it if nothing else has happened by then.
    pub(crate) next_query_at: OffsetDateTime,
    pub(crate) metadata: Value,
    pub(crate) traceparent: Option<String>,
    pub(crate) created_at: OffsetDateTime,
}
