//! Settings of outbox-relay: variables `ONCEPAY_OUTBOX_RELAY__<FIELD>`.

use std::net::SocketAddr;

use serde::Deserialize;
use service_kit::config::Secret;

/// All settings.
#[derive(Debug, Clone, Deserialize)]
pub struct Settings {
    /// Address of `/healthz`, `/readyz` and `/metrics`.
    #[serde(default = "admin_listen")]
    pub admin_listen: SocketAddr,
    /// Database `payment`, as role `outbox_relay`.
    pub database_url: Secret,
    /// The broker: `host:port`, several with commas.
    pub kafka_brokers: String,
    /// Topic of the events; made at the start if it is missing.
    #[serde(default = "topic")]
    pub topic: String,
    /// Partitions of the topic, if it has to be made.
    #[serde(default = "partitions")]
    pub partitions: i32,
    /// Most events that are in hand at one time.
    #[serde(default = "batch_rows_max")]
    pub batch_rows_max: u16,
    /// Longest wait for the broker's acknowledgement, milliseconds; then the events are sent again.
    #[serde(default = "delivery_ms_max")]
    pub delivery_ms_max: u64,
}

fn admin_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27106))
}

fn topic() -> String {
    contract::event::TOPIC.to_owned()
}

fn partitions() -> i32 {
    contract::event::PARTITIONS
}

/// Events are under 2 KiB, so this is about 1 MiB; larger batches were not faster.
fn batch_rows_max() -> u16 {
    1_000
}

/// Longer than a broker's restart, so that one costs no failure.
fn delivery_ms_max() -> u64 {
    15_000
}
