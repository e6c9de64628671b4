//! Wiring: the one place that builds the parts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use channel::{Accounts, Readers};
use contract::core::payment_core_client::PaymentCoreClient;
use service_kit::admin::{self, Readiness};
use service_kit::grpc::CarryTrace;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, grpc, shutdown};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::config::Settings;
use crate::error::Error;
use crate::evidence::{self, Evidence, Writer};
use crate::http::{self, listener::BoundedListener};

/// The core as a client; cheap to clone, one connection for all.
pub(crate) type Core = PaymentCoreClient<InterceptedService<Channel, CarryTrace>>;

/// Longest look at the core's health.
const HEALTH_MAX: Duration = Duration::from_secs(1);

/// What all notices share.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) readers: Readers,
    pub(crate) core: Core,
    pub(crate) core_limit: Duration,
    pub(crate) evidence: Evidence,
    pub(crate) places: Semaphore,
    pub(crate) clock: Clock,
}

/// The receiver, ready to run.
pub struct App {
    receiver: Receiver,
    writer: Writer,
    listener: TcpListener,
    addr: SocketAddr,
    admin_addr: SocketAddr,
    admin_stop: CancellationToken,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "callback-receiver at {}", self.addr)
    }
}

impl App {
    /// Reads the accounts and binds the listeners; port 0 takes a free one. The core is connected to when first needed.
    ///
    /// Switches are taken for the shape that all services share: the half of gate 7 that stands here, signature and time,
    /// has no switch. There is no way to have a notice believed unread.
    ///
    /// # Errors
    /// [`Error`] naming the setting to mend.
    pub async fn build(settings: Settings, clock: Clock, _switches: Switches) -> Result<Self, Error> {
        let readers = channel::readers(&Accounts::load(&settings.channels_file)?, &settings.client, &clock)?;
        let connection = grpc::channel(&settings.payment_core_url).map_err(Error::CoreUrl)?;
        let core = PaymentCoreClient::with_interceptor(connection.clone(), CarryTrace);
        let accounts: Vec<_> =
            readers.iter().map(|(channel, account, _)| (channel, account.clone())).collect();
        let (evidence, writer) = evidence::channel(accounts.into_iter(), core.clone());
        let bind = |setting, address| move |source| Error::Bind { setting, address, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(bind("listen", settings.listen))?;
        let addr = listener.local_addr().map_err(bind("listen", settings.listen))?;
        let readiness = Readiness::default().needs("payment-core", move || healthy(connection.clone()));
        let admin_stop = CancellationToken::new();
        let admin_addr = admin::serve(settings.admin_listen, readiness, admin_stop.clone())
            .await
            .map_err(bind("admin_listen", settings.admin_listen))?;
        let receiver = Receiver {
            readers,
            core,
            core_limit: Duration::from_millis(settings.core_ms_max),
            evidence,
            places: Semaphore::new(settings.in_hand_max),
            clock,
        };
        Ok(Self { receiver, writer, listener, addr, admin_addr, admin_stop })
    }

    /// Where channels send their notices.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Serves until `shutdown`, then finishes the notices in hand and writes the evidence that waits.
    ///
    /// # Errors
    /// [`Error::Serve`].
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let _admin = self.admin_stop.drop_guard();
        let writer = service_kit::task::spawn("callback_receiver.evidence", self.writer.run());
        let router = http::router(Arc::new(self.receiver));
        let served = axum::serve(BoundedListener::new(self.listener), router)
            .with_graceful_shutdown(shutdown.clone().cancelled_owned());
        let drained = async {
            shutdown.cancelled().await;
            tokio::time::sleep(shutdown::DRAIN_MAX).await;
        };
        tokio::select! {
            served = served.into_future() => served.map_err(Error::Serve)?,
            () = drained => tracing::warn!("connections were cut: they did not end in time"),
        }
        // The router is gone, and with it the way into the queue: the writer ends when it is empty.
        if tokio::time::timeout(shutdown::DRAIN_MAX, writer).await.is_err() {
            tracing::warn!("evidence that waited is lost: it was not written in time");
        }
        Ok(())
    }
}

async fn healthy(connection: Channel) -> Result<(), String> {
    let mut health = HealthClient::new(connection);
    match tokio::time::timeout(HEALTH_MAX, health.check(HealthCheckRequest::default())).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(status)) => Err(format!("payment_core_url cannot be reached ({:?})", status.code())),
        Err(_) => Err("payment_core_url does not answer".to_owned()),
    }
}
