//! Copies of parked messages for whoever watches the dead-letter topic. The row in `parked_message` is the truth: a copy
//! that cannot be sent is counted and told, and not sent later.

use std::time::Duration;

use broker::{Message, Producer, Record};

use crate::park::Cause;

/// Longest wait for the broker: the partition stands still meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Header that tells why, in addition to the record's own headers.
const REASON: &str = "oncepay_parked_reason";
/// Header that tells where it lay: `topic[partition]@offset`.
const PLACE: &str = "oncepay_parked_place";

/// Sends to one topic.
#[derive(Debug, Clone)]
pub(crate) struct DeadLetters {
    pub(crate) producer: Producer,
    pub(crate) topic: String,
}

impl DeadLetters {
    /// Sends copies of messages whose rows are committed.
    pub(crate) async fn send(&self, parked: &[(&Message, Cause)]) {
        if parked.is_empty() {
            return;
        }
        let notes: Vec<(String, String)> =
            parked.iter().map(|(message, cause)| (cause.to_string(), place(message))).collect();
        let records = parked
            .iter()
            .zip(&notes)
            .map(|((message, _), (reason, place))| {
                let own = message.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
                let added = [(REASON, reason.as_bytes()), (PLACE, place.as_bytes())];
                Record {
                    topic: &self.topic,
                    key: message.key.as_deref(),
                    value: message.value.as_deref(),
                    headers: own.chain(added).collect(),
                }
            })
            .collect();
        let count = u64::try_from(parked.len()).unwrap_or(u64::MAX);
        match tokio::time::timeout(WAIT_MAX, self.producer.send_all(records)).await {
            Ok(results) => {
                for error in results.into_iter().filter_map(Result::err) {
                    failed(1, &error.reason());
                }
            }
            Err(_) => failed(count, "no acknowledgement in time"),
        }
    }
}

fn failed(count: u64, reason: &str) {
    metrics::counter!("oncepay_dead_letters_failed_total").increment(count);
    tracing::warn!(
        count,
        reason,
        "parked messages have no copy in the dead-letter topic; their rows are kept"
    );
}

fn place(message: &Message) -> String {
    format!("{}[{}]@{}", message.topic, message.partition, message.offset)
}
