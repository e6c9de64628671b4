//! What librdkafka tells beside its answers: log lines and statistics.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;

/// Sends the library's talk to the trace level of importance that it has for us: a failure comes back as an error and is
/// logged once, by whoever handles it.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// Records behind the end, by partition; from the last statistics.
    lag: Mutex<BTreeMap<i32, i64>>,
}

impl Context {
    pub(crate) fn lag(&self) -> Vec<(i32, i64)> {
        let lag = self.lag.lock().unwrap_or_else(PoisonError::into_inner);
        lag.iter().map(|(partition, lag)| (*partition, *lag)).collect()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(kafka.facility = facility, "librdkafka: {message}");
            }
            RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning
            | RDKafkaLogLevel::Notice
            | RDKafkaLogLevel::Info
            | RDKafkaLogLevel::Debug => tracing::debug!(kafka.facility = facility, "librdkafka: {message}"),
        }
    }

    fn stats(&self, statistics: Statistics) {
        let mut lag = BTreeMap::new();
        for (number, partition) in statistics.topics.values().flat_map(|topic| &topic.partitions) {
            // Partitions that are not ours have -1, and so does one that has not been read yet.
            if *number >= 0 && partition.consumer_lag >= 0 {
                let sum: &mut i64 = lag.entry(*number).or_default();
                *sum = sum.saturating_add(partition.consumer_lag);
            }
        }
        *self.lag.lock().unwrap_or_else(PoisonError::into_inner) = lag;
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "librdkafka: {reason}");
    }
}

impl ConsumerContext for Context {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(partitions) => {
                tracing::info!(
                    kafka.partitions = partitions.count(),
                    "partitions were given to this consumer"
                );
            }
            Rebalance::Revoke(partitions) => {
                tracing::info!(
                    kafka.partitions = partitions.count(),
                    "partitions were taken from this consumer"
                );
            }
            Rebalance::Error(error) => tracing::warn!(%error, "a rebalance failed"),
        }
    }
}

/// Runs a call of librdkafka that blocks for a round trip without holding up the other tasks of this thread, where the
/// runtime allows it.
pub(crate) fn blocking<T>(call: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(call)
        }
        Ok(_) | Err(_) => call(),
    }
}
