//! The channel's words for states and errors, as tables, and what each means to us. What stands in no table is unknown, never
//! failure.

use crate::port::Outcome;

/// What an error allows next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing was done, and this request can never succeed.
    ForEver,
    /// Nothing was done; the same request may succeed later, some of them after a person has mended the settings.
    ForNow,
    /// The channel does not know the number now.
    NotKnown,
    /// Something stands otherwise than the call supposes: ask before anything else.
    Ask,
}

/// `code` of an answer that is no success and has no `sub_code` of its own meaning. These are decided before anything is done.
const CODES: [(&str, Refusal); 6] = [
    ("20001", Refusal::ForNow),
    ("40001", Refusal::ForNow),
    ("40002", Refusal::ForNow),
    ("40005", Refusal::ForNow),
    ("40006", Refusal::ForNow),
    ("20000", Refusal::Ask),
];

/// `sub_code` of a business failure, `40004`.
const SUB_CODES: [(&str, Refusal); 30] = [
    ("ACQ.SYSTEM_ERROR", Refusal::Ask),
    ("aop.ACQ.SYSTEM_ERROR", Refusal::Ask),
    ("ACQ.TRADE_HAS_SUCCESS", Refusal::Ask),
    ("ACQ.TRADE_HAS_CLOSE", Refusal::Ask),
    ("ACQ.TRADE_HAS_FINISHED", Refusal::Ask),
    ("ACQ.TRADE_NOT_EXIST", Refusal::NotKnown),
    ("ACQ.TRADE_STATUS_ERROR", Refusal::Ask),
    ("ACQ.REASON_TRADE_STATUS_INVALID", Refusal::Ask),
    ("ACQ.CONTEXT_INCONSISTENT", Refusal::ForEver),
    ("ACQ.BUYER_BALANCE_NOT_ENOUGH", Refusal::ForEver),
    ("ACQ.PAYMENT_FAIL", Refusal::ForEver),
    ("ACQ.PAYMENT_AUTH_CODE_INVALID", Refusal::ForEver),
    ("ACQ.PAYMENT_REQUEST_HAS_RISK", Refusal::ForEver),
    ("ACQ.INVALID_PARAMETER", Refusal::ForEver),
    ("ACQ.ACCESS_FORBIDDEN", Refusal::ForEver),
    ("ACQ.EXIST_FORBIDDEN_WORD", Refusal::ForEver),
    ("ACQ.PARTNER_ERROR", Refusal::ForEver),
    ("ACQ.TOTAL_FEE_EXCEED", Refusal::ForEver),
    ("ACQ.BUYER_SELLER_EQUAL", Refusal::ForEver),
    ("ACQ.SELLER_BEEN_BLOCKED", Refusal::ForEver),
    // Of refunds. What exceeds the rest is asked about first: an earlier call under this number may have taken it.
    ("ACQ.SELLER_BALANCE_NOT_ENOUGH", Refusal::ForNow),
    ("ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", Refusal::Ask),
    ("ACQ.REASON_TRADE_REFUND_FEE_ERR", Refusal::Ask),
    ("ACQ.REFUND_FEE_ERROR", Refusal::Ask),
    ("ACQ.DISCORDANT_REPEAT_REQUEST", Refusal::Ask),
    ("ACQ.TRADE_NOT_ALLOW_REFUND", Refusal::ForEver),
    ("ACQ.REASON_TRADE_BEEN_FREEZEN", Refusal::ForNow),
    ("ACQ.CANCEL_NOT_ALLOWED", Refusal::Ask),
    ("isv.invalid-signature", Refusal::ForNow),
    ("isv.invalid-app-id", Refusal::ForNow),
];

/// What an error allows; `None` for one that stands in no table.
pub(super) fn refusal(code: &str, sub_code: &str) -> Option<Refusal> {
    let find = |table: &[(&str, Refusal)], word: &str| {
        table.iter().find(|(name, _)| *name == word).map(|(_, refusal)| *refusal)
    };
    if code == "40004" { find(&SUB_CODES, sub_code) } else { find(&CODES, code) }
}

/// The outcome of a call that was answered with an error. Only a verified one can say *never*; of an unsigned one those that
/// are decided before anything is done are believed enough to wait, and all others are unknown.
pub(super) fn refused<T>(code: &str, sub_code: &str, message: &str, verified: bool) -> Outcome<T> {
    let name = if sub_code.is_empty() { code } else { sub_code };
    match refusal(code, sub_code) {
        Some(Refusal::ForEver) if verified => {
            Outcome::Rejected { code: name.to_owned(), message: message.to_owned() }
        }
        Some(Refusal::ForNow) => Outcome::RetryLater { code: name.to_owned() },
        Some(Refusal::NotKnown) if verified => Outcome::RetryLater { code: name.to_owned() },
        Some(Refusal::ForEver | Refusal::NotKnown | Refusal::Ask) | None => {
            Outcome::Unknown { why: format!("the channel answered {name:.64}: ask by our number") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_verified_word_that_is_in_the_table_rejects() {
        let label = |code, sub, verified| refused::<()>(code, sub, "", verified).label();
        assert_eq!(label("40004", "ACQ.CONTEXT_INCONSISTENT", true), "rejected");
        assert_eq!(label("40004", "ACQ.CONTEXT_INCONSISTENT", false), "unknown");
        assert_eq!(label("40004", "ACQ.SOMETHING_NEW", true), "unknown");
        assert_eq!(label("40004", "ACQ.SYSTEM_ERROR", true), "unknown");
        assert_eq!(label("20000", "isp.unknow-error", true), "unknown");
        assert_eq!(label("40001", "", false), "retry_later");
        assert_eq!(label("99999", "", true), "unknown");
        assert_eq!(label("40004", "ACQ.SELLER_BALANCE_NOT_ENOUGH", true), "retry_later");
    }
}
