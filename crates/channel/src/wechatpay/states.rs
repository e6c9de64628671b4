//! The channel's words for states and errors, as tables, and what each means to us. What stands in no table is unknown,
//! never failure: a channel may add words on any day.

use pay_types::{ChannelWord, RefundWord};

use crate::port::{Fact, Outcome};

/// What `trade_state` says about the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TradeState {
    /// Not final.
    Open,
    Final(ChannelWord),
}

const TRADE_STATES: [(&str, TradeState); 8] = [
    ("NOTPAY", TradeState::Open),
    ("USERPAYING", TradeState::Open),
    ("ACCEPT", TradeState::Open),
    ("SUCCESS", TradeState::Final(ChannelWord::Paid)),
    // Some refund of it exists, so it was paid.
    ("REFUND", TradeState::Final(ChannelWord::Paid)),
    ("CLOSED", TradeState::Final(ChannelWord::Closed)),
    ("REVOKED", TradeState::Final(ChannelWord::Closed)),
    // Of payments by the payer's bar code only.
    ("PAYERROR", TradeState::Final(ChannelWord::Failed)),
];

/// `status` of a refund in answers, `refund_status` in notices.
const REFUND_STATUSES: [(&str, RefundWord); 4] = [
    ("PROCESSING", RefundWord::Taken),
    ("SUCCESS", RefundWord::Succeeded),
    ("CLOSED", RefundWord::Failed),
    // The payer's card or account is dead: the money is back with us, and a person must send it another way.
    ("ABNORMAL", RefundWord::Abnormal),
];

/// `event_type` of a notice, and the one word inside that goes with it.
const EVENTS: [(&str, Fact, &str); 4] = [
    ("TRANSACTION.SUCCESS", Fact::PaySucceeded, "SUCCESS"),
    ("REFUND.SUCCESS", Fact::RefundSucceeded, "SUCCESS"),
    ("REFUND.ABNORMAL", Fact::RefundAbnormal, "ABNORMAL"),
    ("REFUND.CLOSED", Fact::RefundFailed, "CLOSED"),
];

/// What an error code allows next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing was done, and this request can never succeed.
    ForEver,
    /// Nothing was done; the same request may succeed later, some of them after a person has mended the settings.
    ForNow,
    /// Nothing was done, and what stands under the number must be asked for: an earlier request may have done it.
    AskFirst,
    /// The order is closed.
    Closed,
    /// The channel does not know the number now.
    NotKnown,
    /// Something may have been done.
    InDoubt,
}

/// `code` of an error, without underscores: the channel's products and years spell them both ways.
const CODES: [(&str, Refusal); 20] = [
    ("PARAMERROR", Refusal::ForEver),
    ("APPIDMCHIDNOTMATCH", Refusal::ForEver),
    ("MCHNOTEXISTS", Refusal::ForEver),
    // Also the answer to a second create or refund on other terms, while the first one stands.
    ("INVALIDREQUEST", Refusal::AskFirst),
    ("OUTTRADENOUSED", Refusal::AskFirst),
    ("ORDERPAID", Refusal::AskFirst),
    ("TRADEERROR", Refusal::AskFirst),
    ("ORDERCLOSED", Refusal::Closed),
    ("ORDERNOTEXIST", Refusal::NotKnown),
    ("RESOURCENOTEXISTS", Refusal::NotKnown),
    // Our key, our clock, our contract: the payment is not to blame.
    ("SIGNERROR", Refusal::ForNow),
    ("NOAUTH", Refusal::ForNow),
    ("RULELIMIT", Refusal::ForNow),
    ("ACCOUNTERROR", Refusal::ForNow),
    // No balance to refund from.
    ("NOTENOUGH", Refusal::ForNow),
    ("FREQUENCYLIMITED", Refusal::ForNow),
    ("RATELIMITEXCEEDED", Refusal::ForNow),
    ("USERPAYING", Refusal::InDoubt),
    ("SYSTEMERROR", Refusal::InDoubt),
    ("BANKERROR", Refusal::InDoubt),
];

/// What a state of an order says; `None` for one that is not in the table.
pub(super) fn trade_state(text: &str) -> Option<TradeState> {
    TRADE_STATES.iter().find(|(name, _)| *name == text).map(|(_, state)| *state)
}

/// What a refund's status says; `None` for one that is not in the table.
pub(super) fn refund_word(text: &str) -> Option<RefundWord> {
    REFUND_STATUSES.iter().find(|(name, _)| *name == text).map(|(_, word)| *word)
}

/// What an event states, and the word that its content must have; `None` for one that is not in the table.
pub(super) fn event(text: &str) -> Option<(Fact, &'static str)> {
    EVENTS.iter().find(|(name, ..)| *name == text).map(|(_, fact, word)| (*fact, *word))
}

/// What an error code allows; `None` for one that is not in the table.
pub(super) fn refusal(code: &str) -> Option<Refusal> {
    let code = code.replace('_', "");
    CODES.iter().find(|(name, _)| *name == code).map(|(_, refusal)| *refusal)
}

/// The outcome of a call that was answered with an error. One without a signature is a hint: it may tell us to wait, since
/// waiting moves nothing, and nothing else.
pub(super) fn refused<T>(http_status: u16, code: &str, message: &str, verified: bool) -> Outcome<T> {
    match refusal(code) {
        Some(Refusal::ForEver) if verified => {
            Outcome::Rejected { code: code.to_owned(), message: message.to_owned() }
        }
        Some(Refusal::ForNow | Refusal::NotKnown) => Outcome::RetryLater { code: code.to_owned() },
        Some(Refusal::AskFirst | Refusal::Closed) if verified => {
            Outcome::RetryLater { code: code.to_owned() }
        }
        Some(Refusal::ForEver | Refusal::AskFirst | Refusal::Closed) => {
            Outcome::Unknown { why: format!("answer {http_status} without a signature") }
        }
        Some(Refusal::InDoubt) => Outcome::Unknown { why: format!("answer {http_status} says {code}") },
        None => Outcome::Unknown { why: format!("answer {http_status} with a code that we do not know") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_no_table_is_unknown() {
        assert_eq!(trade_state("PAID"), None);
        assert_eq!(trade_state("success"), None);
        assert_eq!(refund_word("REFUNDED"), None);
        assert_eq!(event("TRANSACTION.CLOSED"), None);
        for code in ["", "_", "SOMETHING_NEW", "param_error"] {
            assert_eq!(refusal(code), None, "{code}");
            assert_eq!(refused::<()>(400, code, "", true).label(), "unknown", "{code}");
        }
    }

    #[test]
    fn a_payment_with_a_refund_was_paid() {
        assert_eq!(trade_state("REFUND"), Some(TradeState::Final(ChannelWord::Paid)));
        for open in ["NOTPAY", "USERPAYING", "ACCEPT"] {
            assert_eq!(trade_state(open), Some(TradeState::Open), "{open}");
        }
    }

    #[test]
    fn a_stuck_refund_is_neither_back_nor_failed() {
        assert_eq!(refund_word("ABNORMAL"), Some(RefundWord::Abnormal));
        assert_eq!(refund_word("PROCESSING"), Some(RefundWord::Taken));
    }

    #[test]
    fn both_spellings_are_one_code() {
        for (one, other) in [("ORDER_NOT_EXIST", "ORDERNOTEXIST"), ("ORDER_CLOSED", "ORDERCLOSED")] {
            assert_eq!(refusal(one), refusal(other));
            assert!(refusal(one).is_some());
        }
    }

    #[test]
    fn only_a_signed_word_that_it_never_can_rejects() {
        assert_eq!(refused::<()>(400, "PARAM_ERROR", "m", true).label(), "rejected");
        for (code, verified, label) in [
            ("PARAM_ERROR", false, "unknown"),
            ("INVALID_REQUEST", true, "retry_later"),
            ("INVALID_REQUEST", false, "unknown"),
            ("ORDERPAID", true, "retry_later"),
            ("OUT_TRADE_NO_USED", true, "retry_later"),
            ("SIGN_ERROR", false, "retry_later"),
            ("FREQUENCY_LIMITED", false, "retry_later"),
            ("NOT_ENOUGH", true, "retry_later"),
            ("ORDER_NOT_EXIST", true, "retry_later"),
            ("SYSTEM_ERROR", true, "unknown"),
        ] {
            assert_eq!(refused::<()>(400, code, "m", verified).label(), label, "{code} {verified}");
        }
    }
}
