//! Names on the event topic, and the event's body.

pub use crate::generated::oncepay::event::v1::PaymentEvent;

/// The topic that carries every fact about payments, keyed by order.
pub const TOPIC: &str = "payment.events.v1";
/// Suffix of the topic for messages that could not be posted.
pub const DLQ_SUFFIX: &str = ".dlq";
/// Partitions of a new topic.
pub const PARTITIONS: i32 = 12;
/// Largest record value, bytes; below every broker's default of 1 MiB. An event is well under 2 KiB.
pub const VALUE_BYTES_MAX: usize = 256 * 1024;

/// Record headers: CloudEvents 1.0, binary mode, as its Kafka binding names them.
pub mod header {
    pub const ID: &str = "ce_id";
    pub const TYPE: &str = "ce_type";
    pub const SUBJECT: &str = "ce_subject";
    pub const SOURCE: &str = "ce_source";
    pub const SPEC_VERSION: &str = "ce_specversion";
    pub const TIME: &str = "ce_time";
    pub const CONTENT_TYPE: &str = "content-type";
    /// W3C trace context.
    pub const TRACEPARENT: &str = "traceparent";
}

/// Value of the `ce_source` header.
pub const SOURCE: &str = "/oncepay/payment-core";

/// Types of events. One fact, one type, one key.
pub mod kind {
    pub const PAY_CREATED: &str = "PAY_CREATED";
    pub const PAY_SUCCEEDED: &str = "PAY_SUCCEEDED";
    pub const PAY_FAILED: &str = "PAY_FAILED";
    pub const PAY_CLOSED: &str = "PAY_CLOSED";
    pub const RECEIPT_UNEXPECTED: &str = "RECEIPT_UNEXPECTED";
    /// A receipt that was booked for a wrong amount is taken back: the channel told the right one for the transaction.
    pub const RECEIPT_WITHDRAWN: &str = "RECEIPT_WITHDRAWN";
    /// A refund leaves us: the money is on its way, whatever the channel answers.
    pub const REFUND_SUBMITTED: &str = "REFUND_SUBMITTED";
    /// The channel said that the money is back with the payer.
    pub const REFUND_SUCCEEDED: &str = "REFUND_SUCCEEDED";
    /// The channel said that it never will be.
    pub const REFUND_FAILED: &str = "REFUND_FAILED";
    /// A refund was asked for and its amount reserved; no money has moved.
    pub const REFUND_CREATED: &str = "REFUND_CREATED";
    /// The channel took a refund; the money is on its way.
    pub const REFUND_ACCEPTED: &str = "REFUND_ACCEPTED";
    /// A refund ended before it was sent: a second person turned it down. No money has moved.
    pub const REFUND_REJECTED: &str = "REFUND_REJECTED";
    /// The money of a refund that had succeeded came home.
    pub const REFUND_RETURNED: &str = "REFUND_RETURNED";
}

/// 64-bit integers as text, as the JSON mapping of protobuf wants them; numbers are read too.
pub(crate) mod int64_text {
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
    pub(crate) fn serialize<S: Serializer>(value: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrNumber {
        Text(String),
        Number(i64),
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        match TextOrNumber::deserialize(deserializer)? {
            TextOrNumber::Number(value) => Ok(value),
            TextOrNumber::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_the_json_mapping_of_protobuf() {
        let event = PaymentEvent { msg_key: "K".into(), amount: 9_007_199_254_740_993, ..Default::default() };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["msgKey"], "K");
        assert_eq!(json["amount"], "9007199254740993");
        assert_eq!(serde_json::from_value::<PaymentEvent>(json).unwrap(), event);
    }

    #[test]
    fn fields_of_a_later_version_are_passed_over() {
        let event: PaymentEvent = serde_json::from_str(r#"{"msgKey":"K","amount":5,"new":{}}"#).unwrap();
        assert_eq!(event.amount, 5);
    }
}
