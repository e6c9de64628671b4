//! Why the simulator cannot start or go on.

use std::path::PathBuf;

/// What went wrong; the message names the setting to mend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("channels_file cannot be used")]
    Accounts(#[from] channel::accounts::Error),
    #[error("channels_file {path} cannot be read; let it name a readable TOML file")]
    ChannelsUnreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("keys_file {path} cannot be read; make it with `channel-simulator keys`")]
    KeysUnreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("keys_file is not as `channel-simulator keys` writes it: {detail}")]
    KeysForm { detail: String },
    #[error("neither channels_file has an account of channel generic nor keys_file one of another; add one")]
    NoAccount,
    #[error("the address {address} of {setting} cannot be listened on")]
    Bind {
        setting: &'static str,
        address: std::net::SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the HTTP client for notices cannot be built")]
    Http(#[from] reqwest::Error),
}
