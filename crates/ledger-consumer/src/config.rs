//! Settings of ledger-consumer: variables `ONCEPAY_LEDGER_CONSUMER__<FIELD>`.

use std::net::SocketAddr;

use serde::Deserialize;
use service_kit::config::Secret;
use service_kit::pg::PoolSettings;

/// All settings.
#[derive(Debug, Clone, Deserialize)]
pub struct Settings {
    /// Address of `/healthz`, `/readyz` and `/metrics`.
    #[serde(default = "admin_listen")]
    pub admin_listen: SocketAddr,
    /// Database `ledger`, as role `ledger_consumer`.
    pub database_url: Secret,
    /// Limits of the pool.
    #[serde(default)]
    pub pool: PoolSettings,
    /// Kafka brokers: `host:port`, several with commas.
    pub kafka_brokers: String,
    /// Topic of the events. Parked messages go to the same name with `.dlq`.
    #[serde(default = "topic")]
    pub topic: String,
    /// Partitions of the topic where it has to be made. An existing topic is left as it is.
    #[serde(default = "partitions")]
    pub partitions: i32,
    /// Consumer group. Copies of one group share the partitions; a new group reads everything again, which changes
    /// nothing in the books.
    #[serde(default = "group_id")]
    pub group_id: String,
    /// Consumers in this process.
    #[serde(default = "workers")]
    pub workers: usize,
    /// Most messages of one batch, all partitions together.
    #[serde(default = "batch_rows_max")]
    pub batch_rows_max: usize,
    /// Longest wait for a first message, milliseconds; it delays nothing but the notice of a shutdown.
    #[serde(default = "poll_ms_max")]
    pub poll_ms_max: u64,
}

fn admin_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27107))
}

fn topic() -> String {
    contract::event::TOPIC.to_owned()
}

fn partitions() -> i32 {
    contract::event::PARTITIONS
}

fn group_id() -> String {
    "ledger-consumer".to_owned()
}

fn workers() -> usize {
    1
}

/// Beyond it a batch gains little, and a batch that fails is taken apart message by message.
fn batch_rows_max() -> usize {
    500
}

/// Half a second: far below what a supervisor grants for a shutdown.
fn poll_ms_max() -> u64 {
    500
}
