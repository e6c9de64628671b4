//! Wiring: the one place that builds the parts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use channel::Accounts;
use contract::core::payment_core_server::PaymentCoreServer;
use futures::FutureExt as _;
use service_kit::admin::{self, Readiness};
use service_kit::shutdown::DRAIN_MAX;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, grpc, pg};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tonic::service::Routes;

use crate::Error;
use crate::config::Settings;
use crate::grpc::Core;
use crate::payment::create::{self, Create};
use crate::payment::dispatch::Channels;
use crate::payment::gather::Gather;
use crate::payment::judge::ChannelResult;
use crate::payment::settle::{self, Settled};
use crate::payment::sweep::{self, Schedule};
use crate::refund;

/// Largest message: a notice of 64 KiB and room for its fields.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// The service, ready to run.
#[derive(Debug)]
pub struct App {
    listener: TcpListener,
    addr: SocketAddr,
    admin_addr: SocketAddr,
    routes: Routes,
    channels: Channels,
    schedule: Schedule,
    dispatches: Arc<Semaphore>,
    dispatches_max: u32,
    admin_shutdown: CancellationToken,
    gathers_stop: CancellationToken,
}

/// Workers of one kind of command: a fifth of the pool each, so that creates, words of channels and refunds leave two fifths
/// for reads, dispatches and jobs.
fn workers(connections_max: u32) -> usize {
    usize::try_from(connections_max.div_ceil(5)).unwrap_or(1).max(1)
}

fn creating(
    pool: &PgPool,
    workers: usize,
    stop: &CancellationToken,
    switches: Switches,
) -> Gather<Create, create::Answer> {
    let pool = pool.clone();
    Gather::start("create", workers, stop, move |commands: &[Create]| {
        let pool = pool.clone();
        async move { create::create(&pool, commands, switches, false).await }.boxed()
    })
}

/// Variables come in lower case, currencies do not.
fn by_currency(limits: BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    limits.into_iter().map(|(currency, limit)| (currency.to_uppercase(), limit)).collect()
}

fn refunding(
    pool: &PgPool,
    workers: usize,
    stop: &CancellationToken,
) -> Gather<refund::create::Create, refund::create::Answer> {
    let pool = pool.clone();
    Gather::start("refund", workers, stop, move |commands: &[refund::create::Create]| {
        let pool = pool.clone();
        async move { refund::create::create(&pool, commands, false).await }.boxed()
    })
}

fn settling(
    pool: &PgPool,
    workers: usize,
    stop: &CancellationToken,
    switches: Switches,
    clock: &Clock,
) -> Gather<ChannelResult, Settled> {
    let (pool, clock) = (pool.clone(), clock.clone());
    Gather::start("settle", workers, stop, move |results: &[ChannelResult]| {
        let (pool, now) = (pool.clone(), clock.now());
        async move { settle::settle(&pool, results, switches, now).await }.boxed()
    })
}

impl App {
    /// Builds the parts and binds the addresses; the database is reached when first used.
    ///
    /// # Errors
    /// Settings that cannot be read, addresses that cannot be bound.
    pub async fn build(settings: Settings, clock: Clock, switches: Switches) -> Result<Self, Error> {
        let start = |error: String| Error::Start(error);
        let pool = pg::pool(&settings.database_url, &settings.pool, "payment-core")?;
        let accounts = Arc::new(Accounts::load(&settings.channels_file).map_err(|e| start(e.to_string()))?);
        let clients =
            channel::clients(&accounts, &settings.client, &clock).map_err(|e| start(e.to_string()))?;
        let gathers_stop = CancellationToken::new();
        let workers = workers(settings.pool.connections_max);
        let settling = settling(&pool, workers, &gathers_stop, switches, &clock);
        let creating = creating(&pool, workers, &gathers_stop, switches);
        let refunding = refunding(&pool, workers, &gathers_stop);
        let clients = Arc::new(clients);
        let channels = Channels { pool: pool.clone(), accounts, clients, clock, switches, settling };
        let dispatches = Arc::new(Semaphore::new(settings.dispatches_max));
        let core = Core {
            channels: channels.clone(),
            dispatches: Arc::clone(&dispatches),
            dispatch_wait_max: Duration::from_millis(settings.dispatch_wait_ms_max),
            creating,
            refunding,
            approval_above: Arc::new(by_currency(settings.refund_approval_above)),
            command_wait_max: Duration::from_millis(settings.command_wait_ms_max),
            first_look: time::Duration::seconds(settings.first_look_s.into()),
            keys_kept: time::Duration::days(settings.keys_kept_days.into()),
        };
        let service = PaymentCoreServer::new(core).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let routes = grpc::routes(Routes::new(service)).map_err(|e| start(e.to_string()))?;
        let (listener, addr) = grpc::bind(settings.listen).await?;
        let admin_shutdown = CancellationToken::new();
        let readiness = Readiness::default().needs_database("payment database", &pool);
        let admin_addr = admin::serve(settings.admin_listen, readiness, admin_shutdown.clone()).await?;
        let schedule = Schedule {
            interval: Duration::from_millis(settings.sweep_interval_ms),
            delay_s_min: settings.first_look_s,
            delay_s_max: settings.look_s_max,
            keys_kept: time::Duration::days(settings.keys_kept_days.into()),
        };
        let dispatches_max = u32::try_from(settings.dispatches_max).map_err(|e| start(e.to_string()))?;
        Ok(Self {
            listener,
            addr,
            admin_addr,
            routes,
            channels,
            schedule,
            dispatches,
            dispatches_max,
            admin_shutdown,
            gathers_stop,
        })
    }

    /// Where gRPC is served.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where health and metrics are served.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Serves until `shutdown`; then finishes the calls, the dispatches and the sweep in hand.
    ///
    /// # Errors
    /// When the transport fails.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        tracing::info!(addr = %self.addr, admin = %self.admin_addr, "payment-core is up");
        let pool = self.channels.pool.clone();
        let sweeper = service_kit::task::spawn(
            "payment_core.sweep",
            sweep::run(self.channels, self.schedule, shutdown.clone()),
        );
        grpc::serve(self.listener, self.routes, shutdown).await?;
        let drained = tokio::time::timeout(DRAIN_MAX, async {
            // All places free: no dispatch is under way.
            let places = self.dispatches.acquire_many(self.dispatches_max).await;
            (sweeper.await, places.is_ok())
        });
        if drained.await.is_err() {
            tracing::warn!("work in hand took too long; the next start finishes it");
        }
        self.gathers_stop.cancel();
        pool.close().await;
        self.admin_shutdown.cancel();
        Ok(())
    }
}
