//! Settings of the receiver.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

/// Settings, section `callback_receiver` or `ONCEPAY_CALLBACK_RECEIVER__<FIELD>`.
#[derive(Debug, Clone, Deserialize)]
pub struct Settings {
    /// Where channels send their notices.
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// Health and metrics.
    #[serde(default = "admin_listen")]
    pub admin_listen: SocketAddr,
    /// Where payment-core is, for example `http://127.0.0.1:27002`.
    pub payment_core_url: String,
    /// The accounts and their keys.
    pub channels_file: PathBuf,
    /// Longest call to the core, milliseconds; then the channel is told to send again.
    #[serde(default = "core_ms_max")]
    pub core_ms_max: u64,
    /// Notices at the core at the same time; more are told to come again.
    #[serde(default = "in_hand_max")]
    pub in_hand_max: usize,
    /// Calls to channels, for keys that they change.
    #[serde(default)]
    pub client: channel::ClientSettings,
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27003))
}

fn admin_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27103))
}

/// Channels wait five seconds for an answer; one that comes later is not heard.
fn core_ms_max() -> u64 {
    4_500
}

/// Half of what one connection to the core carries. At a usual 10 ms a notice it is 50,000 notices a second.
fn in_hand_max() -> usize {
    512
}
