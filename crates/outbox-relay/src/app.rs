//! Wiring: the one place that builds the parts.

use std::net::SocketAddr;

use service_kit::admin::{self, Readiness};
use service_kit::pg::{self, PoolSettings};
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock};
use sqlx::PgPool;

use crate::relay::Relay;
use crate::{Error, Settings, sample};

/// Connections beside the one that works the queue: one for samples, one for `/readyz`.
const POOL_CONNECTIONS_MAX: u32 = 2;

/// The service, ready to run.
#[derive(Debug)]
pub struct App {
    admin_addr: SocketAddr,
    relay: Relay,
    pool: PgPool,
    admin_shutdown: CancellationToken,
}

impl App {
    /// Builds the parts and binds the admin address; database and broker are reached when first used.
    ///
    /// # Errors
    /// Settings that cannot be read, an address that cannot be bound.
    pub async fn build(settings: Settings, _clock: Clock, _switches: Switches) -> Result<Self, Error> {
        if settings.batch_rows_max == 0 || settings.partitions < 1 {
            return Err(Error::Start("batch_rows_max and partitions must be at least 1".to_owned()));
        }
        let limits = PoolSettings { connections_max: POOL_CONNECTIONS_MAX, ..PoolSettings::default() };
        let pool = pg::pool(&settings.database_url, &limits, "outbox-relay-samples")?;
        let relay = Relay::connect(&settings)?;
        let admin_shutdown = CancellationToken::new();
        let readiness = Readiness::default().needs_database("payment database", &pool);
        let admin_addr = admin::serve(settings.admin_listen, readiness, admin_shutdown.clone()).await?;
        Ok(Self { admin_addr, relay, pool, admin_shutdown })
    }

    /// Where health and metrics are served.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Relays until `shutdown`, then finishes the batch in hand.
    ///
    /// # Errors
    /// None now: what fails is tried again.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        tracing::info!(admin = %self.admin_addr, "outbox-relay is up");
        service_kit::task::spawn("outbox_relay.sample", sample::run(self.pool.clone(), shutdown.clone()));
        self.relay.run(shutdown).await;
        self.pool.close().await;
        self.admin_shutdown.cancel();
        Ok(())
    }
}
