//! The channel's objects, as answers and notices carry them: the fields that we read, each with its limits.

use pay_types::ChannelTxnId;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::amount::from_stripe;
use crate::port::StatedAmount;
use crate::strict_json;

/// Longest id that we keep; the channel's have seventy characters at most so far.
pub(super) const ID_BYTES_MAX: usize = 128;
/// Longest number of ours; ours have 29.
const NUMBER_BYTES_MAX: usize = 64;

/// What stands under `metadata` in the name of one of our numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Number {
    There(String),
    /// The object is not of our making.
    Not,
    /// No number at all.
    Malformed,
}

pub(super) fn number(object: &Map<String, Value>, name: &str) -> Number {
    match object.get("metadata").and_then(|metadata| metadata.get(name)) {
        None | Some(Value::Null) => Number::Not,
        Some(value) => value
            .as_str()
            .filter(|text| is_printable(text, NUMBER_BYTES_MAX))
            .map_or(Number::Malformed, |text| Number::There(text.to_owned())),
    }
}

/// Whether the object has this number of ours.
pub(super) fn has_number(object: &Map<String, Value>, name: &str, number: &str) -> bool {
    object.get("metadata").and_then(|metadata| metadata.get(name)).and_then(Value::as_str) == Some(number)
}

pub(super) fn is(object: &Map<String, Value>, kind: &str) -> bool {
    strict_json::text(object, "object") == Some(kind)
}

/// The object's own id, if it begins as those of its kind do.
pub(super) fn id<'a>(object: &'a Map<String, Value>, prefix: &str) -> Option<&'a str> {
    strict_json::text(object, "id").filter(|text| is_id(text, prefix))
}

/// Plain enough for a path, too.
pub(super) fn is_id(text: &str, prefix: &str) -> bool {
    text.len() <= ID_BYTES_MAX
        && text.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The intent's id: our id of the transaction. Where the object only belongs to it, it names it, or holds it whole.
pub(super) fn intent_id(object: &Map<String, Value>) -> Option<ChannelTxnId> {
    let text = if is(object, "payment_intent") {
        object.get("id")
    } else {
        object.get("payment_intent").map(|intent| intent.get("id").unwrap_or(intent))
    };
    text.and_then(Value::as_str).filter(|text| is_id(text, "pi_")).and_then(|text| text.parse().ok())
}

/// The amount in this field, in our units.
pub(super) fn stated(object: &Map<String, Value>, name: &str) -> Option<StatedAmount> {
    from_stripe(object.get(name)?.as_i64()?, strict_json::text(object, "currency")?)
}

pub(super) fn created(object: &Map<String, Value>) -> Option<OffsetDateTime> {
    object.get("created")?.as_i64().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok())
}

/// `None` when it is not told.
pub(super) fn livemode(object: &Map<String, Value>) -> Option<bool> {
    object.get("livemode").and_then(Value::as_bool)
}

pub(super) fn is_printable(text: &str, len_max: usize) -> bool {
    (1..=len_max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}
