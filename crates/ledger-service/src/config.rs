//! Settings of ledger-service: variables `ONCEPAY_LEDGER_SERVICE__<FIELD>`.

use std::net::SocketAddr;

use serde::Deserialize;
use service_kit::config::Secret;
use service_kit::pg::PoolSettings;

/// All settings.
#[derive(Debug, Clone, Deserialize)]
pub struct Settings {
    /// Address of the gRPC service.
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// Address of `/healthz`, `/readyz` and `/metrics`.
    #[serde(default = "admin_listen")]
    pub admin_listen: SocketAddr,
    /// Database `ledger`, as role `ledger_service`.
    pub database_url: Secret,
    /// Limits of the pool.
    #[serde(default)]
    pub pool: PoolSettings,
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27004))
}

fn admin_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27104))
}
