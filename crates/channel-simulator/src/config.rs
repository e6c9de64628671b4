//! Settings of the simulator.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

/// Settings, section `channel_simulator` or `ONCEPAY_CHANNEL_SIMULATOR__<FIELD>`.
#[derive(Debug, Clone, Deserialize)]
pub struct Settings {
    /// Where the channel, the pay page and the control calls are served.
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// Health and metrics.
    #[serde(default = "admin_listen")]
    pub admin_listen: SocketAddr,
    /// The accounts, the same file as the services': the simulator plays the other side of each generic account.
    pub channels_file: PathBuf,
    /// The other side's keys of the accounts of Alipay, WeChat Pay and Stripe: `simulator.toml` as `channel-simulator keys`
    /// writes it. Unset, only the generic channel is played.
    #[serde(default)]
    pub keys_file: Option<PathBuf>,
    /// What pay addresses begin with; unset, it is the address that is listened on.
    #[serde(default)]
    pub public_url: Option<String>,
    /// Whether control calls are taken from other machines too. In a container they come through a bridge.
    #[serde(default)]
    pub control_open: bool,
    /// Wait before a notice without 2xx is sent again, milliseconds; it doubles each time, to a minute at most.
    #[serde(default = "retry_first_ms")]
    pub retry_first_ms: u64,
    /// Times a notice is sent before it is given up. With the default wait, the last one is sent after about six minutes.
    #[serde(default = "retry_tries_max")]
    pub retry_tries_max: u32,
    /// Longest wait for the answer to a notice, milliseconds.
    #[serde(default = "notice_ms_max")]
    pub notice_ms_max: u64,
}

impl Settings {
    /// Settings for a test: free ports, and notices that are sent again soon.
    #[must_use]
    pub fn for_test(channels_file: PathBuf) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            listen: any,
            admin_listen: any,
            channels_file,
            keys_file: None,
            public_url: None,
            control_open: false,
            retry_first_ms: 50,
            retry_tries_max: retry_tries_max(),
            notice_ms_max: notice_ms_max(),
        }
    }
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27005))
}

fn admin_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 27105))
}

fn retry_first_ms() -> u64 {
    500
}

fn retry_tries_max() -> u32 {
    12
}

/// As long as the callback receiver may take, and some.
fn notice_ms_max() -> u64 {
    10_000
}
