//! The settle table, pure: what a channel's word does to a payment. No clock, no database.

use bytes::Bytes;
use pay_types::{
    Advance, ChannelAccount, ChannelCode, ChannelTxnId, ChannelWord, Money, PaymentState, RefundWord,
};
use time::OffsetDateTime;

use crate::payment::Payment;

/// Where a channel's word was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Notice,
    Query,
    Statement,
    /// The answer to our own create or close call.
    Call,
}

impl Source {
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Notice => "NOTICE",
            Self::Query => "QUERY",
            Self::Statement => "STATEMENT",
            Self::Call => "CALL",
        }
    }
}

/// The fact that a channel states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Money was received: how much, in which transaction.
    Paid {
        amount: Money,
        channel_txn_id: ChannelTxnId,
    },
    Closed,
    Failed,
    /// One try of the payer was declined.
    Declined,
    /// How much of the payment went back so far, in all.
    RefundedTotal(Money),
    /// About the refund with this number, never about the payment.
    Refund(RefundFact),
}

/// What a channel states about a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefundFact {
    /// As the channel repeats it; not trusted to be a number of ours.
    pub(crate) refund_no: String,
    pub(crate) word: RefundWord,
    pub(crate) amount: Money,
    pub(crate) channel_refund_no: Option<String>,
}

impl Fact {
    /// Name of the fact in `callback_log.action`.
    #[must_use]
    pub(crate) fn action(&self) -> String {
        match self {
            Self::Paid { .. } => "PAY_SUCCEEDED".to_owned(),
            Self::Closed => "PAY_CLOSED".to_owned(),
            Self::Failed => "PAY_FAILED".to_owned(),
            Self::Declined => "PAY_DECLINED".to_owned(),
            Self::RefundedTotal(total) => format!("REFUNDED_TOTAL:{}", total.minor()),
            Self::Refund(fact) => {
                let word = match fact.word {
                    RefundWord::Taken => "REFUND_TAKEN",
                    RefundWord::Abnormal => "REFUND_ABNORMAL",
                    RefundWord::Succeeded => "REFUND_SUCCEEDED",
                    RefundWord::Failed => "REFUND_FAILED",
                };
                format!("{word}:{}", fact.refund_no)
            }
        }
    }
}

/// The nonce of a signed notice.
#[derive(Debug, Clone)]
pub(crate) struct Nonce {
    pub(crate) key_id: String,
    pub(crate) nonce: String,
    pub(crate) notify_id: String,
    pub body_sha256: Vec<u8>,
}

/// What a channel said, after its signature was verified.
#[derive(Debug, Clone)]
pub(crate) struct ChannelResult {
    pub(crate) channel: ChannelCode,
    pub(crate) channel_account: ChannelAccount,
    pub(crate) source: Source,
    pub(crate) fact: Fact,
    /// As the channel repeats it; not trusted to be a number of ours.
    pub(crate) pay_no: String,
    /// As the channel names it; `None` where its messages name none.
    pub(crate) merchant_id: Option<String>,
    /// The channel's number of the transaction, also where no money moved.
    pub(crate) channel_txn_id: Option<ChannelTxnId>,
    pub(crate) occurred_at: OffsetDateTime,
    pub(crate) raw: Bytes,
    pub(crate) nonce: Option<Nonce>,
    /// The channel's own words, for people.
    pub(crate) detail: String,
}

/// Why money was not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwanted {
    LateSuccess,
    SecondTransaction,
    AmountMismatch,
    /// Another currency than the order's; as with an amount, a person decides.
    CurrencyMismatch,
}

impl Unwanted {
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::LateSuccess => "LATE_SUCCESS",
            Self::SecondTransaction => "SECOND_TRANSACTION",
            Self::AmountMismatch => "AMOUNT_MISMATCH",
            Self::CurrencyMismatch => "CURRENCY_MISMATCH",
        }
    }
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    /// Move the payment, by compare-and-set.
    Move(PaymentState),
    /// The fact is known.
    Duplicate,
    /// Late or reordered: recorded, nothing changes.
    Ignore,
    /// Note the channel's words on the payment in process.
    Note,
    /// Keep the running total of refunds, and ask about those in flight.
    Total,
    /// Genuine money that the payment does not want: to suspense.
    Receipt(Unwanted),
    /// The channel contradicts itself about a transaction that is booked: a person must look; money is booked once.
    Contradiction,
    /// The account is not the payment's: no change, a person must look, refuse.
    CrossAccount,
}

/// The settle table, row by row.
pub(crate) fn judge(payment: &Payment, result: &ChannelResult) -> Verdict {
    let other_merchant =
        result.merchant_id.as_deref().is_some_and(|named| named != payment.merchant_id.as_str());
    if payment.channel != result.channel
        || payment.channel_account != result.channel_account
        || other_merchant
    {
        return Verdict::CrossAccount;
    }
    let word = match &result.fact {
        Fact::Declined if payment.state == PaymentState::Processing => return Verdict::Note,
        Fact::RefundedTotal(_) => return Verdict::Total,
        // A refund's word is judged by its refund; here it moves nothing.
        Fact::Declined | Fact::Refund(_) => return Verdict::Ignore,
        Fact::Closed => ChannelWord::Closed,
        Fact::Failed => ChannelWord::Failed,
        Fact::Paid { .. } => ChannelWord::Paid,
    };
    let Fact::Paid { amount, channel_txn_id } = &result.fact else {
        return match payment.state.advance(word) {
            Advance::To(state) => Verdict::Move(state),
            Advance::Stay | Advance::AlreadyPaid | Advance::PaidTooLate => Verdict::Ignore,
        };
    };
    let same_transaction = payment.state == PaymentState::Success
        && payment.channel_txn_id.as_deref() == Some(channel_txn_id.as_str());
    match (payment.state.advance(word), *amount == payment.amount) {
        (Advance::AlreadyPaid, true) if same_transaction => Verdict::Duplicate,
        (Advance::AlreadyPaid, false) if same_transaction => Verdict::Contradiction,
        (_, false) if amount.currency() != payment.amount.currency() => {
            Verdict::Receipt(Unwanted::CurrencyMismatch)
        }
        (_, false) => Verdict::Receipt(Unwanted::AmountMismatch),
        (Advance::To(state), true) => Verdict::Move(state),
        (Advance::AlreadyPaid, true) => Verdict::Receipt(Unwanted::SecondTransaction),
        (Advance::PaidTooLate, true) => Verdict::Receipt(Unwanted::LateSuccess),
        (Advance::Stay, true) => Verdict::Ignore,
    }
}

#[cfg(test)]
mod tests {
    use pay_types::{AttemptNo, Bucket, Currency, PayNo};

    use super::*;

    fn money(minor: i64, code: &str) -> Money {
        Money::try_new(minor, Currency::from_code(code).unwrap()).unwrap()
    }

    fn payment(state: PaymentState) -> Payment {
        let (merchant_id, order_no) = ("M1".parse().unwrap(), "O1".parse().unwrap());
        let at = OffsetDateTime::UNIX_EPOCH;
        Payment {
            pay_no: PayNo::new(0, [0; 10], Bucket::of(&merchant_id, &order_no)),
            merchant_id,
            order_no,
            attempt_no: AttemptNo::try_new(1).unwrap(),
            amount: money(100, "CNY"),
            channel: ChannelCode::Generic,
            channel_account: "main".parse().unwrap(),
            subject: "tea".parse().unwrap(),
            state,
            version: 1,
            channel_txn_id: (state == PaymentState::Success).then(|| "T1".to_owned()),
            paid_at: None,
            credential: None,
            last_error: None,
            refunded: 0,
            refund_reserved: 0,
            channel_order_no: None,
            expire_at: at,
            dispatched_at: None,
            metadata: serde_json::Value::Null,
            traceparent: None,
            created_at: at,
            updated_at: at,
        }
    }

    fn result(fact: Fact) -> ChannelResult {
        ChannelResult {
            channel: ChannelCode::Generic,
            channel_account: "main".parse().unwrap(),
            source: Source::Notice,
            channel_txn_id: None,
            fact,
            pay_no: String::new(),
            merchant_id: None,
            occurred_at: OffsetDateTime::UNIX_EPOCH,
            raw: Bytes::new(),
            nonce: None,
            detail: String::new(),
        }
    }

    fn paid(minor: i64, code: &str, txn: &str) -> ChannelResult {
        result(Fact::Paid { amount: money(minor, code), channel_txn_id: txn.parse().unwrap() })
    }

    #[test]
    fn every_row_of_the_settle_table() {
        use PaymentState::{Closed, Fail, Processing, Success};
        use Unwanted::{AmountMismatch, LateSuccess, SecondTransaction};
        let rows = [
            (Processing, paid(100, "CNY", "T1"), Verdict::Move(Success)),
            (Processing, result(Fact::Closed), Verdict::Move(Closed)),
            (Processing, result(Fact::Failed), Verdict::Move(Fail)),
            (Processing, result(Fact::Declined), Verdict::Note),
            (Success, paid(100, "CNY", "T1"), Verdict::Duplicate),
            (Success, paid(99, "CNY", "T1"), Verdict::Contradiction),
            (Success, paid(100, "CNY", "T2"), Verdict::Receipt(SecondTransaction)),
            (Success, result(Fact::Closed), Verdict::Ignore),
            (Success, result(Fact::Failed), Verdict::Ignore),
            (Success, result(Fact::Declined), Verdict::Ignore),
            (Closed, paid(100, "CNY", "T1"), Verdict::Receipt(LateSuccess)),
            (Fail, paid(100, "CNY", "T1"), Verdict::Receipt(LateSuccess)),
            (Closed, result(Fact::Closed), Verdict::Ignore),
            (Fail, result(Fact::Closed), Verdict::Ignore),
        ];
        for (state, said, verdict) in rows {
            assert_eq!(judge(&payment(state), &said), verdict, "{state} {:?}", said.fact);
        }
        for state in [Processing, Closed, Fail] {
            assert_eq!(
                judge(&payment(state), &paid(99, "CNY", "T1")),
                Verdict::Receipt(AmountMismatch),
                "{state}"
            );
            let said = paid(100, "USD", "T1");
            assert_eq!(
                judge(&payment(state), &said),
                Verdict::Receipt(Unwanted::CurrencyMismatch),
                "{state}"
            );
        }
        assert_eq!(
            judge(&payment(Success), &paid(100, "USD", "T2")),
            Verdict::Receipt(Unwanted::CurrencyMismatch)
        );
    }

    #[test]
    fn another_account_changes_nothing_in_any_state() {
        for state in PaymentState::ALL {
            let said = ChannelResult { channel_account: "other".parse().unwrap(), ..paid(100, "CNY", "T1") };
            assert_eq!(judge(&payment(state), &said), Verdict::CrossAccount);
            let said = ChannelResult { channel: ChannelCode::Alipay, ..paid(100, "CNY", "T1") };
            assert_eq!(judge(&payment(state), &said), Verdict::CrossAccount);
            let said = ChannelResult { merchant_id: Some("M2".to_owned()), ..paid(100, "CNY", "T1") };
            assert_eq!(judge(&payment(state), &said), Verdict::CrossAccount);
        }
    }
}
