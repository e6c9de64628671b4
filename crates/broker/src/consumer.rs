//! Reading in batches. Nothing is committed by itself: an offset is committed by the caller, after the effect.

use std::time::Duration;

use futures::FutureExt as _;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer as _, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::Error;
use crate::context::{Context, blocking};

/// Bytes of one batch; a batch ends early rather than holding more. About 4,000 events.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes read ahead, KiB: two batches.
const READ_AHEAD_KIB_MAX: &str = "16384";
/// How long a silent consumer keeps its partitions, milliseconds: the least that a broker allows by default. After a
/// crash nobody reads them for so long; what a slow but living one did twice is deduplicated.
const SESSION_MS: &str = "6000";
/// Three heartbeats within a session.
const HEARTBEAT_MS: &str = "2000";
/// Longest wait of a fetch at the broker, milliseconds. It is the latency of an event that comes while we wait.
const FETCH_WAIT_MS: &str = "10";
/// How often the lag is told, milliseconds; a fraction of a metrics scrape.
const STATISTICS_MS: &str = "5000";
/// Longest wait for a seek; it is answered from memory.
const SEEK_MAX: Duration = Duration::from_secs(5);

/// Settings of a consumer.
#[derive(Debug, Clone)]
pub struct ConsumerSettings {
    /// `host:port`, several with commas.
    pub brokers: String,
    /// Copies with the same group share the partitions.
    pub group_id: String,
    pub topics: Vec<String>,
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub timestamp_ms: Option<i64>,
}

impl Message {
    /// A header's value as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        std::str::from_utf8(value).ok()
    }
}

/// A member of a consumer group.
pub struct Consumer {
    inner: StreamConsumer<Context>,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}

impl Consumer {
    /// Makes a consumer and subscribes; the connection is made, and made again, in the background. Without a committed
    /// offset reading begins at the start.
    ///
    /// # Errors
    /// When the settings are refused.
    pub fn connect(settings: &ConsumerSettings) -> Result<Self, Error> {
        let cannot = |error| Error::new("a kafka consumer cannot be made", error);
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &settings.brokers)
            .set("group.id", &settings.group_id)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("fetch.wait.max.ms", FETCH_WAIT_MS)
            .set("session.timeout.ms", SESSION_MS)
            .set("heartbeat.interval.ms", HEARTBEAT_MS)
            .set("queued.max.messages.kbytes", READ_AHEAD_KIB_MAX)
            .set("statistics.interval.ms", STATISTICS_MS)
            // A topic that is made later is found soon.
            .set("topic.metadata.refresh.interval.ms", "5000")
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000");
        let inner: StreamConsumer<Context> =
            config.create_with_context(Context::default()).map_err(cannot)?;
        let topics: Vec<_> = settings.topics.iter().map(String::as_str).collect();
        inner.subscribe(&topics).map_err(cannot)?;
        Ok(Self { inner })
    }

    /// Waits at most `wait` for a first message, then takes what is there, at most `rows_max`. Messages of one partition
    /// come in their order. Empty when nothing came. Must be called at least every few minutes, or the partitions move.
    ///
    /// Faults come in the same queue as messages, many of them for one outage, and stay in it when the outage is over. They
    /// are passed over as long as `wait` lasts, so that the messages behind them are reached at once.
    ///
    /// # Errors
    /// [`Error`] when there was nothing but faults; the next call goes on where this one stopped.
    pub async fn next_batch(&self, rows_max: usize, wait: Duration) -> Result<Vec<Message>, Error> {
        let (mut batch, mut fault) = (Vec::new(), None);
        let mut bytes = 0_usize;
        let first = async {
            loop {
                match self.inner.recv().await {
                    Ok(message) => return owned(&message),
                    Err(error) => fault = Some(error),
                }
            }
        };
        let Ok(first) = tokio::time::timeout(wait, first).await else {
            return match fault {
                Some(error) => Err(Error::new("messages cannot be read", error)),
                None => Ok(batch),
            };
        };
        let mut next = Some(first);
        while let Some(message) = next {
            bytes = bytes.saturating_add(message.value.as_ref().map_or(0, Vec::len));
            batch.push(message);
            next = if batch.len() < rows_max && bytes < BATCH_BYTES_MAX { self.at_hand() } else { None };
        }
        Ok(batch)
    }

    /// A message that is there already.
    fn at_hand(&self) -> Option<Message> {
        // A fault ends the batch; a lasting one comes again.
        self.inner.recv().now_or_never()?.ok().map(|message| owned(&message))
    }

    /// Commits, for each `(topic, partition, offset)`, the offset of the next message to read. Returns when the broker has
    /// it. Partitions that this consumer no longer owns are skipped: their new owner reads from the last commit.
    ///
    /// # Errors
    /// [`Error`] when the broker does not take it: the messages will be delivered again.
    pub fn commit(&self, positions: &[(String, i32, i64)]) -> Result<(), Error> {
        let failed = |error| Error::new("offsets cannot be committed", error);
        let owned = self.inner.assignment().map_err(failed)?;
        let mut offsets = TopicPartitionList::new();
        for (topic, partition, offset) in positions {
            if owned.find_partition(topic, *partition).is_some() {
                offsets.add_partition_offset(topic, *partition, Offset::Offset(*offset)).map_err(failed)?;
            }
        }
        if offsets.count() == 0 {
            return Ok(());
        }
        match blocking(|| self.inner.commit(&offsets, CommitMode::Sync)) {
            Ok(()) => Ok(()),
            Err(error) if is_no_longer_owner(&error) => {
                tracing::info!(%error, "the partitions moved before their offsets were committed");
                Ok(())
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Reads the partition again from `offset`, for messages that could not be handled. Without effect when this consumer
    /// no longer owns the partition.
    ///
    /// # Errors
    /// [`Error`] when the client cannot seek now.
    pub fn seek_back(&self, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        let failed = |error| Error::new("the partition cannot be read again", error);
        let owned = self.inner.assignment().map_err(failed)?;
        if owned.find_partition(topic, partition).is_none() {
            return Ok(());
        }
        blocking(|| self.inner.seek(topic, partition, Offset::Offset(offset), SEEK_MAX)).map_err(failed)
    }

    /// Records between the committed offset and the end, for each partition that is owned; a few seconds old.
    ///
    /// # Errors
    /// None now; the lag comes from the client's statistics.
    pub fn lag(&self) -> Result<Vec<(i32, i64)>, Error> {
        Ok(self.inner.context().lag())
    }
}

fn is_no_longer_owner(error: &KafkaError) -> bool {
    error.rdkafka_error_code().is_some_and(|code| {
        matches!(
            code,
            RDKafkaErrorCode::IllegalGeneration
                | RDKafkaErrorCode::UnknownMemberId
                | RDKafkaErrorCode::RebalanceInProgress
                | RDKafkaErrorCode::AssignmentLost
        )
    })
}

fn owned(message: &BorrowedMessage<'_>) -> Message {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|h| (h.key.to_owned(), h.value.unwrap_or_default().to_vec())).collect()
    });
    Message {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
        timestamp_ms: message.timestamp().to_millis(),
    }
}
