//! What went wrong at the broker, by what the caller can do about it.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// What the caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The broker cannot be reached. Keep everything and try again, more and more slowly.
    Away,
    /// The broker answered that it cannot now. Keep everything and try again.
    Transient,
    /// The broker refuses what was sent for its own sake; sending it again cannot help. A broker judges a whole batch: only
    /// a message that was refused when sent alone is certainly the one.
    Refused,
    /// This client is of no more use. Connect a new one, then try again.
    Broken,
}

/// Why an operation failed. What was not acknowledged may still have been written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{doing}")]
pub struct Error {
    doing: &'static str,
    kind: Kind,
    #[source]
    source: KafkaError,
}

impl Error {
    pub(crate) fn new(doing: &'static str, source: KafkaError) -> Self {
        Self { doing, kind: kind(&source), source }
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The broker's or the client's own word, for a column or a log line.
    #[must_use]
    pub fn reason(&self) -> String {
        self.source.to_string()
    }
}

/// Sorts the client's errors. What is not known here is transient: trying again loses nothing, giving up might.
#[expect(clippy::wildcard_enum_match_arm, reason = "foreign enums that grow: the default is to try again")]
fn kind(error: &KafkaError) -> Kind {
    match error {
        KafkaError::MessageConsumptionFatal(_) | KafkaError::Canceled => return Kind::Broken,
        KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_) => return Kind::Broken,
        KafkaError::Nul(_) => return Kind::Refused,
        _ => {}
    }
    let Some(code) = error.rdkafka_error_code() else { return Kind::Transient };
    match code {
        RDKafkaErrorCode::AllBrokersDown
        | RDKafkaErrorCode::BrokerTransportFailure
        | RDKafkaErrorCode::Resolve
        | RDKafkaErrorCode::MessageTimedOut
        | RDKafkaErrorCode::TimedOutQueue
        | RDKafkaErrorCode::OperationTimedOut
        | RDKafkaErrorCode::WaitingForCoordinator
        | RDKafkaErrorCode::NetworkException => Kind::Away,
        RDKafkaErrorCode::MessageSizeTooLarge
        | RDKafkaErrorCode::MessageBatchTooLarge
        | RDKafkaErrorCode::InvalidMessage
        | RDKafkaErrorCode::InvalidMessageSize
        | RDKafkaErrorCode::InvalidTimestamp
        | RDKafkaErrorCode::InvalidRecord
        | RDKafkaErrorCode::PolicyViolation
        | RDKafkaErrorCode::KeySerialization
        | RDKafkaErrorCode::ValueSerialization => Kind::Refused,
        RDKafkaErrorCode::Fatal
        | RDKafkaErrorCode::BrokerDestroy
        | RDKafkaErrorCode::Fenced
        | RDKafkaErrorCode::PurgeQueue
        | RDKafkaErrorCode::PurgeInflight => Kind::Broken,
        _ => Kind::Transient,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what is certain is given up: everything unknown is tried again.
    #[test]
    fn an_unknown_fault_is_transient_and_an_oversized_message_is_refused() {
        let of = |code| kind(&KafkaError::MessageProduction(code));
        assert_eq!(of(RDKafkaErrorCode::MessageSizeTooLarge), Kind::Refused);
        assert_eq!(of(RDKafkaErrorCode::MessageTimedOut), Kind::Away);
        assert_eq!(of(RDKafkaErrorCode::Fatal), Kind::Broken);
        for code in
            [RDKafkaErrorCode::Unknown, RDKafkaErrorCode::NotEnoughReplicas, RDKafkaErrorCode::UnknownTopic]
        {
            assert_eq!(of(code), Kind::Transient);
        }
    }
}
