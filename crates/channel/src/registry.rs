//! All adapters of all accounts, found by channel and account.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pay_types::{ChannelAccount, ChannelCode};
use serde::Deserialize;
use service_kit::Clock;

use crate::accounts::{Account, Accounts, Protocol};
use crate::guard::Guard;
use crate::port::{ChannelClient, NoticeReader};
use crate::{alipay, generic, stripe, wechatpay};

/// Idle connections that are kept to one channel: as many as a busy minute uses, so that no payment waits for a handshake.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// Idle connections are closed before the far side does (a minute is usual): a request into a closing one would be unknown.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Limits of calls to channels.
#[derive(Debug, Clone, Deserialize)]
pub struct ClientSettings {
    /// Longest call, from the wait for a place to the last byte of the answer, milliseconds.
    #[serde(default = "call_ms_max")]
    pub call_ms_max: u64,
    /// Longest wait for a connection within it, milliseconds.
    #[serde(default = "connect_ms_max")]
    pub connect_ms_max: u64,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self { call_ms_max: call_ms_max(), connect_ms_max: connect_ms_max() }
    }
}

/// Channels answer within a second or two; beyond five the query job finds out more cheaply than waiting does.
fn call_ms_max() -> u64 {
    5_000
}

/// A handshake across the world takes under half a second.
fn connect_ms_max() -> u64 {
    2_000
}

/// Why the adapters could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the HTTP client for channels cannot be built")]
    Http(#[from] reqwest::Error),
}

/// One adapter for each account.
pub struct ByAccount<T: ?Sized>(HashMap<(ChannelCode, ChannelAccount), Arc<T>>);

/// Calls to channels.
pub type Clients = ByAccount<dyn ChannelClient>;
/// Readers of notices.
pub type Readers = ByAccount<dyn NoticeReader>;

impl<T: ?Sized> ByAccount<T> {
    #[must_use]
    pub fn get(&self, channel: ChannelCode, account: &ChannelAccount) -> Option<&Arc<T>> {
        self.0.get(&(channel, account.clone()))
    }

    pub fn iter(&self) -> impl Iterator<Item = (ChannelCode, &ChannelAccount, &Arc<T>)> {
        self.0.iter().map(|((channel, account), adapter)| (*channel, account, adapter))
    }

    /// Adapters of one's own, for tests above the wire.
    #[must_use]
    pub fn from_adapters(adapters: impl IntoIterator<Item = (ChannelCode, ChannelAccount, Arc<T>)>) -> Self {
        Self(adapters.into_iter().map(|(channel, account, adapter)| ((channel, account), adapter)).collect())
    }
}

impl<T: ?Sized> fmt::Debug for ByAccount<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A client for each account, each behind its guard, all over one HTTP client: connections are shared and kept.
///
/// # Errors
/// [`Error::Http`]
pub fn clients(accounts: &Accounts, settings: &ClientSettings, clock: &Clock) -> Result<Clients, Error> {
    let http = http_client(settings)?;
    let limit = Duration::from_millis(settings.call_ms_max);
    let wire = wechatpay::Wire { http: http.clone(), limit, clock: clock.clone() };
    Ok(each::<dyn ChannelClient>(accounts, |account| {
        let client: Arc<dyn ChannelClient> = match account.protocol() {
            Protocol::Generic { .. } => {
                Arc::new(generic::Client::new(Arc::clone(&account), http.clone(), limit, clock.clone()))
            }
            Protocol::WechatPay(settings) => Arc::new(wire.client(&account, settings)),
            Protocol::Stripe(settings) => {
                Arc::new(stripe::Client::new(&account, settings, http.clone(), limit, clock.clone()))
            }
            Protocol::Alipay(settings) => {
                Arc::new(alipay::Client::new(&account, settings, http.clone(), limit, clock.clone()))
            }
        };
        Arc::new(Guard::new(client, &account, limit))
    }))
}

/// A reader of notices for each account.
///
/// # Errors
/// [`Error::Http`]
pub fn readers(accounts: &Accounts, settings: &ClientSettings, clock: &Clock) -> Result<Readers, Error> {
    // Readers fetch a channel's new keys, and nothing else.
    let limit = Duration::from_millis(settings.call_ms_max);
    let wire = wechatpay::Wire { http: http_client(settings)?, limit, clock: clock.clone() };
    Ok(each::<dyn NoticeReader>(accounts, |account| match account.protocol() {
        Protocol::Generic { .. } => Arc::new(generic::Reader::new(account)),
        Protocol::WechatPay(settings) => Arc::new(wire.reader(&account, settings)),
        Protocol::Stripe(settings) => Arc::new(stripe::Reader::new(settings)),
        Protocol::Alipay(settings) => Arc::new(alipay::Reader::new(settings)),
    }))
}

fn each<T: ?Sized>(accounts: &Accounts, adapter: impl Fn(Arc<Account>) -> Arc<T>) -> ByAccount<T> {
    let adapters = accounts
        .iter()
        .map(|account| ((account.channel(), account.account().clone()), adapter(Arc::clone(account))));
    ByAccount(adapters.collect())
}

fn http_client(settings: &ClientSettings) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        // A signed request goes where the channels file says, and nowhere else.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_millis(settings.connect_ms_max))
        .pool_idle_timeout(IDLE_MAX)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .tcp_nodelay(true)
        .user_agent("oncepay")
        .build()
}
