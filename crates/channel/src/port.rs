//! The port: what the rest of Oncepay knows of a channel. Adapters stand behind it, a folder each.
//!
//! Outwards every call ends in one of four outcomes, and *unknown is never failure*. Inwards a notice is read in one
//! order: signature over the raw bytes, time window, form.

use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use pay_types::{ChannelTxnId, ChannelWord, MerchantId, Money, PayNo, RefundNo, RefundWord, Subject};
use time::OffsetDateTime;

/// How a call to a channel ended, and with it what may be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome<T> {
    /// The channel answered and the answer's signature verified: apply it.
    Accepted(T),
    /// The channel surely did nothing and never will for this request: the attempt has failed.
    Rejected { code: String, message: String },
    /// The channel surely did nothing now: the same request, under the same number, later.
    RetryLater { code: String },
    /// Time-out, lost connection, 5xx, an unknown code, an answer that does not verify: money may have moved. Query by our
    /// number; repeat only the identical request under the same number.
    Unknown { why: String },
}

impl<T> Outcome<T> {
    /// The outcome's name, for metrics and logs.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Accepted(_) => "accepted",
            Self::Rejected { .. } => "rejected",
            Self::RetryLater { .. } => "retry_later",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// Reads on in an accepted answer; the other three outcomes stay as they are.
    pub fn and_then<U>(self, into: impl FnOnce(T) -> Outcome<U>) -> Outcome<U> {
        match self {
            Self::Accepted(value) => into(value),
            Self::Rejected { code, message } => Outcome::Rejected { code, message },
            Self::RetryLater { code } => Outcome::RetryLater { code },
            Self::Unknown { why } => Outcome::Unknown { why },
        }
    }
}

/// What is asked of a channel for one payment. Repeated with byte-identical terms, it makes no second order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateOrder {
    /// Our number, and the idempotency handle at the channel.
    pub pay_no: PayNo,
    pub merchant_id: MerchantId,
    pub amount: Money,
    pub subject: Subject,
    /// The channel closes the order then.
    pub expire_at: OffsetDateTime,
    /// Where notices about it go.
    pub notify_url: String,
}

/// What the payer needs in order to pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// An address to open.
    PayUrl(String),
    /// Text to show as a QR code.
    QrText(String),
    /// A secret for the channel's code in the payer's browser or app.
    ClientSecret(String),
}

/// An order that exists at the channel, on our terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    pub credential: Credential,
    /// There when the channel numbers orders at once, or when a repeated create finds the order paid: then query.
    pub channel_txn_id: Option<ChannelTxnId>,
    /// The channel's own number of the order, where it has one that later calls need; at most 128 printable ASCII characters.
    pub channel_order_no: Option<String>,
}

/// Which order a query or a close is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindOrder {
    pub pay_no: PayNo,
    /// As [`Created::channel_order_no`] told it; `None` while the answer to the create call is not known.
    pub channel_order_no: Option<String>,
}

impl FindOrder {
    /// By our number alone.
    #[must_use]
    pub fn by(pay_no: &PayNo) -> Self {
        Self { pay_no: pay_no.clone(), channel_order_no: None }
    }
}

/// Which refund a query is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindRefund {
    pub refund_no: RefundNo,
    pub pay_no: PayNo,
    pub channel_txn_id: ChannelTxnId,
    /// As [`RefundTold::channel_refund_no`] told it.
    pub channel_refund_no: Option<String>,
    /// What was asked for; channels that tell no amount with a refund's state are taken to mean it.
    pub amount: Money,
}

/// What the channel says about an order when asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queried {
    /// False: the channel does not know the number *now*. Shortly after creation that is no failure: the same create may
    /// be sent again under the same number.
    pub known: bool,
    /// The final word; `None` while it is unpaid, in process or not known.
    pub word: Option<ChannelWord>,
    pub channel_txn_id: Option<ChannelTxnId>,
    pub amount: Option<StatedAmount>,
    pub occurred_at: Option<OffsetDateTime>,
}

impl Queried {
    /// The channel does not know the number.
    #[must_use]
    pub fn not_known() -> Self {
        Self { known: false, word: None, channel_txn_id: None, amount: None, occurred_at: None }
    }
}

/// How a close ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// The channel confirms: it can never be paid any more.
    Closed,
    /// It was paid before.
    AlreadyPaid(Queried),
}

/// An amount as the channel states it: compared with ours, never taken over. It may be negative or in no currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedAmount {
    pub minor: i64,
    pub currency: String,
}

/// What is asked of a channel for one refund. Repeated with byte-identical terms, it makes no second refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRefund {
    /// Our number, and the idempotency handle at the channel.
    pub refund_no: RefundNo,
    /// The payment whose order received the money.
    pub pay_no: PayNo,
    /// The transaction whose money goes back.
    pub channel_txn_id: ChannelTxnId,
    /// What the transaction took in all; some channels want it beside the part that goes back.
    pub paid: Money,
    pub amount: Money,
    /// For the payer's statement and for people; a word of ours, no text from outside.
    pub reason: String,
    /// Where notices about it go.
    pub notify_url: String,
}

impl CreateRefund {
    /// Asks what became of it.
    #[must_use]
    pub fn find(&self) -> FindRefund {
        FindRefund {
            refund_no: self.refund_no.clone(),
            pay_no: self.pay_no.clone(),
            channel_txn_id: self.channel_txn_id.clone(),
            channel_refund_no: None,
            amount: self.amount,
        }
    }
}

/// What the channel says about a refund, in answer to the call that makes it and when asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundTold {
    /// False, of a query only: the channel does not know the number *now*. The same refund may be sent again under it.
    pub known: bool,
    /// `None` while the channel does not know the number.
    pub word: Option<RefundWord>,
    /// The channel's own number of the refund.
    pub channel_refund_no: Option<String>,
    pub amount: Option<StatedAmount>,
    pub occurred_at: Option<OffsetDateTime>,
}

impl RefundTold {
    /// The channel does not know the number.
    #[must_use]
    pub fn not_known() -> Self {
        Self { known: false, word: None, channel_refund_no: None, amount: None, occurred_at: None }
    }
}

/// Calls to one account of a channel. Every call has a time limit of its own and never retries what may have happened.
/// `Rejected` and `RetryLater` of a query or a close speak of that call alone, never of the payment.
pub trait ChannelClient: fmt::Debug + Send + Sync {
    /// Makes the order, or finds it made on the same terms.
    fn create<'a>(&'a self, order: &'a CreateOrder) -> BoxFuture<'a, Outcome<Created>>;
    /// Asks what became of the order. A number that the channel does not know is `Accepted` with `known: false`.
    fn query<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Queried>>;
    /// Asks the channel to close the order. Only `Accepted(Closed)` closes a payment.
    fn close<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Closed>>;
    /// Makes the refund, or finds it made on the same terms. `Rejected` says that no money goes back under this number.
    fn refund<'a>(&'a self, refund: &'a CreateRefund) -> BoxFuture<'a, Outcome<RefundTold>>;
    /// Asks what became of the refund. A number that the channel does not know is `Accepted` with `known: false`.
    fn query_refund<'a>(&'a self, refund: &'a FindRefund) -> BoxFuture<'a, Outcome<RefundTold>>;
}

/// A notice exactly as it arrived.
#[derive(Clone)]
pub struct RawNotice {
    pub method: Method,
    /// As received, nothing decoded.
    pub path_and_query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl fmt::Debug for RawNotice {
    /// Neither headers nor body: signatures and payer data stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawNotice({} {}, {} bytes)", self.method, self.path_and_query, self.body.len())
    }
}

/// The fact that a notice states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fact {
    PaySucceeded,
    PayClosed,
    PayFailed,
    /// One try of the payer was declined; the payment may still be paid.
    PayDeclined,
    RefundSucceeded,
    RefundFailed,
    /// The money of a refund is stuck at the channel: neither back nor failed, and a person must act there.
    RefundAbnormal,
    /// How much of the payment went back so far, in all; which refunds that was is not said, so they are asked about.
    RefundedTotal,
    /// Nothing that we act on.
    Other,
}

impl Fact {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PaySucceeded => "PAY_SUCCEEDED",
            Self::PayClosed => "PAY_CLOSED",
            Self::PayFailed => "PAY_FAILED",
            Self::PayDeclined => "PAY_DECLINED",
            Self::RefundSucceeded => "REFUND_SUCCEEDED",
            Self::RefundFailed => "REFUND_FAILED",
            Self::RefundAbnormal => "REFUND_ABNORMAL",
            Self::RefundedTotal => "REFUNDED_TOTAL",
            Self::Other => "OTHER",
        }
    }
}

/// A notice whose signature, time and form were checked. What it *says* is not trusted yet: the core compares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The channel's id of the notice, the same over all re-sends.
    pub notify_id: String,
    pub fact: Fact,
    /// Our number as the channel repeats it, at most 64 printable ASCII characters; it need not exist. Empty only for
    /// [`Fact::Other`].
    pub pay_no: String,
    /// Our merchant as the channel names it; empty where the protocol does not name one.
    pub merchant_id: String,
    /// Always there for [`Fact::PaySucceeded`].
    pub channel_txn_id: Option<ChannelTxnId>,
    /// Our number of the refund as the channel repeats it, at most 64 printable ASCII characters; always there for facts
    /// about refunds, and only there.
    pub refund_no: Option<String>,
    /// The channel's own number of the refund, at most 128 printable ASCII characters.
    pub channel_refund_no: Option<String>,
    /// Always there for facts about payments.
    pub amount: Option<StatedAmount>,
    /// By the channel's clock; always there for facts about payments.
    pub occurred_at: Option<OffsetDateTime>,
    /// Key that verified it.
    pub key_id: String,
    /// Replay guard, where the protocol has one.
    pub nonce: Option<String>,
}

/// Why a notice was refused before it was believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoticeReason {
    SignatureInvalid,
    TimestampOutsideWindow,
    KeyUnknown,
    NoticeMalformed,
    /// Genuine, and made for another account than the one whose address it came to.
    CrossAccount,
    /// Genuine, and of the channel's test mode on a live account, or the other way round: acknowledged, kept, and no more.
    ModeMismatch,
}

impl NoticeReason {
    pub const ALL: [Self; 6] = [
        Self::SignatureInvalid,
        Self::TimestampOutsideWindow,
        Self::KeyUnknown,
        Self::NoticeMalformed,
        Self::CrossAccount,
        Self::ModeMismatch,
    ];

    /// The stable reason of evidence, metrics and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SignatureInvalid => "SIGNATURE_INVALID",
            Self::TimestampOutsideWindow => "TIMESTAMP_OUTSIDE_WINDOW",
            Self::KeyUnknown => "KEY_UNKNOWN",
            Self::NoticeMalformed => "NOTICE_MALFORMED",
            Self::CrossAccount => "CROSS_ACCOUNT",
            Self::ModeMismatch => "MODE_MISMATCH",
        }
    }
}

/// A notice that was refused. `detail` is for people and names fields only: no value of the notice, no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("notice refused, {}: {detail}", reason.as_str())]
pub struct NoticeError {
    pub reason: NoticeReason,
    pub detail: &'static str,
}

impl NoticeError {
    #[must_use]
    pub const fn new(reason: NoticeReason, detail: &'static str) -> Self {
        Self { reason, detail }
    }
}

/// What the channel is to be told about its notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Committed: do not send it again.
    Accept,
    /// Genuine, but not taken: send it again, or let a person look.
    Refuse,
    /// Not believed.
    Invalid(NoticeReason),
    /// Nothing was decided: send it again.
    Unavailable,
}

/// An HTTP answer in the channel's own form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: StatusCode,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
}

/// Reads notices to one account of a channel.
pub trait NoticeReader: fmt::Debug + Send + Sync {
    /// Checks and reads a notice that arrived at `now`: signature over the raw bytes, time window, form.
    ///
    /// # Errors
    /// [`NoticeError`] with the reason of the first check that failed.
    fn read(&self, raw: &RawNotice, now: OffsetDateTime) -> Result<Notice, NoticeError>;
    /// The answer exactly as the channel wants it.
    fn answer(&self, answer: Answer) -> HttpAnswer;
}
