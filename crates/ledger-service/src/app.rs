//! Wiring: the one place that builds the parts.

use std::net::SocketAddr;

use contract::ledger::ledger_service_server::LedgerServiceServer;
use service_kit::admin::{self, Readiness};
use service_kit::shutdown::DRAIN_MAX;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, grpc, pg};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tonic::service::Routes;

use crate::Error;
use crate::config::Settings;
use crate::grpc::Books;
use crate::watch;

/// The service, ready to run.
#[derive(Debug)]
pub struct App {
    listener: TcpListener,
    addr: SocketAddr,
    admin_addr: SocketAddr,
    routes: Routes,
    pool: PgPool,
    admin_shutdown: CancellationToken,
}

impl App {
    /// Builds the parts and binds the addresses; the database is reached when first used. No clock is read and no gate
    /// stands here.
    ///
    /// # Errors
    /// Settings that cannot be read, addresses that cannot be bound.
    pub async fn build(settings: Settings, _clock: Clock, _switches: Switches) -> Result<Self, Error> {
        let pool = pg::pool(&settings.database_url, &settings.pool, "ledger-service")?;
        // Filters that are left out make plans for all values wrong for one: plan for the values at hand.
        let options = (*pool.connect_options()).clone().options([("plan_cache_mode", "force_custom_plan")]);
        pool.set_connect_options(options);
        let service = LedgerServiceServer::new(Books { pool: pool.clone() });
        let routes = grpc::routes(Routes::new(service)).map_err(|error| Error::Start(error.to_string()))?;
        let (listener, addr) = grpc::bind(settings.listen).await?;
        let admin_shutdown = CancellationToken::new();
        let readiness = Readiness::default().needs_database("ledger database", &pool);
        let admin_addr = admin::serve(settings.admin_listen, readiness, admin_shutdown.clone()).await?;
        Ok(Self { listener, addr, admin_addr, routes, pool, admin_shutdown })
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

    /// Serves until `shutdown`, then finishes the calls in hand.
    ///
    /// # Errors
    /// When the transport fails.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        tracing::info!(addr = %self.addr, admin = %self.admin_addr, "ledger-service is up");
        service_kit::task::spawn("ledger_service.watch", watch::run(self.pool.clone(), shutdown.clone()));
        let stopped = shutdown.clone();
        let served = grpc::serve(self.listener, self.routes, shutdown);
        tokio::pin!(served);
        tokio::select! {
            done = &mut served => done?,
            () = async { stopped.cancelled().await; tokio::time::sleep(DRAIN_MAX).await } => {
                tracing::warn!("reports in hand took too long and were dropped");
            }
        }
        self.pool.close().await;
        self.admin_shutdown.cancel();
        Ok(())
    }
}
