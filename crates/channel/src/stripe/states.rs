//! The channel's words for states, events and errors, as tables, and what each means to us. What stands in no table is
//! unknown, never failure: a channel may add words on any day.

use pay_types::{ChannelWord, RefundWord};

use crate::port::{Fact, Outcome};

/// What a status says about the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not final. A declined card leaves an intent here.
    Open,
    Final(ChannelWord),
    /// Of a session: its page is done with, and its intent knows the rest.
    AskTheIntent,
}

/// `status` of a payment intent.
const INTENT_STATUSES: [(&str, State); 7] = [
    ("requires_payment_method", State::Open),
    ("requires_confirmation", State::Open),
    ("requires_action", State::Open),
    ("requires_capture", State::Open),
    ("processing", State::Open),
    ("succeeded", State::Final(ChannelWord::Paid)),
    ("canceled", State::Final(ChannelWord::Closed)),
];

/// `status` and `payment_status` of a checkout session.
const SESSION_STATUSES: [(&str, &str, State); 4] = [
    ("open", "unpaid", State::Open),
    ("complete", "paid", State::AskTheIntent),
    // By a method that takes days.
    ("complete", "unpaid", State::AskTheIntent),
    ("expired", "unpaid", State::Final(ChannelWord::Closed)),
];

/// `status` of a refund.
const REFUND_STATUSES: [(&str, RefundWord); 5] = [
    ("pending", RefundWord::Taken),
    // The payer must tell where the money goes.
    ("requires_action", RefundWord::Taken),
    // Which may be followed by `failed`, days later: the money came back to us.
    ("succeeded", RefundWord::Succeeded),
    ("failed", RefundWord::Failed),
    ("canceled", RefundWord::Failed),
];

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Of an intent, which then has this status.
    Intent(Fact, Option<&'static str>),
    /// Of a session, which then has this `payment_status`; with another one it states nothing.
    Session(Fact, Option<&'static str>),
    /// Of a refund, whose status says the rest.
    Refund,
    /// Of a charge: how much of it went back in all.
    RefundedTotal,
}

/// `type` of an event. `charge.succeeded` is not here: it says again what `payment_intent.succeeded` says, and says it also of
/// a charge that was only authorised.
const EVENTS: [(&str, Event); 12] = [
    ("payment_intent.succeeded", Event::Intent(Fact::PaySucceeded, Some("succeeded"))),
    // Back to the start: the payer may try another card.
    ("payment_intent.payment_failed", Event::Intent(Fact::PayDeclined, None)),
    ("payment_intent.canceled", Event::Intent(Fact::PayClosed, Some("canceled"))),
    ("checkout.session.completed", Event::Session(Fact::PaySucceeded, Some("paid"))),
    ("checkout.session.async_payment_succeeded", Event::Session(Fact::PaySucceeded, Some("paid"))),
    // The page is done with, so there is no second try.
    ("checkout.session.async_payment_failed", Event::Session(Fact::PayFailed, Some("unpaid"))),
    ("checkout.session.expired", Event::Session(Fact::PayClosed, Some("unpaid"))),
    ("charge.refunded", Event::RefundedTotal),
    ("refund.created", Event::Refund),
    ("refund.updated", Event::Refund),
    ("refund.failed", Event::Refund),
    ("charge.refund.updated", Event::Refund),
];

/// What an error code allows next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing was done, and this request can never succeed.
    ForEver,
    /// Nothing was done by this call. The same request may succeed later, some of them after a person has mended the
    /// settings; or an earlier one did it, and asking shows it.
    ForNow,
}

/// `error.code` of a 4xx answer.
const CODES: [(&str, Refusal); 26] = [
    ("amount_too_small", Refusal::ForEver),
    ("amount_too_large", Refusal::ForEver),
    ("invalid_charge_amount", Refusal::ForEver),
    ("parameter_missing", Refusal::ForEver),
    ("parameter_unknown", Refusal::ForEver),
    ("parameters_exclusive", Refusal::ForEver),
    ("parameter_invalid_empty", Refusal::ForEver),
    ("parameter_invalid_integer", Refusal::ForEver),
    ("parameter_invalid_string_blank", Refusal::ForEver),
    ("parameter_invalid_string_empty", Refusal::ForEver),
    ("url_invalid", Refusal::ForEver),
    // The first call under this number is still running.
    ("idempotency_key_in_use", Refusal::ForNow),
    ("lock_timeout", Refusal::ForNow),
    ("rate_limit", Refusal::ForNow),
    ("payment_intent_unexpected_state", Refusal::ForNow),
    // Perhaps by an earlier call of ours.
    ("charge_already_refunded", Refusal::ForNow),
    ("charge_disputed", Refusal::ForNow),
    ("refund_disputed_payment", Refusal::ForNow),
    ("balance_insufficient", Refusal::ForNow),
    // Our key, our mode, our contract: the payment is not to blame.
    ("api_key_expired", Refusal::ForNow),
    ("platform_api_key_expired", Refusal::ForNow),
    ("secret_key_required", Refusal::ForNow),
    ("testmode_charges_only", Refusal::ForNow),
    ("livemode_mismatch", Refusal::ForNow),
    ("resource_missing", Refusal::ForNow),
    ("account_invalid", Refusal::ForNow),
];

/// Statuses that say by themselves that nothing was done: our key is not taken, or there is too much of us.
const STATUSES_FOR_NOW: [(u16, &str); 3] = [(401, "HTTP_401"), (403, "HTTP_403"), (429, "HTTP_429")];
/// Longest words of the channel that are kept.
const MESSAGE_CHARS_MAX: usize = 256;

/// What an intent's status says; `None` for one that is not in the table.
pub(super) fn intent(status: &str) -> Option<State> {
    INTENT_STATUSES.iter().find(|(name, _)| *name == status).map(|(_, state)| *state)
}

/// What a session's two statuses say; `None` for a pair that is not in the table.
pub(super) fn session(status: &str, payment_status: &str) -> Option<State> {
    SESSION_STATUSES
        .iter()
        .find(|(name, payment, _)| *name == status && *payment == payment_status)
        .map(|(.., state)| *state)
}

/// What a refund's status says; `None` for one that is not in the table.
pub(super) fn refund_word(status: &str) -> Option<RefundWord> {
    REFUND_STATUSES.iter().find(|(name, _)| *name == status).map(|(_, word)| *word)
}

/// The fact that a refund's status is in a notice; a refund under way is none.
pub(super) fn refund_fact(status: &str) -> Fact {
    match refund_word(status) {
        Some(RefundWord::Succeeded) => Fact::RefundSucceeded,
        Some(RefundWord::Failed) => Fact::RefundFailed,
        Some(RefundWord::Abnormal) => Fact::RefundAbnormal,
        Some(RefundWord::Taken) | None => Fact::Other,
    }
}

/// What an event is about; `None` for one that is not in the table.
pub(super) fn event(kind: &str) -> Option<Event> {
    EVENTS.iter().find(|(name, _)| *name == kind).map(|(_, event)| *event)
}

fn refusal(code: &str) -> Option<Refusal> {
    CODES.iter().find(|(name, _)| *name == code).map(|(_, refusal)| *refusal)
}

/// The outcome of a call that was answered with a 4xx: the status, and type, code and message of its error, as far as there
/// are any.
pub(super) fn refused<T>(status: u16, kind: &str, code: &str, message: &str) -> Outcome<T> {
    // The number stands for a request on other terms, which may well have moved money. Its error has no code.
    if kind == "idempotency_error" && refusal(code).is_none() {
        return Outcome::Unknown { why: format!("answer {status}: the number was used with other terms") };
    }
    match refusal(code) {
        Some(Refusal::ForEver) => Outcome::Rejected {
            code: code.to_owned(),
            message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
        },
        Some(Refusal::ForNow) => Outcome::RetryLater { code: code.to_owned() },
        None => match STATUSES_FOR_NOW.iter().find(|(known, _)| *known == status) {
            Some((_, code)) => Outcome::RetryLater { code: (*code).to_owned() },
            None => Outcome::Unknown { why: format!("answer {status} with a code that we do not know") },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_no_table_is_unknown() {
        assert_eq!(intent("paid"), None);
        assert_eq!(intent("Succeeded"), None);
        assert_eq!(session("complete", "no_payment_required"), None, "nothing of ours is free");
        assert_eq!(session("open", "paid"), None);
        assert_eq!(session("expired", "paid"), None);
        assert_eq!(refund_word("refunded"), None);
        assert_eq!(event("charge.succeeded"), None);
        assert_eq!(event("payment_intent.processing"), None);
        assert_eq!(refund_fact("something_new"), Fact::Other);
        for (status, kind, code) in [
            (400, "invalid_request_error", "something_new"),
            (400, "invalid_request_error", ""),
            (400, "idempotency_error", ""),
            (402, "card_error", "card_declined"),
            (404, "", ""),
            (409, "", ""),
            (418, "", ""),
        ] {
            assert_eq!(refused::<()>(status, kind, code, "").label(), "unknown", "{status} {kind} {code}");
        }
    }

    #[test]
    fn a_declined_card_does_not_end_an_intent() {
        assert_eq!(event("payment_intent.payment_failed"), Some(Event::Intent(Fact::PayDeclined, None)));
        for open in
            ["requires_payment_method", "requires_confirmation", "requires_action", "requires_capture"]
        {
            assert_eq!(intent(open), Some(State::Open), "{open}");
        }
        assert_eq!(intent("processing"), Some(State::Open));
    }

    #[test]
    fn a_refund_under_way_has_neither_succeeded_nor_failed() {
        for status in ["pending", "requires_action"] {
            assert_eq!((refund_word(status), refund_fact(status)), (Some(RefundWord::Taken), Fact::Other));
        }
        assert_eq!(refund_fact("succeeded"), Fact::RefundSucceeded);
        for status in ["failed", "canceled"] {
            assert_eq!(refund_fact(status), Fact::RefundFailed, "{status}");
        }
    }

    #[test]
    fn only_a_known_code_that_never_can_rejects() {
        for (status, kind, code, label) in [
            (400, "invalid_request_error", "amount_too_small", "rejected"),
            (400, "invalid_request_error", "parameter_missing", "rejected"),
            (409, "idempotency_error", "idempotency_key_in_use", "retry_later"),
            (409, "invalid_request_error", "idempotency_key_in_use", "retry_later"),
            (429, "", "", "retry_later"),
            (429, "invalid_request_error", "lock_timeout", "retry_later"),
            (401, "invalid_request_error", "", "retry_later"),
            (403, "invalid_request_error", "", "retry_later"),
            (404, "invalid_request_error", "resource_missing", "retry_later"),
            (400, "invalid_request_error", "charge_already_refunded", "retry_later"),
            (400, "invalid_request_error", "balance_insufficient", "retry_later"),
        ] {
            assert_eq!(refused::<()>(status, kind, code, "m").label(), label, "{status} {kind} {code}");
        }
        let Outcome::Rejected { message, .. } =
            refused::<()>(400, "", "amount_too_small", &"茶".repeat(9999))
        else {
            panic!("not rejected")
        };
        assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX);
    }
}
