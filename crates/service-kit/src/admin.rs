//! The admin port of every service: `/healthz` (the process lives), `/readyz` (it can work, or says what is missing),
//! `/metrics` (Prometheus text).

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

type Check = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// What must be there before the service can work; each by the name that `/readyz` tells.
#[derive(Clone, Default)]
pub struct Readiness(Vec<(&'static str, Check)>);

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Readiness {
    /// Adds a check. Its error is shown to operators and must hold no secret.
    #[must_use]
    pub fn needs<F, Fut>(mut self, name: &'static str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.0.push((name, Arc::new(move || Box::pin(check()))));
        self
    }

    /// Adds the check that a pool answers.
    #[must_use]
    pub fn needs_database(self, name: &'static str, pool: &sqlx::PgPool) -> Self {
        let pool = pool.clone();
        self.needs(name, move || {
            let pool = pool.clone();
            async move {
                sqlx::query("SELECT 1").execute(&pool).await.map(|_| ()).map_err(|error| error.to_string())
            }
        })
    }

    /// Adds the check that a peer's gRPC health service says that it serves.
    #[must_use]
    pub fn needs_peer(self, name: &'static str, peer: tonic::transport::Channel) -> Self {
        self.needs(name, move || {
            let mut health = tonic_health::pb::health_client::HealthClient::new(peer.clone());
            async move {
                let asked = tonic_health::pb::HealthCheckRequest::default();
                health.check(asked).await.map(|_| ()).map_err(|status| status.message().to_owned())
            }
        })
    }

    /// Everything that is missing now, a line each.
    async fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (name, check) in &self.0 {
            if let Err(error) = check().await {
                missing.push(format!("{name}: {error}"));
            }
        }
        missing
    }
}

/// Buckets of duration histograms, seconds: a millisecond to ten.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The process's one recorder; a second service in the same process shares it.
fn recorder() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER
        .get_or_init(|| {
            PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
                .and_then(PrometheusBuilder::install_recorder)
                .map_err(|error| tracing::warn!(%error, "metrics are off"))
                .ok()
        })
        .as_ref()
}

/// Serves the admin port until `shutdown`; gives the bound address back.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(
    listen: SocketAddr,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> std::io::Result<SocketAddr> {
    let recorder = recorder();
    let listener = TcpListener::bind(listen).await?;
    let bound = listener.local_addr()?;
    let ready = move || {
        let readiness = readiness.clone();
        async move {
            let missing = readiness.missing().await;
            if missing.is_empty() {
                (StatusCode::OK, "ready\n".to_owned())
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", missing.join("\n")))
            }
        }
    };
    let router =
        Router::new().route("/healthz", get(|| async { "alive\n" })).route("/readyz", get(ready)).route(
            "/metrics",
            get(move || async move { recorder.map(PrometheusHandle::render).unwrap_or_default() }),
        );
    crate::task::spawn("admin.serve", async move {
        let served = axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::error!(%error, "the admin port ended");
        }
    });
    Ok(bound)
}
