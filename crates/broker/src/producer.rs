//! Sending: idempotent, acknowledged by all replicas, through a bounded queue.

use std::collections::VecDeque;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer as _};

use crate::Error;
use crate::context::Context;

/// Records in the client's queue: a few batches of a relay, about 20 MiB of events; more senders wait.
const QUEUE_RECORDS_MAX: usize = 10_000;
/// Bytes in the client's queue, KiB.
const QUEUE_KIB_MAX: usize = 64 * 1024;
/// Longest wait for an acknowledgement, milliseconds. Longer than a broker's restart, so that one costs no failure;
/// shorter than a supervisor's patience at shutdown.
const DELIVERY_MS_MAX: u64 = 15_000;
/// Wait when the queue is full of other callers' records.
const QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// Settings of a producer.
#[derive(Debug, Clone)]
pub struct ProducerSettings {
    /// `host:port`, several with commas.
    pub brokers: String,
    /// Most records in the client's queue.
    pub queue_records_max: usize,
    /// Longest wait for an acknowledgement, milliseconds; then the record's fate is unknown.
    pub delivery_ms_max: u64,
}

impl ProducerSettings {
    #[must_use]
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            queue_records_max: QUEUE_RECORDS_MAX,
            delivery_ms_max: DELIVERY_MS_MAX,
        }
    }
}

/// A record to send. Records of one key go to one partition, in the order in which they were sent.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    pub topic: &'a str,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Vec<(&'a str, &'a [u8])>,
}

/// Where the broker put a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    pub partition: i32,
    pub offset: i64,
}

/// A producer; cheap to clone, all clones share one queue.
#[derive(Clone)]
pub struct Producer {
    inner: FutureProducer<Context>,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("in_flight", &self.inner.in_flight_count()).finish()
    }
}

impl Producer {
    /// Makes a producer; the connection is made, and made again, in the background.
    ///
    /// # Errors
    /// When the settings are refused.
    pub fn connect(settings: &ProducerSettings) -> Result<Self, Error> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &settings.brokers)
            // Brings acks=all, endless retries within the delivery limit, and order kept over retries.
            .set("enable.idempotence", "true")
            .set("delivery.timeout.ms", settings.delivery_ms_max.to_string())
            .set("queue.buffering.max.messages", settings.queue_records_max.to_string())
            .set("queue.buffering.max.kbytes", QUEUE_KIB_MAX.to_string())
            // A fresh event leaves at once; a batch is queued within a millisecond and goes out together.
            .set("linger.ms", "1")
            .set("compression.type", "lz4")
            // The key's partition as the original client computes it, so that any producer agrees.
            .set("partitioner", "murmur2_random")
            // After an outage: soon, and not at the default's ten seconds.
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000");
        let inner = config
            .create_with_context(Context::default())
            .map_err(|error| Error::new("a kafka producer cannot be made", error))?;
        Ok(Self { inner })
    }

    /// Sends one record and waits for its acknowledgement.
    ///
    /// # Errors
    /// [`Error`]; unless its kind is `Refused`, the record may have been written all the same.
    pub async fn send(&self, record: Record<'_>) -> Result<Delivery, Error> {
        let mut results = self.send_all(vec![record]).await;
        results.pop().unwrap_or(Err(failed(KafkaError::Canceled)))
    }

    /// Queues the records in order, waits for all acknowledgements, and gives a result for each, in the same order. A
    /// full queue is waited for.
    pub async fn send_all(&self, records: Vec<Record<'_>>) -> Vec<Result<Delivery, Error>> {
        let mut results = Vec::with_capacity(records.len());
        let mut waiting = VecDeque::with_capacity(records.len());
        for record in records {
            let queued = loop {
                match self.inner.send_result(future_record(&record)) {
                    Ok(delivery) => break Waiting::Delivery(delivery),
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                        match waiting.pop_front() {
                            Some(oldest) => results.push(settled(oldest).await),
                            None => tokio::time::sleep(QUEUE_PAUSE).await,
                        }
                    }
                    Err((error, _)) => break Waiting::Failed(error),
                }
            };
            waiting.push_back(queued);
        }
        for next in waiting {
            results.push(settled(next).await);
        }
        results
    }

    /// Waits until everything that was queued has its answer, at most `limit`.
    ///
    /// # Errors
    /// When something is still in the queue.
    pub async fn flush(&self, limit: Duration) -> Result<(), Error> {
        let inner = self.inner.clone();
        let flushed = tokio::task::spawn_blocking(move || inner.flush(limit)).await;
        flushed
            .unwrap_or(Err(KafkaError::Canceled))
            .map_err(|error| Error::new("not everything was acknowledged in time", error))
    }
}

enum Waiting {
    Delivery(DeliveryFuture),
    Failed(KafkaError),
}

async fn settled(waiting: Waiting) -> Result<Delivery, Error> {
    match waiting {
        Waiting::Failed(error) => Err(failed(error)),
        Waiting::Delivery(delivery) => match delivery.await {
            Ok(Ok(delivery)) => Ok(Delivery { partition: delivery.partition, offset: delivery.offset }),
            Ok(Err((error, _))) => Err(failed(error)),
            Err(_) => Err(failed(KafkaError::Canceled)),
        },
    }
}

fn failed(error: KafkaError) -> Error {
    Error::new("a record was not acknowledged", error)
}

fn future_record<'a>(record: &'a Record<'_>) -> FutureRecord<'a, [u8], [u8]> {
    let mut out = FutureRecord::to(record.topic);
    out.key = record.key;
    out.payload = record.value;
    if !record.headers.is_empty() {
        let headers = OwnedHeaders::new_with_capacity(record.headers.len());
        out.headers = Some(
            record
                .headers
                .iter()
                .fold(headers, |headers, &(key, value)| headers.insert(Header { key, value: Some(value) })),
        );
    }
    out
}
