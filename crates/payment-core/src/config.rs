//! Settings of payment-core: variables `ONCEPAY_PAYMENT_CORE__<FIELD>`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use channel::ClientSettings;
use serde::Deserialize;
use service_kit::config::Secret;
use service_kit::pg::PoolSettings;

/// All settings.
#[derive(Debug, Clone, Deserialize)]
pub struct Settings {
    /// Address of the gRPC service. Only our own services may reach it.
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// Address of `/healthz`, `/readyz` and `/metrics`.
    #[serde(default = "admin_listen")]
    pub admin_listen: SocketAddr,
    /// Database `payment`, as role `payment_core`.
    pub database_url: Secret,
    /// Limits of the pool.
    #[serde(default)]
    pub pool: PoolSettings,
    /// TOML file with our accounts at the channels.
    pub channels_file: PathBuf,
    /// Limits of calls to channels.
    #[serde(default)]
    pub client: ClientSettings,
    /// Longest wait for the channel before a create call is answered without a credential, milliseconds.
    #[serde(default = "dispatch_wait_ms_max")]
    pub dispatch_wait_ms_max: u64,
    /// Longest wait for a command's transaction, milliseconds; the caller's deadline may be shorter.
    #[serde(default = "command_wait_ms_max")]
    pub command_wait_ms_max: u64,
    /// Channel calls for new payments at one time; more wait for the job.
    #[serde(default = "dispatches_max")]
    pub dispatches_max: usize,
    /// Pause between two sweeps, milliseconds.
    #[serde(default = "sweep_interval_ms")]
    pub sweep_interval_ms: u64,
    /// A new payment is left alone this long before a job first looks at it, seconds.
    #[serde(default = "first_look_s")]
    pub first_look_s: i32,
    /// Longest pause between two looks at one payment, seconds.
    #[serde(default = "look_s_max")]
    pub look_s_max: i32,
    /// By currency, minor units: a refund above it waits for a second person (`payctl refund approve`). A currency without a
    /// limit needs no approval.
    #[serde(default)]
    pub refund_approval_above: BTreeMap<String, i64>,
    /// Days that idempotency keys of ended payments are known.
    #[serde(default = "keys_kept_days")]
    pub keys_kept_days: u32,
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27002))
}

fn admin_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27102))
}

/// People do not wait longer for a pay page; the payment goes on without them.
fn dispatch_wait_ms_max() -> u64 {
    3_000
}

/// Below the shortest deadline that clients use (5 s), so that they hear *retry* and not a time-out.
fn command_wait_ms_max() -> u64 {
    4_000
}

/// Twice the places that one account's client has, so that two busy accounts do not wait for each other.
fn dispatches_max() -> usize {
    256
}

fn sweep_interval_ms() -> u64 {
    1_000
}

/// Above the longest channel call, so that the job never runs beside the first call of a living process.
fn first_look_s() -> i32 {
    10
}

/// Channels tell within minutes; an hour's pause keeps a forgotten payment cheap until it expires.
fn look_s_max() -> i32 {
    3_600
}

/// Beyond every client's last retry and every channel's last notice; keys of payments in process are never forgotten.
fn keys_kept_days() -> u32 {
    90
}
