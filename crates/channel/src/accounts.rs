//! Our accounts at the channels, from a TOML file:
//!
//! ```toml
//! [[account]]
//! channel = "generic"
//! account = "main"
//! base_url = "https://channel.example"
//! notify_url = "https://pay.example/v1/callbacks/generic/main"
//! current_key_id = "k2"
//! [[account.key]]
//! key_id = "k1"
//! secret = "file:/run/secrets/k1"
//! [[account.key]]
//! key_id = "k2"
//! secret = "file:/run/secrets/k2"
//! ```
//!
//! Several keys are valid at once, so that both sides can change theirs without losing a message; we sign with the current
//! one. The first account of a channel is its default.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr as _;
use std::sync::Arc;

use http::Uri;
use pay_types::{ChannelAccount, ChannelCode};
use serde::Deserialize;
use serde::de::{Error as _, IntoDeserializer as _, value::StringDeserializer};
use service_kit::config::Secret;
use zeroize::Zeroizing;

use crate::{alipay, stripe, wechatpay};

/// Shortest secret, bytes: 128 bits, below which a MAC can be found by trying.
const SECRET_BYTES_MIN: usize = 16;
/// Longest key id; it travels in a header and stands in a database key.
const KEY_ID_BYTES_MAX: usize = 64;

/// Why the accounts could not be read. No message holds a value that could be a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the channels file {path} cannot be read; let channels_file name a readable TOML file")]
    Unreadable {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("the channels file is not as it must be, at line {line}: {detail}")]
    Form { line: usize, detail: String },
    #[error("the channels file, account {account}: {field} {remedy}")]
    Field { account: String, field: &'static str, remedy: &'static str },
    #[error("the channels file has no account; add an [[account]] table")]
    Empty,
}

/// One secret of an account, with the id that messages name it by.
#[derive(Debug, Clone)]
pub struct Key {
    key_id: String,
    secret: Secret,
}

impl Key {
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }
}

/// What one protocol needs to know of an account, its keys above all. No key is ever printed.
#[derive(Debug, Clone)]
pub enum Protocol {
    Generic { current_key: Key, keys: Vec<Key> },
    Alipay(Arc<alipay::Settings>),
    WechatPay(Arc<wechatpay::Settings>),
    Stripe(Arc<stripe::Settings>),
}

/// One account at one channel.
#[derive(Clone)]
pub struct Account {
    channel: ChannelCode,
    account: ChannelAccount,
    base_url: String,
    notify_url: String,
    protocol: Protocol,
}

impl Account {
    #[must_use]
    pub fn channel(&self) -> ChannelCode {
        self.channel
    }

    #[must_use]
    pub fn account(&self) -> &ChannelAccount {
        &self.account
    }

    /// Where the channel is called, without a slash at the end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Where the channel is told to send notices.
    #[must_use]
    pub fn notify_url(&self) -> &str {
        &self.notify_url
    }

    /// What its protocol needs.
    #[must_use]
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// The shared secret that we sign with; `None` for accounts of other protocols than the generic one.
    #[must_use]
    pub fn current_key(&self) -> Option<&Key> {
        match &self.protocol {
            Protocol::Generic { current_key, .. } => Some(current_key),
            Protocol::Alipay(_) | Protocol::WechatPay(_) | Protocol::Stripe(_) => None,
        }
    }

    /// The shared secret of this id, current or not.
    #[must_use]
    pub fn key(&self, key_id: &str) -> Option<&Key> {
        match &self.protocol {
            Protocol::Generic { keys, .. } => keys.iter().find(|key| key.key_id == key_id),
            Protocol::Alipay(_) | Protocol::WechatPay(_) | Protocol::Stripe(_) => None,
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({}/{})", self.channel, self.account)
    }
}

/// All accounts, in the file's order.
#[derive(Debug, Clone)]
pub struct Accounts(Vec<Arc<Account>>);

impl Accounts {
    /// Reads the accounts from a file.
    ///
    /// # Errors
    /// [`Error`] naming the field and what it must be.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map(Zeroizing::new)
            .map_err(|source| Error::Unreadable { path: path.display().to_string(), source })?;
        Self::parse(&text)
    }

    /// Reads the accounts from TOML text.
    ///
    /// # Errors
    /// [`Error`] naming the field and what it must be.
    pub fn parse(text: &str) -> Result<Self, Error> {
        // Of toml's error only the message is kept: its own text repeats the line, and the line may hold a secret.
        let raw: RawFile = toml::from_str(text).map_err(|error| Error::Form {
            line: line_at(text, error.span().map_or(0, |span| span.start)),
            detail: error.message().to_owned(),
        })?;
        let mut accounts: Vec<Arc<Account>> = Vec::with_capacity(raw.account.len());
        for raw in raw.account {
            let account = check(raw)?;
            if accounts.iter().any(|a| a.channel == account.channel && a.account == account.account) {
                return Err(fault(
                    account.account.as_str(),
                    "account",
                    "is there twice for its channel; keep one table and put all keys into it",
                ));
            }
            accounts.push(Arc::new(account));
        }
        if accounts.is_empty() { Err(Error::Empty) } else { Ok(Self(accounts)) }
    }

    #[must_use]
    pub fn get(&self, channel: ChannelCode, account: &ChannelAccount) -> Option<&Arc<Account>> {
        self.0.iter().find(|a| a.channel == channel && a.account == *account)
    }

    /// The first account of the channel in the file: what a payment uses that names none.
    #[must_use]
    pub fn default_of(&self, channel: ChannelCode) -> Option<&Arc<Account>> {
        self.0.iter().find(|a| a.channel == channel)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.0.iter()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    account: Vec<RawAccount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAccount {
    channel: String,
    account: String,
    base_url: String,
    notify_url: String,
    /// Of the generic protocol, as is `key`.
    current_key_id: Option<String>,
    #[serde(default)]
    key: Vec<RawKey>,
    alipay: Option<alipay::RawSettings>,
    wechatpay: Option<wechatpay::RawSettings>,
    stripe: Option<stripe::RawSettings>,
}

/// What is wrong with an account's table: the field, and what it must be.
pub(crate) type Fault = (&'static str, &'static str);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    key_id: String,
    #[serde(deserialize_with = "secret")]
    secret: Secret,
}

/// A secret, whose value no message repeats, not even when it is a number by mistake.
pub(crate) fn secret<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => {
            let text: StringDeserializer<D::Error> = text.into_deserializer();
            Secret::deserialize(text)
        }
        toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_)
        | toml::Value::Array(_)
        | toml::Value::Table(_) => {
            Err(D::Error::custom("secret must be text in quotes, or \"file:<path>\" to read it from a file"))
        }
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count().saturating_add(1)
}

fn fault(account: &str, field: &'static str, remedy: &'static str) -> Error {
    Error::Field { account: account.to_owned(), field, remedy }
}

fn check(raw: RawAccount) -> Result<Account, Error> {
    let name = raw.account;
    let channel = ChannelCode::from_str(&raw.channel).map_err(|e| fault(&name, "channel", e.rule))?;
    let account = ChannelAccount::from_str(&name).map_err(|e| fault(&name, "account", e.rule))?;
    let base_url = url(&name, "base_url", raw.base_url.trim_end_matches('/'))?;
    if base_url.contains('?') {
        return Err(fault(&name, "base_url", "must have no query; paths are put behind it"));
    }
    let notify_url = url(&name, "notify_url", &raw.notify_url)?;
    let fault_of = |(field, remedy): Fault| fault(&name, field, remedy);
    let tables = [
        (ChannelCode::Generic, raw.current_key_id.is_some() || !raw.key.is_empty()),
        (ChannelCode::Alipay, raw.alipay.is_some()),
        (ChannelCode::WechatPay, raw.wechatpay.is_some()),
        (ChannelCode::Stripe, raw.stripe.is_some()),
    ];
    if tables.iter().any(|(of, there)| *there && *of != channel) {
        return Err(fault(
            &name,
            "channel",
            "is not the one whose keys stand in the table; keep the keys of one",
        ));
    }
    let protocol = match channel {
        ChannelCode::Generic => generic(raw.current_key_id, raw.key).map_err(fault_of)?,
        ChannelCode::Alipay => {
            let table =
                raw.alipay.ok_or_else(|| fault(&name, "alipay", "must be there: add [account.alipay]"))?;
            Protocol::Alipay(Arc::new(table.check().map_err(fault_of)?))
        }
        ChannelCode::WechatPay => {
            let table = raw
                .wechatpay
                .ok_or_else(|| fault(&name, "wechatpay", "must be there: add [account.wechatpay]"))?;
            Protocol::WechatPay(Arc::new(table.check().map_err(fault_of)?))
        }
        ChannelCode::Stripe => {
            let table =
                raw.stripe.ok_or_else(|| fault(&name, "stripe", "must be there: add [account.stripe]"))?;
            Protocol::Stripe(Arc::new(table.check().map_err(fault_of)?))
        }
    };
    Ok(Account { channel, account, base_url, notify_url, protocol })
}

fn generic(current_key_id: Option<String>, raw: Vec<RawKey>) -> Result<Protocol, Fault> {
    let mut keys: Vec<Key> = Vec::with_capacity(raw.len());
    for RawKey { key_id, secret } in raw {
        if !is_key_id(&key_id) {
            return Err(("key_id", "must be 1 to 64 letters, digits, '_', '-' or '.'"));
        }
        if secret.expose().len() < SECRET_BYTES_MIN {
            return Err(("secret", "must be at least 16 bytes; make it with `openssl rand -hex 32`"));
        }
        if keys.iter().any(|key| key.key_id == key_id) {
            return Err(("key_id", "is there twice; a new secret takes a new key_id"));
        }
        keys.push(Key { key_id, secret });
    }
    let current_key = keys
        .iter()
        .find(|key| current_key_id.as_ref() == Some(&key.key_id))
        .cloned()
        .ok_or(("current_key_id", "must be the key_id of one of its [[account.key]] tables"))?;
    Ok(Protocol::Generic { current_key, keys })
}

fn is_key_id(text: &str) -> bool {
    (1..=KEY_ID_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

fn url(account: &str, field: &'static str, text: &str) -> Result<String, Error> {
    Uri::from_str(text)
        .ok()
        .filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")))
        // User and password in an address would end up in logs.
        .filter(|uri| uri.authority().is_some_and(|a| !a.as_str().contains('@')))
        .map(|_| text.to_owned())
        .ok_or_else(|| fault(account, field, "must be an http or https address without user and password"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[[account]]
channel = "generic"
account = "main"
base_url = "http://127.0.0.1:1/"
notify_url = "http://127.0.0.1:2/v1/callbacks/generic/main"
current_key_id = "k1"
[[account.key]]
key_id = "k0"
secret = "previous-secret-00000"
[[account.key]]
key_id = "k1"
secret = "current-secret-000000"

[[account]]
channel = "generic"
account = "second"
base_url = "https://channel.example"
notify_url = "https://pay.example/v1/callbacks/generic/second"
current_key_id = "k0"
[[account.key]]
key_id = "k0"
secret = "another-secret-000000"
"#;

    fn error(from: &str, to: &str) -> String {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from} is not in the file");
        Accounts::parse(&text).unwrap_err().to_string()
    }

    #[test]
    fn accounts_are_found_by_channel_and_name_and_the_first_is_the_default() {
        let accounts = Accounts::parse(GOOD).unwrap();
        let main = accounts.default_of(ChannelCode::Generic).unwrap();
        assert_eq!(main.account().as_str(), "main");
        assert_eq!(main.base_url(), "http://127.0.0.1:1");
        assert_eq!(main.current_key().unwrap().key_id(), "k1");
        assert_eq!(main.key("k0").unwrap().secret().expose(), "previous-secret-00000");
        let second = accounts.get(ChannelCode::Generic, &"second".parse().unwrap()).unwrap();
        // The same key id in two accounts is two keys.
        assert_eq!(second.key("k0").unwrap().secret().expose(), "another-secret-000000");
        assert!(accounts.get(ChannelCode::Alipay, &"main".parse().unwrap()).is_none());
        assert!(accounts.default_of(ChannelCode::Stripe).is_none());
        assert_eq!(accounts.iter().count(), 2);
    }

    #[test]
    fn a_fault_names_its_field_and_remedy() {
        for (from, to, field) in [
            ("\"generic\"", "\"paypal\"", "channel must be one of"),
            ("\"main\"", "\"ma in\"", "account must be"),
            ("http://127.0.0.1:1/", "127.0.0.1:1", "base_url must be"),
            ("http://127.0.0.1:1/", "http://u:p@127.0.0.1", "base_url must be"),
            ("http://127.0.0.1:1/", "http://127.0.0.1/?a=b", "base_url must have no query"),
            ("http://127.0.0.1:2/", "ftp://127.0.0.1:2/", "notify_url must be"),
            ("current_key_id = \"k1\"", "current_key_id = \"k9\"", "current_key_id must be"),
            ("key_id = \"k0\"", "key_id = \"k1\"", "key_id is there twice"),
            ("key_id = \"k0\"", "key_id = \"\"", "key_id must be"),
            ("previous-secret-00000", "short", "secret must be at least 16 bytes"),
            ("account = \"second\"", "account = \"main\"", "account is there twice"),
            ("base_url = \"http://127.0.0.1:1/\"", "", "missing field `base_url`"),
            ("base_url", "base_uri", "base_uri"),
        ] {
            let error = error(from, to);
            assert!(error.contains(field), "{to}: {error}");
        }
        assert!(matches!(Accounts::parse(""), Err(Error::Empty)));
        let error = Accounts::load(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(error.contains("channels_file"), "{error}");
    }

    #[test]
    fn no_secret_is_printed_even_in_an_error() {
        let accounts = Accounts::parse(GOOD).unwrap();
        assert!(!format!("{accounts:?}").contains("secret-0"), "{accounts:?}");
        for bad in
            ["secret = 9007199254740", "secret = \"unclosed-9007199254740", "secret = [\"9007199254740\"]"]
        {
            let error = error("secret = \"previous-secret-00000\"", bad);
            assert!(!error.contains("9007199254740"), "{error}");
        }
        assert!(error("previous-secret-00000", "file:/no/such/secret").contains("/no/such/secret"));
    }
}
