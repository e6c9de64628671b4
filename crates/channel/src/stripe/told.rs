//! What answers say about an order or a refund.

use pay_types::{ChannelWord, PayNo, RefundNo};
use serde_json::{Map, Value};

use super::object::{self, ID_BYTES_MAX};
use super::states::{self, State};
use crate::port::{Outcome, Queried, RefundTold};
use crate::strict_json;

pub(super) fn unknown<T>(why: &str) -> Outcome<T> {
    Outcome::Unknown { why: why.to_owned() }
}

/// Whose answer is expected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) pay_no: &'a PayNo,
    pub(super) livemode: bool,
}

impl Expected<'_> {
    /// Whether the object is of this kind, of our mode, and about this order.
    pub(super) fn check(&self, told: &Map<String, Value>, kind: &str) -> Result<(), &'static str> {
        if !object::is(told, kind) {
            return Err("the answer is no object of the kind that was asked for");
        }
        if object::livemode(told) != Some(self.livemode) {
            return Err("the answer is of another mode than the account's");
        }
        if !object::has_number(told, "pay_no", self.pay_no.as_str()) {
            return Err("the answer is about another order");
        }
        Ok(())
    }
}

/// What an intent says.
pub(super) fn intent(told: &Map<String, Value>, expected: Expected<'_>) -> Outcome<Queried> {
    if let Err(why) = expected.check(told, "payment_intent") {
        return unknown(why);
    }
    let word = match strict_json::text(told, "status").and_then(states::intent) {
        Some(State::Open) => None,
        Some(State::Final(word)) => Some(word),
        Some(State::AskTheIntent) | None => return unknown("the order has a status that we do not know"),
    };
    // What was paid, which is not always what was asked for.
    let field = if word == Some(ChannelWord::Paid) { "amount_received" } else { "amount" };
    let queried = Queried {
        known: true,
        word,
        channel_txn_id: object::intent_id(told),
        amount: object::stated(told, field),
        // The charge, if it was sent along; the intent's own time is that of its making.
        occurred_at: told.get("latest_charge").and_then(Value::as_object).and_then(object::created),
    };
    if queried.channel_txn_id.is_none() || queried.amount.is_none() {
        return unknown("an order must say its id and amount");
    }
    Outcome::Accepted(queried)
}

/// What a session says, its intent sent along.
pub(super) fn session(told: &Map<String, Value>, expected: Expected<'_>) -> Outcome<Queried> {
    if let Err(why) = expected.check(told, "checkout.session") {
        return unknown(why);
    }
    let (Some(status), Some(payment_status)) =
        (strict_json::text(told, "status"), strict_json::text(told, "payment_status"))
    else {
        return unknown("a session must say its status and payment_status");
    };
    let word = match states::session(status, payment_status) {
        Some(State::Open) => None,
        Some(State::Final(word)) => Some(word),
        Some(State::AskTheIntent) => return completed(told, payment_status, expected),
        None => return unknown("the session has a status that we do not know"),
    };
    Outcome::Accepted(Queried {
        known: true,
        word,
        channel_txn_id: object::intent_id(told),
        amount: object::stated(told, "amount_total"),
        occurred_at: None,
    })
}

/// A session whose page is done with. Its intent says whether money came: at once, in some days, or not at all.
fn completed(told: &Map<String, Value>, payment_status: &str, expected: Expected<'_>) -> Outcome<Queried> {
    let Some(of) = told.get("payment_intent").and_then(Value::as_object) else {
        return unknown("a completed session must come with its intent");
    };
    // Nobody can try again on a page that is done with.
    let declined = payment_status == "unpaid"
        && strict_json::text(of, "status") == Some("requires_payment_method")
        && of.get("last_payment_error").is_some_and(Value::is_object);
    intent(of, expected).and_then(|queried| {
        let is_paid = queried.word == Some(ChannelWord::Paid);
        if is_paid != (payment_status == "paid") {
            return unknown("the session and its intent say different things");
        }
        let word = if declined { Some(ChannelWord::Failed) } else { queried.word };
        Outcome::Accepted(Queried { word, ..queried })
    })
}

/// What a refund says.
pub(super) fn refund(told: &Map<String, Value>, refund_no: &RefundNo) -> Outcome<RefundTold> {
    if !object::is(told, "refund") || !object::has_number(told, "refund_no", refund_no.as_str()) {
        return unknown("the answer is about another refund");
    }
    let Some(word) = strict_json::text(told, "status").and_then(states::refund_word) else {
        return unknown("the refund has a status that we do not know");
    };
    let Some(amount) = object::stated(told, "amount") else {
        return unknown("a refund must say its amount");
    };
    let channel_refund_no =
        strict_json::text(told, "id").filter(|text| object::is_printable(text, ID_BYTES_MAX));
    Outcome::Accepted(RefundTold {
        known: true,
        word: Some(word),
        channel_refund_no: channel_refund_no.map(str::to_owned),
        amount: Some(amount),
        occurred_at: object::created(told),
    })
}
