//! Wiring: the one place that builds the parts.

use std::net::SocketAddr;
use std::sync::Arc;

use contract::core::payment_core_client::PaymentCoreClient;
use contract::order::order_api_server::OrderApiServer;
use idempotency::lease::Leases;
use service_kit::admin::{self, Readiness};
use service_kit::grpc::{self, CarryTrace};
use service_kit::shutdown::DRAIN_MAX;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tonic::service::Routes;

use crate::Error;
use crate::begin::Begin;
use crate::config::Settings;
use crate::grpc::Api;

/// Largest request: fields at their limits take under 16 KiB.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The service, ready to run.
#[derive(Debug)]
pub struct App {
    listener: TcpListener,
    addr: SocketAddr,
    admin_addr: SocketAddr,
    routes: Routes,
    admin_shutdown: CancellationToken,
}

impl App {
    /// Builds the parts and binds the addresses; core and Redis are reached when first used.
    ///
    /// # Errors
    /// Settings that cannot be read, addresses that cannot be bound.
    pub async fn build(settings: Settings, clock: Clock, switches: Switches) -> Result<Self, Error> {
        let start = |error: String| Error::Start(error);
        let channel = grpc::channel(&settings.payment_core_url)?;
        let core = PaymentCoreClient::with_interceptor(channel.clone(), CarryTrace);
        let leases = Leases::new(settings.redis_url.expose()).map_err(|e| start(e.to_string()))?;
        let api = Api {
            core: core.clone(),
            payments: Begin::new(core.clone(), leases.clone(), switches),
            refunds: Begin::new(core, leases, switches),
            clock,
            creates: Arc::new(Semaphore::new(settings.creates_max)),
        };
        let service = OrderApiServer::new(api).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let routes = grpc::routes(Routes::new(service)).map_err(|e| start(e.to_string()))?;
        let (listener, addr) = grpc::bind(settings.listen).await?;
        let admin_shutdown = CancellationToken::new();
        // Redis is not asked: without it payments are still taken.
        let readiness = Readiness::default().needs_peer("payment-core", channel);
        let admin_addr = admin::serve(settings.admin_listen, readiness, admin_shutdown.clone()).await?;
        Ok(Self { listener, addr, admin_addr, routes, admin_shutdown })
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
        tracing::info!(addr = %self.addr, admin = %self.admin_addr, "order-api is up");
        let stopped = shutdown.clone();
        let served = grpc::serve(self.listener, self.routes, shutdown);
        tokio::pin!(served);
        tokio::select! {
            done = &mut served => done?,
            () = async { stopped.cancelled().await; tokio::time::sleep(DRAIN_MAX).await } => {
                tracing::warn!("calls in hand took too long and were dropped; their keys find what became of them");
            }
        }
        self.admin_shutdown.cancel();
        Ok(())
    }
}
