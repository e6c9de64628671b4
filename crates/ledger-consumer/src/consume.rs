//! The loop: read, apply, then commit the offsets of what is applied.
//!
//! Offsets never pass a message that is not done: what a partition did not get through is read again from its first
//! message. While the ledger database is away the loop waits, longer and longer up to a limit, and goes on reading the
//! same messages: the group keeps its member, and nothing is counted against any message.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker::{Consumer, ConsumerSettings, Kind, Message};
use futures::{StreamExt as _, stream};
use service_kit::CancellationToken;
use service_kit::switch::kill_point;

use crate::apply::{Applied, Applier};
use crate::dead_letter::DeadLetters;
use crate::health::Health;

/// Transactions of one worker at one time, a partition each. Their commits share the disk's flushes; more would only
/// hold more connections of the pool.
const PARTITIONS_AT_ONCE_MAX: usize = 4;
/// First wait after a failure; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest wait: work is taken up again within seconds after an outage of any length.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A growing pause between tries.
#[derive(Debug)]
pub(crate) struct Pause(Duration);

impl Pause {
    pub(crate) fn new() -> Self {
        Self(PAUSE_MIN)
    }

    fn reset(&mut self) {
        self.0 = PAUSE_MIN;
    }

    /// Waits, or returns at once when the service ends.
    pub(crate) async fn wait(&mut self, shutdown: &CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(self.0) => {}
        }
        self.0 = self.0.saturating_mul(2).min(PAUSE_MAX);
    }
}

/// One consumer of the group.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) settings: ConsumerSettings,
    pub(crate) batch_rows_max: usize,
    pub(crate) poll_max: Duration,
    pub(crate) applier: Applier,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) health: Health,
}

/// Why a consumer is given up; the next one begins at the committed offsets.
struct Lost;

impl Worker {
    /// Consumes until `shutdown`; the batch in hand is finished.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut pause = Pause::new();
        while !shutdown.is_cancelled() {
            match Consumer::connect(&self.settings) {
                Ok(consumer) => {
                    if self.consume(&consumer, &shutdown, &mut pause).await.is_err() {
                        pause.wait(&shutdown).await;
                    }
                }
                Err(error) => {
                    self.broker_failed(&error);
                    pause.wait(&shutdown).await;
                }
            }
        }
    }

    async fn consume(
        &self,
        consumer: &Consumer,
        shutdown: &CancellationToken,
        pause: &mut Pause,
    ) -> Result<(), Lost> {
        loop {
            // What was read and is dropped here was not committed, and is read again.
            let batch = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                batch = consumer.next_batch(self.batch_rows_max, self.poll_max) => batch,
            };
            self.tell_lag(consumer);
            match batch {
                Ok(batch) if batch.is_empty() => self.health.set(self.number, Ok(())),
                Ok(batch) => {
                    self.health.set(self.number, Ok(()));
                    kill_point("ledger_consumer.consume.after_poll");
                    if self.take(consumer, batch).await? {
                        pause.reset();
                    } else {
                        pause.wait(shutdown).await;
                    }
                }
                Err(error) => {
                    self.broker_failed(&error);
                    if error.kind() == Kind::Broken {
                        return Err(Lost);
                    }
                    pause.wait(shutdown).await;
                }
            }
        }
    }

    /// Applies a batch, commits what is done, and turns back to what is not; whether all of it is done.
    async fn take(&self, consumer: &Consumer, batch: Vec<Message>) -> Result<bool, Lost> {
        let mut partitions: BTreeMap<(String, i32), Vec<Message>> = BTreeMap::new();
        for message in batch {
            partitions.entry((message.topic.clone(), message.partition)).or_default().push(message);
        }
        // Once the database is away, the other partitions need not find that out one by one.
        let away = AtomicBool::new(false);
        let work: Vec<_> = partitions.values().map(|messages| self.partition(messages, &away)).collect();
        let applied: Vec<_> = stream::iter(work).buffer_unordered(PARTITIONS_AT_ONCE_MAX).collect().await;
        let mut all_done = true;
        let mut positions = Vec::new();
        for (messages, applied) in &applied {
            if let Some(error) = &applied.stopped {
                tracing::warn!(error = chain(error), "the ledger waits: the same messages are tried again");
                metrics::counter!("oncepay_ledger_waits_total").increment(1);
            }
            if let Some(last) = applied.done.checked_sub(1).and_then(|last| messages.get(last)) {
                positions.push((last.topic.clone(), last.partition, last.offset.saturating_add(1)));
            }
            if let Some(next) = messages.get(applied.done) {
                all_done = false;
                consumer.seek_back(&next.topic, next.partition, next.offset).map_err(|error| {
                    tracing::warn!(reason = error.reason(), %error, "the consumer starts again from its offsets");
                    Lost
                })?;
            }
        }
        self.commit(consumer, &positions);
        Ok(all_done)
    }

    /// Applies one partition's part of a batch.
    async fn partition<'a>(
        &self,
        messages: &'a [Message],
        away: &AtomicBool,
    ) -> (&'a [Message], Applied<'a>) {
        if away.load(Ordering::SeqCst) {
            return (messages, Applied { done: 0, parked: Vec::new(), stopped: None });
        }
        let applied = self.applier.apply(messages).await;
        if applied.stopped.is_some() {
            away.store(true, Ordering::SeqCst);
        }
        self.dead_letters.send(&applied.parked).await;
        (messages, applied)
    }

    /// A commit that fails is no harm: the messages come again, and are known.
    fn commit(&self, consumer: &Consumer, positions: &[(String, i32, i64)]) {
        match consumer.commit(positions) {
            Ok(()) => kill_point("ledger_consumer.consume.after_offset_commit"),
            Err(error) => self.broker_failed(&error),
        }
    }

    fn broker_failed(&self, error: &broker::Error) {
        tracing::warn!(worker = self.number, reason = error.reason(), %error, "the broker failed");
        metrics::counter!("oncepay_consumer_broker_errors_total").increment(1);
        self.health.set(self.number, Err(format!("{error}: {}", error.reason())));
    }

    /// The sum over this worker's partitions: a gauge for each partition would keep the last word about one that moved.
    fn tell_lag(&self, consumer: &Consumer) {
        let Ok(lag) = consumer.lag() else { return };
        let records = lag.into_iter().fold(0_i64, |sum, (_, lag)| sum.saturating_add(lag));
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        metrics::gauge!("oncepay_consumer_lag_records", "worker" => self.number.to_string()).set(records);
    }
}

/// An error with what is behind it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}
