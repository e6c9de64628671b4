//! Why the simulator cannot start or go on.

/// What went wrong; the message names the setting to mend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("channels_file cannot be used")]
    Accounts(#[from] channel::accounts::Error),
    #[error("channels_file has no account of channel generic; add one, there is nothing to simulate")]
    NoGenericAccount,
    #[error("the address {address} of {setting} cannot be listened on")]
    Bind {
        setting: &'static str,
        address: std::net::SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the HTTP client for notices cannot be built")]
    Http(#[from] reqwest::Error),
    #[error("the HTTP server ended")]
    Serve(#[source] std::io::Error),
}
