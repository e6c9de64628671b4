//! Why the receiver cannot start or go on.

use std::net::SocketAddr;

/// What went wrong; the message names the setting to mend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("channels_file cannot be used")]
    Accounts(#[from] channel::accounts::Error),
    #[error("channels_file names an account that notices cannot be read for")]
    Readers(#[from] channel::Error),
    #[error("payment_core_url is no address; it looks like http://127.0.0.1:27002")]
    CoreUrl(#[source] tonic::transport::Error),
    #[error("the address {address} of {setting} cannot be listened on")]
    Bind {
        setting: &'static str,
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the HTTP server ended")]
    Serve(#[source] std::io::Error),
}
