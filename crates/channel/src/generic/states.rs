//! The channel's words for states and errors, as two tables, and what each means to us. What stands in neither table is
//! unknown, never failure: a channel may add words on any day.

use pay_types::{ChannelWord, RefundWord};

use crate::port::Outcome;

/// What a status of an order says about the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Not final.
    Open,
    Final(ChannelWord),
}

/// `status` of an order.
const STATUSES: [(&str, Status); 4] = [
    ("CREATED", Status::Open),
    ("PAID", Status::Final(ChannelWord::Paid)),
    ("CLOSED", Status::Final(ChannelWord::Closed)),
    ("FAILED", Status::Final(ChannelWord::Failed)),
];

/// `status` of a refund.
const REFUND_STATUSES: [(&str, RefundWord); 4] = [
    ("ACCEPTED", RefundWord::Taken),
    ("ABNORMAL", RefundWord::Abnormal),
    ("SUCCEEDED", RefundWord::Succeeded),
    ("FAILED", RefundWord::Failed),
];

/// What an error code allows next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing was done, and this request can never succeed.
    ForEver,
    /// Nothing was done; the same request may succeed later, some of them after a person has mended the settings.
    ForNow,
    /// The channel does not know the number now.
    NotKnown,
}

/// `code` of a 4xx answer.
const CODES: [(&str, Refusal); 13] = [
    ("TERMS_DIFFER", Refusal::ForEver),
    ("FIELD_INVALID", Refusal::ForEver),
    ("ORDER_EXPIRED", Refusal::ForEver),
    ("ORDER_NOT_FOUND", Refusal::NotKnown),
    // Of a refund: the channel has no such money to give back, or has given it back already. A person must look.
    ("TRANSACTION_NOT_FOUND", Refusal::ForEver),
    ("REFUND_EXCEEDS_TRANSACTION", Refusal::ForEver),
    ("REFUND_NOT_FOUND", Refusal::NotKnown),
    ("RATE_LIMITED", Refusal::ForNow),
    ("BOOK_FULL", Refusal::ForNow),
    // Our key, our clock: the payment is not to blame.
    ("KEY_UNKNOWN", Refusal::ForNow),
    ("SIGNATURE_INVALID", Refusal::ForNow),
    ("TIMESTAMP_OUTSIDE_WINDOW", Refusal::ForNow),
    ("NONCE_REUSED", Refusal::ForNow),
];

/// What a status says; `None` for one that is not in the table.
pub(super) fn status(text: &str) -> Option<Status> {
    STATUSES.iter().find(|(name, _)| *name == text).map(|(_, status)| *status)
}

/// What a refund's status says; `None` for one that is not in the table.
pub(super) fn refund_word(text: &str) -> Option<RefundWord> {
    REFUND_STATUSES.iter().find(|(name, _)| *name == text).map(|(_, word)| *word)
}

/// What an error code allows; `None` for one that is not in the table.
pub(super) fn refusal(code: &str) -> Option<Refusal> {
    CODES.iter().find(|(name, _)| *name == code).map(|(_, refusal)| *refusal)
}

/// The outcome of a call that was answered with a verified error.
pub(super) fn refused<T>(http_status: u16, code: &str, message: &str) -> Outcome<T> {
    match refusal(code) {
        Some(Refusal::ForEver) => Outcome::Rejected { code: code.to_owned(), message: message.to_owned() },
        Some(Refusal::ForNow | Refusal::NotKnown) => Outcome::RetryLater { code: code.to_owned() },
        None => Outcome::Unknown { why: format!("answer {http_status} with a code that we do not know") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_no_table_is_unknown() {
        assert_eq!(status("REFUNDED"), None);
        assert_eq!(status("paid"), None);
        assert_eq!(refund_word("PAID"), None);
        assert_eq!(refusal(""), None);
        assert!(matches!(refused::<()>(400, "SOMETHING_NEW", ""), Outcome::Unknown { .. }));
    }

    #[test]
    fn only_what_can_never_succeed_is_rejected() {
        let rejected = |code| matches!(refused::<()>(409, code, "m"), Outcome::Rejected { .. });
        assert!(rejected("TERMS_DIFFER"));
        for code in
            ["SIGNATURE_INVALID", "KEY_UNKNOWN", "RATE_LIMITED", "ORDER_NOT_FOUND", "REFUND_NOT_FOUND"]
        {
            assert!(!rejected(code), "{code}");
        }
    }
}
