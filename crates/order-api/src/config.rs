//! Settings of order-api: variables `ONCEPAY_ORDER_API__<FIELD>`.

use std::net::SocketAddr;

use serde::Deserialize;
use service_kit::config::Secret;

/// All settings.
#[derive(Debug, Clone, Deserialize)]
pub struct Settings {
    /// Address of the gRPC service.
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// Address of `/healthz`, `/readyz` and `/metrics`.
    #[serde(default = "admin_listen")]
    pub admin_listen: SocketAddr,
    /// Address of payment-core, for example `http://127.0.0.1:27002`.
    pub payment_core_url: String,
    /// Address of Redis, with its password if it has one. Redis may be down: leases then stand open.
    pub redis_url: Secret,
    /// Create calls in work at one time; more are answered `OVERLOADED`.
    #[serde(default = "creates_max")]
    pub creates_max: usize,
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27001))
}

fn admin_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27101))
}

/// Far above what one core can do within a caller's deadline: beyond it waiting only turns into time-outs.
fn creates_max() -> usize {
    4_096
}
