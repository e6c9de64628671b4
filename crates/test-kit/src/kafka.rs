//! Topics of the real broker, and everything that lies in them.

use std::sync::OnceLock;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::wait::{WAIT_MAX, wait_for};
use crate::{background, env, name};

/// Longest answer of the broker to a question of ours.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Beginning of the names of test topics.
const PREFIX: &str = "test";

/// A record as it lies in the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub timestamp_ms: Option<i64>,
}

impl Record {
    /// A header's value as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        std::str::from_utf8(value).ok()
    }

    /// The key as text.
    #[must_use]
    pub fn key_text(&self) -> Option<&str> {
        std::str::from_utf8(self.key.as_deref()?).ok()
    }
}

/// A topic of one test, deleted with it.
#[derive(Debug)]
pub struct Topic {
    name: String,
}

impl Topic {
    /// Creates a topic that no other test knows.
    ///
    /// # Panics
    /// When the test stack's broker does not answer.
    pub async fn create(partitions: i32) -> Self {
        Self::create_with(partitions, &[]).await
    }

    /// Creates a topic with settings of its own, for example `max.message.bytes`.
    ///
    /// # Panics
    /// When the test stack's broker does not answer.
    pub async fn create_with(partitions: i32, settings: &[(&str, &str)]) -> Self {
        remove_left_behind().await;
        let name = name::unique(PREFIX);
        let mut topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let results = admin().create_topics([&topic], &options()).await;
        let result = results.unwrap_or_else(|error| panic!("no answer from Kafka, run `make test`: {error}"));
        assert!(result.iter().all(Result::is_ok), "the topic {name} cannot be created: {result:?}");
        let topic = Self { name };
        // Made is not yet usable: its partitions get their leaders a moment later.
        wait_for("the new topic's leaders", async || topic.try_records().await.is_ok()).await;
        topic
    }

    /// A unique name without a topic, for code that makes its own; removed with the value, if it was made.
    #[must_use]
    pub fn not_yet() -> Self {
        Self { name: name::unique(PREFIX) }
    }

    /// The dead-letter topic beside this one, which the code under test makes; removed with the value.
    #[must_use]
    pub fn dead_letters(&self) -> Self {
        Self { name: format!("{}.dlq", self.name) }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The brokers' addresses.
    #[must_use]
    pub fn brokers(&self) -> String {
        brokers()
    }

    /// Every record that is in the topic now, by partition and offset.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub async fn records(&self) -> Vec<Record> {
        self.try_records().await.unwrap_or_else(|error| panic!("{} cannot be read: {error}", self.name))
    }

    async fn try_records(&self) -> Result<Vec<Record>, KafkaError> {
        let topic = self.name.clone();
        tokio::task::spawn_blocking(move || read_all(&topic)).await.expect("a reader does not panic")
    }

    /// Records that a consumer group has not committed yet.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub async fn unread(&self, group: &str) -> i64 {
        let (topic, group) = (self.name.clone(), group.to_owned());
        let count = tokio::task::spawn_blocking(move || count_unread(&topic, &group)).await;
        let count = count.expect("a reader does not panic");
        count.unwrap_or_else(|error| panic!("{} cannot be looked at: {error}", self.name))
    }

    /// Waits until the topic holds at least `count` records, and gives all of them.
    pub async fn wait_for_records(&self, count: usize) -> Vec<Record> {
        wait_for(&format!("{count} records in {}", self.name), async || {
            let records = self.records().await;
            (records.len() >= count).then_some(records)
        })
        .await
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        let name = self.name.clone();
        background::finish(async move { delete(&[&name]).await });
    }
}

/// Addresses of the test stack's broker.
#[must_use]
pub fn brokers() -> String {
    env::address("KAFKA_BROKERS")
}

/// Asserts that the broker is a real Apache Kafka: it describes itself with settings that only the original has.
///
/// # Panics
/// When it is something else.
pub async fn assert_real_kafka() {
    let metadata = admin().inner().fetch_metadata(None, ANSWER_MAX);
    let metadata = metadata.unwrap_or_else(|error| panic!("no answer from Kafka, run `make test`: {error}"));
    let broker = metadata.brokers().first().expect("a cluster has a broker").id();
    let described = admin().describe_configs(&[ResourceSpecifier::Broker(broker)], &options()).await;
    let described = described.expect("a real broker describes its settings");
    let settings = described.first().and_then(|result| result.as_ref().ok()).expect("one broker was asked");
    for setting in ["log.dirs", "process.roles", "node.id"] {
        let value = settings.get(setting).and_then(|entry| entry.value.as_deref());
        assert!(value.is_some_and(|value| !value.is_empty()), "the broker does not know its {setting}");
    }
}

fn admin() -> &'static AdminClient<DefaultClientContext> {
    static ADMIN: OnceLock<AdminClient<DefaultClientContext>> = OnceLock::new();
    ADMIN.get_or_init(|| {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers()).set("log_level", "2");
        config.create().expect("a Kafka client can be made")
    })
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER_MAX)).operation_timeout(Some(ANSWER_MAX))
}

async fn delete(names: &[&str]) {
    // Best effort: a topic that stays is removed by a run an hour later.
    drop(admin().delete_topics(names, &options()).await);
}

/// Once a process: removes topics that killed tests left.
async fn remove_left_behind() {
    static DONE: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    DONE.get_or_init(async || {
        let metadata = admin().inner().fetch_metadata(None, ANSWER_MAX);
        let metadata =
            metadata.unwrap_or_else(|error| panic!("no answer from Kafka, run `make test`: {error}"));
        let names: Vec<_> = metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name).collect();
        let old: Vec<_> = names.into_iter().filter(|name| name::is_left_behind(name, PREFIX)).collect();
        if !old.is_empty() {
            delete(&old).await;
        }
    })
    .await;
}

fn count_unread(topic: &str, group: &str) -> Result<i64, KafkaError> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers()).set("group.id", group).set("log_level", "2");
    let consumer: BaseConsumer = config.create()?;
    let metadata = consumer.fetch_metadata(Some(topic), ANSWER_MAX)?;
    let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
    let mut asked = TopicPartitionList::new();
    for partition in (0..).take(partitions) {
        asked.add_partition(topic, partition);
    }
    let committed = consumer.committed_offsets(asked, ANSWER_MAX)?;
    let mut unread = 0_i64;
    for element in committed.elements() {
        let (low, high) = consumer.fetch_watermarks(topic, element.partition(), ANSWER_MAX)?;
        let next = if let Offset::Offset(offset) = element.offset() { offset } else { low };
        unread = unread.saturating_add(high.saturating_sub(next));
    }
    Ok(unread)
}

fn read_all(topic: &str) -> Result<Vec<Record>, KafkaError> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers())
        .set("group.id", "never-committed")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "false")
        .set("fetch.wait.max.ms", "10")
        .set("log_level", "2");
    let consumer: BaseConsumer = config.create()?;
    let metadata = consumer.fetch_metadata(Some(topic), ANSWER_MAX)?;
    let found = metadata.topics().first();
    if let Some(error) = found.and_then(rdkafka::metadata::MetadataTopic::error) {
        return Err(KafkaError::MetadataFetch(error.into()));
    }
    let partitions = found.map_or(0, |topic| topic.partitions().len());
    let mut assignment = TopicPartitionList::new();
    let mut open = std::collections::BTreeMap::new();
    for partition in (0..).take(partitions) {
        let (low, high) = consumer.fetch_watermarks(topic, partition, ANSWER_MAX)?;
        if low < high {
            assignment.add_partition_offset(topic, partition, Offset::Offset(low))?;
            open.insert(partition, high);
        }
    }
    consumer.assign(&assignment)?;
    let started = tokio::time::Instant::now();
    let mut records = Vec::new();
    while !open.is_empty() {
        if started.elapsed() > WAIT_MAX {
            return Err(KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut));
        }
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let last =
            open.get(&message.partition()).is_some_and(|high| message.offset().saturating_add(1) >= *high);
        if last {
            open.remove(&message.partition());
        }
        records.push(record(&message));
    }
    records.sort_by_key(|record| (record.partition, record.offset));
    Ok(records)
}

fn record(message: &rdkafka::message::BorrowedMessage<'_>) -> Record {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|h| (h.key.to_owned(), h.value.unwrap_or_default().to_vec())).collect()
    });
    Record {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
        timestamp_ms: message.timestamp().to_millis(),
    }
}
