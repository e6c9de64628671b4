//! Wiring: the one place that builds the parts.

use std::net::SocketAddr;
use std::time::Duration;

use broker::{ConsumerSettings, Producer, ProducerSettings, TopicSpec};
use contract::event::DLQ_SUFFIX;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use service_kit::admin::{self, Readiness};
use service_kit::shutdown::DRAIN_MAX;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, pg, task};
use sqlx::PgPool;

use crate::apply::Applier;
use crate::config::Settings;
use crate::consume::{Pause, Worker};
use crate::dead_letter::DeadLetters;
use crate::error::Error;
use crate::health::Health;

/// Partitions of the dead-letter topic: a few messages a year, read by people, are easiest in one place.
const DLQ_PARTITIONS: i32 = 1;
/// Most consumers in one process; more than partitions would stand idle.
const WORKERS_MAX: usize = 64;
/// Most messages of a batch: beyond it a batch that is taken apart would hold its partition for minutes.
const BATCH_ROWS_MAX: usize = 10_000;

/// The service, ready to run.
#[derive(Debug)]
pub struct App {
    admin_addr: SocketAddr,
    admin_shutdown: CancellationToken,
    pool: PgPool,
    brokers: String,
    topics: Vec<TopicSpec>,
    workers: Vec<Worker>,
}

impl App {
    /// Builds the parts and binds the admin address; database and broker are reached when first used. No clock is read:
    /// times come with the events, and the time of booking is the database's.
    ///
    /// # Errors
    /// Settings that cannot be used, an address that cannot be bound.
    pub async fn build(settings: Settings, _clock: Clock, switches: Switches) -> Result<Self, Error> {
        check(&settings)?;
        let pool = pg::pool(&settings.database_url, &settings.pool, "ledger-consumer")?;
        let dlq = format!("{}{DLQ_SUFFIX}", settings.topic);
        let dead_letters = DeadLetters {
            producer: Producer::connect(&ProducerSettings::new(&settings.kafka_brokers))?,
            topic: dlq.clone(),
        };
        let health = Health::new(settings.workers);
        let worker = |number| Worker {
            number,
            settings: ConsumerSettings {
                brokers: settings.kafka_brokers.clone(),
                group_id: settings.group_id.clone(),
                topics: vec![settings.topic.clone()],
            },
            batch_rows_max: settings.batch_rows_max,
            poll_max: Duration::from_millis(settings.poll_ms_max),
            applier: Applier::new(pool.clone(), switches),
            dead_letters: dead_letters.clone(),
            health: health.clone(),
        };
        let workers = (0..settings.workers).map(worker).collect();
        let readiness = Readiness::default()
            .needs_database("ledger database", &pool)
            .needs("broker", move || std::future::ready(health.check()));
        let admin_shutdown = CancellationToken::new();
        let admin_addr = admin::serve(settings.admin_listen, readiness, admin_shutdown.clone()).await?;
        let topics = vec![
            TopicSpec { name: settings.topic, partitions: settings.partitions },
            TopicSpec { name: dlq, partitions: DLQ_PARTITIONS },
        ];
        Ok(Self { admin_addr, admin_shutdown, pool, brokers: settings.kafka_brokers, topics, workers })
    }

    /// Where health and metrics are served. This service listens on nothing else.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Where health and metrics are served.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Consumes until `shutdown`, then finishes the batches in hand.
    ///
    /// # Errors
    /// [`Error::WorkerEnded`].
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        tracing::info!(admin = %self.admin_addr, workers = self.workers.len(), "ledger-consumer is up");
        ensure_topics(&self.brokers, &self.topics, &shutdown).await;
        let stop = shutdown.child_token();
        let mut running: FuturesUnordered<_> = self
            .workers
            .into_iter()
            .map(|worker| task::spawn("ledger_consumer.worker", worker.run(stop.clone())))
            .collect();
        // A worker ends before the shutdown only by a panic. Its partitions would go to the others, and the fault with
        // them: all end, and a supervisor starts the service anew.
        let early = tokio::select! {
            _ = running.next() => !shutdown.is_cancelled(),
            () = shutdown.cancelled() => false,
        };
        stop.cancel();
        let drained = tokio::time::timeout(DRAIN_MAX, async { while running.next().await.is_some() {} });
        if drained.await.is_err() {
            tracing::warn!("a batch in hand took too long; it is read again at the next start");
        }
        self.pool.close().await;
        self.admin_shutdown.cancel();
        if early { Err(Error::WorkerEnded) } else { Ok(()) }
    }
}

fn check(settings: &Settings) -> Result<(), Error> {
    let within = |name: &str, value: usize, max: usize| {
        if (1..=max).contains(&value) {
            Ok(())
        } else {
            Err(Error::Start(format!("{name} must be 1 to {max}")))
        }
    };
    within("workers", settings.workers, WORKERS_MAX)?;
    within("batch_rows_max", settings.batch_rows_max, BATCH_ROWS_MAX)
}

/// Makes the topics, however long the broker is away. Reading from a topic that is not there is only an error a second.
async fn ensure_topics(brokers: &str, topics: &[TopicSpec], shutdown: &CancellationToken) {
    let mut pause = Pause::new();
    while !shutdown.is_cancelled() {
        match broker::ensure(brokers, topics).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(reason = error.reason(), %error, "the topics cannot be made yet");
                pause.wait(shutdown).await;
            }
        }
    }
}
