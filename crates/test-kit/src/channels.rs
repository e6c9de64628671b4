//! The file with the accounts at payment channels, as services read it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::name;

/// An account at the generic channel.
#[derive(Debug, Clone)]
pub struct Account {
    pub account: String,
    /// Where the channel is: `http://host:port`.
    pub base_url: String,
    /// Where the channel sends its notices for this account.
    pub notify_url: String,
    pub key_id: String,
    pub secret: String,
}

impl Account {
    /// An account with a key of its own; notices go to `receiver` (`http://host:port`).
    #[must_use]
    pub fn new(account: &str, base_url: &str, receiver: &str) -> Self {
        Self {
            account: account.to_owned(),
            base_url: base_url.to_owned(),
            notify_url: format!("{receiver}/v1/callbacks/generic/{account}"),
            key_id: "k1".to_owned(),
            secret: format!("{:032x}", rand::random::<u128>()),
        }
    }
}

/// A channels file that is removed when dropped.
#[derive(Debug)]
pub struct ChannelsFile {
    path: PathBuf,
}

impl ChannelsFile {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ChannelsFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// Writes a channels file with these accounts of the generic channel.
///
/// # Panics
/// When the folder for temporary files cannot be written.
#[must_use]
pub fn channels_file(accounts: &[Account]) -> ChannelsFile {
    let mut text = String::new();
    for account in accounts {
        let Account { account, base_url, notify_url, key_id, secret } = account;
        write!(
            text,
            "[[account]]\nchannel = \"generic\"\naccount = \"{account}\"\nbase_url = \"{base_url}\"\n\
             notify_url = \"{notify_url}\"\ncurrent_key_id = \"{key_id}\"\n\
             [[account.key]]\nkey_id = \"{key_id}\"\nsecret = \"{secret}\"\n\n"
        )
        .expect("a string takes all text");
    }
    let path = std::env::temp_dir().join(format!("{}.toml", name::unique("oncepay_channels")));
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    ChannelsFile { path }
}
