//! The relay: read the lowest events of the owned shards, publish, delete what was acknowledged, again.
//!
//! Gate G8, first half. The queue's row commits with the change that it reports, and goes only after the broker's
//! acknowledgement: an event is published at least once, whatever dies in between. What is published twice carries the same
//! `ce_id`, and the ledger posts it once.

use std::time::Duration;

use broker::{Kind, Producer, ProducerSettings, TopicSpec};
use service_kit::CancellationToken;
use service_kit::config::Secret;
use service_kit::switch::kill_point;
use tokio::time::Instant;

use crate::look::{Look, Rows};
use crate::pace::{Pace, Progress};
use crate::publish::{self, Outcome};
use crate::store::{self, Event, Parked, Place, Session};
use crate::{Error, Settings};

/// Most events that one round may park while the broker takes nothing else. More of them mean that the fault is in the topic's
/// settings, not in the events.
const PARKED_ALONE_MAX: usize = 3;
/// After the signal to stop, how long a round may go on. What it has not deleted by then is published again.
const STOP_MAX: Duration = Duration::from_secs(5);

/// What one round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Shards that were owned; none: another copy works.
    pub shards: usize,
    /// Events read.
    pub read: usize,
    /// Events acknowledged and deleted.
    pub published: usize,
    /// Events moved to `outbox_parked`.
    pub parked: usize,
    /// Events that stay, to be sent again.
    pub failed: usize,
    /// Events that stay, because an earlier one of their key does.
    pub held: usize,
}

impl Round {
    fn progress(&self) -> Progress {
        if self.shards == 0 {
            Progress::Standby
        } else if self.read == 0 {
            Progress::Nothing
        } else if self.published == 0 && self.parked == 0 {
            Progress::Failed
        } else {
            Progress::Some
        }
    }
}

/// A relay. It owns shards of the queue from its first round until it is dropped, or loses its connection.
#[derive(Debug)]
pub struct Relay {
    database_url: Secret,
    producer_settings: ProducerSettings,
    producer: Producer,
    topic: TopicSpec,
    batch_rows_max: usize,
    /// The connection with the locks, and where to look in the shards that it owns.
    work: Option<(Session, Look)>,
}

impl Relay {
    /// Makes a relay; it connects when it works.
    ///
    /// # Errors
    /// When the broker's client cannot be made.
    pub fn connect(settings: &Settings) -> Result<Self, Error> {
        let producer_settings = ProducerSettings {
            delivery_ms_max: settings.delivery_ms_max,
            ..ProducerSettings::new(&settings.kafka_brokers)
        };
        Ok(Self {
            database_url: settings.database_url.clone(),
            producer: Producer::connect(&producer_settings)?,
            producer_settings,
            topic: TopicSpec { name: settings.topic.clone(), partitions: settings.partitions },
            batch_rows_max: usize::from(settings.batch_rows_max),
            work: None,
        })
    }

    /// Works until `shutdown`. Failures are waited out: nothing of the queue is lost by them.
    pub async fn run(mut self, shutdown: CancellationToken) {
        self.ensure_topic(&shutdown).await;
        let stop = async {
            shutdown.cancelled().await;
            tokio::time::sleep(STOP_MAX).await;
        };
        tokio::pin!(stop);
        let mut pace = Pace::default();
        while !shutdown.is_cancelled() {
            let result = tokio::select! {
                result = self.run_once() => result,
                () = &mut stop => return tracing::warn!("a round was given up; its events are published again"),
            };
            let progress = match &result {
                Ok(round) => round.progress(),
                Err(error) => {
                    let cause = std::error::Error::source(error).map(ToString::to_string);
                    tracing::warn!(%error, cause, "the relay gives up its shards and connects again");
                    metrics::counter!("oncepay_outbox_failures_total", "kind" => "database").increment(1);
                    Progress::Failed
                }
            };
            if let Some(pause) = pace.after(progress) {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }

    /// Makes the topic if it is missing, however long the broker is away.
    async fn ensure_topic(&self, shutdown: &CancellationToken) {
        let mut pace = Pace::default();
        loop {
            let ensured = tokio::select! {
                () = shutdown.cancelled() => return,
                ensured = broker::ensure(&self.producer_settings.brokers, std::slice::from_ref(&self.topic)) => ensured,
            };
            let Err(error) = ensured else { return };
            tracing::warn!(%error, reason = error.reason(), "the topic is not there yet; events wait in the outbox");
            let Some(pause) = pace.after(Progress::Failed) else { return };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One round: at most `batch_rows_max` events. After an error the shards are given up, because nobody knows any longer
    /// whether they are ours; the next round asks for them again.
    ///
    /// # Errors
    /// When the database fails, or another relay works on the same shards.
    pub async fn run_once(&mut self) -> Result<Round, Error> {
        // Taken out, so that an error, or the end of this future in its middle, drops the connection and with it the locks.
        let (mut session, mut look) = match self.work.take() {
            Some(work) => work,
            None => (Session::connect(&self.database_url).await?, Look::default()),
        };
        let result = self.round(&mut session, &mut look).await;
        let shards = result.as_ref().map_or(0, |round| round.shards);
        metrics::gauge!("oncepay_outbox_shards_owned")
            .set(f64::from(u32::try_from(shards).unwrap_or(u32::MAX)));
        if result.is_ok() {
            self.work = Some((session, look));
        }
        result
    }

    async fn round(&mut self, session: &mut Session, look: &mut Look) -> Result<Round, Error> {
        session.claim().await?;
        let shards = session.shards().to_vec();
        if shards.is_empty() {
            return Ok(Round::default());
        }
        let rows_max = self.batch_rows_max.div_ceil(shards.len());
        let floors = look.begin(&shards, Instant::now());
        let (limit, bytes) = (i64::try_from(rows_max).unwrap_or(i64::MAX), value_bytes_max());
        let (seen, events) = store::read(&mut session.connection, &shards, &floors, limit, bytes).await?;
        let mut round = Round { shards: shards.len(), read: events.len(), ..Round::default() };
        let mut done = Vec::new();
        if !events.is_empty() {
            kill_point("outbox_relay.publish.after_read");
            let outcome = publish::publish(&self.producer, &self.topic.name, &events, session).await?;
            kill_point("outbox_relay.publish.after_ack");
            done =
                outcome.acknowledged.iter().filter_map(|index| events.get(*index)).map(|e| e.place).collect();
            self.finish(session, &events, &done, outcome, &mut round).await?;
        }
        let read: Vec<_> = events.iter().map(|event| event.place).collect();
        look.settle(seen, rows_max, Rows { read: &read, done: &done, parked: round.parked > 0 });
        Ok(round)
    }

    /// Deletes what was acknowledged, parks what is refused, counts what stays.
    async fn finish(
        &mut self,
        session: &mut Session,
        events: &[Event],
        done: &[Place],
        outcome: Outcome,
        round: &mut Round,
    ) -> Result<(), Error> {
        let deleted = store::delete(&mut session.connection, done).await;
        if let Err(Error::TakenByOthers { .. }) = deleted {
            metrics::counter!("oncepay_outbox_taken_by_others_total").increment(1);
        }
        deleted?;
        kill_point("outbox_relay.publish.after_delete");
        metrics::counter!("oncepay_outbox_published_total").increment(count(done.len()));
        (round.published, round.failed, round.held) = (done.len(), outcome.failed, outcome.held);
        if let Some((kind, reason)) = &outcome.fault {
            self.tell_failure(*kind, reason, round)?;
        }
        if done.is_empty() && outcome.refused.len() > PARKED_ALONE_MAX {
            let error = outcome.refused.first().map(|refused| refused.error.as_str());
            tracing::error!(error, "the broker refuses every event: look at the topic's settings");
            metrics::counter!("oncepay_outbox_failures_total", "kind" => "topic").increment(1);
            round.failed = round.failed.saturating_add(outcome.refused.len());
            return Ok(());
        }
        round.parked = outcome.refused.len();
        park(session, events, outcome).await
    }

    fn tell_failure(&mut self, kind: Kind, reason: &str, round: &Round) -> Result<(), Error> {
        let name = match kind {
            Kind::Away => "away",
            Kind::Transient => "transient",
            Kind::Refused => "refused",
            Kind::Broken => "broken",
        };
        metrics::counter!("oncepay_outbox_failures_total", "kind" => name).increment(count(round.failed));
        tracing::warn!(
            reason,
            kind = name,
            failed = round.failed,
            held = round.held,
            "events stay in the outbox"
        );
        if kind == Kind::Broken {
            self.producer = Producer::connect(&self.producer_settings)?;
        }
        Ok(())
    }
}

async fn park(session: &mut Session, events: &[Event], outcome: Outcome) -> Result<(), Error> {
    let mut parked = Vec::with_capacity(outcome.refused.len());
    for refused in outcome.refused {
        let Some(event) = events.get(refused.index) else { continue };
        tracing::error!(
            pay.no = event.aggregate_id,
            msg.key = event.msg_key,
            error = refused.error,
            "an event is parked, and later ones of its order wait for it"
        );
        parked.push(Parked {
            place: event.place,
            partition_key: event.partition_key.clone(),
            error: refused.error,
            tries: refused.tries,
        });
    }
    store::park(&mut session.connection, &parked).await?;
    kill_point("outbox_relay.publish.after_park");
    metrics::counter!("oncepay_outbox_parked_total").increment(count(parked.len()));
    Ok(())
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

fn value_bytes_max() -> i32 {
    i32::try_from(contract::event::VALUE_BYTES_MAX).unwrap_or(i32::MAX)
}
