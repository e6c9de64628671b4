//! The channel's keys for one account: platform certificates and public keys, any number of each, all valid at once.
//!
//! A merchant who moves from certificates to a public key gets messages signed by both for a week, and certificates overlap
//! when the channel changes them. So the key of a message is the one that its serial names *in the set of its account*, never
//! the newest, never the last used. A serial that is in no set asks for the account's certificates once: all who ask
//! meanwhile share the one request, and after it nobody asks again for a while. An account without certificates never asks.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::{HeaderMap, Method};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::exchange::Exchange;
use super::seal;
use super::settings::Settings;
use super::sign::{self, Stamp};
use crate::rsa::PublicKey;
use crate::strict_json;

/// How a public key's id begins; everything else is the serial of a certificate, in hex.
const PUBLIC_KEY_ID: &str = "PUB_KEY_ID_";
/// Longest serial: 20 bytes by the standard, some issuers add one.
const SERIAL_DIGITS_MAX: usize = 42;
/// Nobody asks for certificates again for so long, whatever came of it: new ones appear days before they are used, and a
/// stranger who invents serials makes us ask no more often than this.
pub(super) const REFRESH_PAUSE: Duration = Duration::from_secs(120);
/// Certificates taken from one answer: the channel has two at a time.
const CERTIFICATES_MAX: usize = 16;
const CERTIFICATES_PATH: &str = "/v3/certificates";

/// One of the channel's keys.
#[derive(Debug)]
pub(super) struct PlatformKey {
    id: String,
    key: PublicKey,
    /// Unix seconds; `None` for a key without a certificate.
    expires_at: Option<i64>,
}

/// What a serial names.
#[derive(Debug)]
pub(super) enum Found {
    Key(Arc<PlatformKey>),
    Expired,
    Unknown,
}

type ById = HashMap<String, Arc<PlatformKey>>;

/// All keys of the channel for one account.
#[derive(Debug)]
pub(super) struct KeySet {
    configured: ById,
    /// Those of the last answer to a request for certificates.
    fetched: RwLock<Arc<ById>>,
    /// The key that we ask the channel to sign its answers with.
    answers_by: Option<String>,
    /// Whether the account has certificates at the channel.
    fetches: bool,
    /// When certificates were asked for last; held while it is being done.
    asked_at: Arc<Mutex<Option<Instant>>>,
}

impl PlatformKey {
    pub(super) fn without_certificate(id: String, key: PublicKey) -> Self {
        Self { id, key, expires_at: None }
    }

    /// The key of a certificate; `None` for text that is none.
    pub(super) fn from_certificate_pem(pem: &str) -> Option<Self> {
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(&pem.contents).ok()?;
        Some(Self {
            id: serial(&hex::encode(certificate.tbs_certificate.raw_serial()))?,
            key: PublicKey::from_der(certificate.public_key().raw).ok()?,
            expires_at: Some(certificate.validity().not_after.timestamp()),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verify(message, signature)
    }

    /// The beginning of validity is not looked at: we know the key from our own configuration or by our own API v3 key, and
    /// the channel knows best when it begins to sign with it.
    fn is_expired(&self, now: OffsetDateTime) -> bool {
        self.expires_at.is_some_and(|at| at < now.unix_timestamp())
    }
}

impl KeySet {
    pub(super) fn new(configured: Vec<PlatformKey>, answers_by: Option<String>, fetches: bool) -> Self {
        Self {
            configured: by_id(configured),
            fetched: RwLock::default(),
            answers_by,
            fetches,
            asked_at: Arc::default(),
        }
    }

    /// The key that `serial` names.
    pub(super) fn find(&self, serial: &str, now: OffsetDateTime) -> Found {
        let id = if is_public_key_id(serial) { Some(serial.to_owned()) } else { self::serial(serial) };
        let key = id.and_then(|id| {
            self.configured.get(&id).map(Arc::clone).or_else(|| self.fetched().get(&id).map(Arc::clone))
        });
        match key {
            Some(key) if key.is_expired(now) => Found::Expired,
            Some(key) => Found::Key(key),
            None => Found::Unknown,
        }
    }

    /// The key that we ask the channel to sign its answers with; `None` lets it choose a certificate.
    pub(super) fn answers_by(&self) -> Option<&str> {
        self.answers_by.as_deref()
    }

    fn fetched(&self) -> Arc<ById> {
        Arc::clone(&self.fetched.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Asks for the account's certificates because of `serial`, unless that is of no use or was done a moment ago. Returns at
/// once; outside of a runtime it does nothing.
pub(super) fn refresh(settings: &Arc<Settings>, exchange: &Exchange, serial: &str) {
    if !settings.keys.fetches || is_public_key_id(serial) || self::serial(serial).is_none() {
        return;
    }
    let Ok(mut asked_at) = Arc::clone(&settings.keys.asked_at).try_lock_owned() else { return };
    if asked_at.is_some_and(|at| at.elapsed() < REFRESH_PAUSE)
        || tokio::runtime::Handle::try_current().is_err()
    {
        return;
    }
    *asked_at = Some(Instant::now());
    let (settings, exchange) = (Arc::clone(settings), exchange.clone());
    // A task of its own: who asked may leave, and the next one may not ask for two minutes.
    drop(service_kit::task::spawn("wechatpay_certificates", async move {
        fetch(&settings, &exchange, asked_at).await;
    }));
}

/// As [`refresh`], and waits until the request that runs now has its answer.
pub(super) async fn refreshed(settings: &Arc<Settings>, exchange: &Exchange, serial: &str) {
    refresh(settings, exchange, serial);
    drop(settings.keys.asked_at.lock().await);
}

async fn fetch(settings: &Settings, exchange: &Exchange, running: OwnedMutexGuard<Option<Instant>>) {
    let outcome = match ask(settings, exchange).await {
        Ok(keys) => {
            tracing::info!(mchid = settings.mchid, keys = keys.len(), "fetched the channel's certificates");
            *settings.keys.fetched.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(by_id(keys));
            "fetched"
        }
        Err(why) => {
            tracing::warn!(mchid = settings.mchid, why, "the channel's certificates could not be fetched");
            "failed"
        }
    };
    metrics::counter!("oncepay_wechatpay_certificate_fetches_total", "outcome" => outcome).increment(1);
    drop(running);
}

async fn ask(settings: &Settings, exchange: &Exchange) -> Result<Vec<PlatformKey>, &'static str> {
    let answer = exchange.send(settings, Method::GET, CERTIFICATES_PATH, bytes::Bytes::new()).await?;
    if !answer.status.is_success() {
        return Err("the channel refused; if the merchant has a public key only, configure it as public_key");
    }
    let now = exchange.now();
    let body = strict_json::object(&answer.body).ok_or("the answer is no JSON object")?;
    let keys: Vec<PlatformKey> = body
        .get("data")
        .and_then(Value::as_array)
        .ok_or("the answer has no data")?
        .iter()
        .take(CERTIFICATES_MAX)
        .filter_map(|entry| certificate(&settings.api_v3_key, entry.as_object()?))
        .filter(|key| !key.is_expired(now))
        .collect();
    vouch(settings, &keys, &answer.headers, &answer.body, now)?;
    Ok(keys)
}

/// Checks the signature of the answer itself: by a key that we had, or by one of those that it brings. These are believed
/// because they open under the API v3 key, which only the channel and we have; without that a set of keys that are all
/// outdated could never be renewed.
fn vouch(
    settings: &Settings,
    keys: &[PlatformKey],
    headers: &HeaderMap,
    body: &[u8],
    now: OffsetDateTime,
) -> Result<(), &'static str> {
    let stamp = Stamp::of(headers).map_err(|error| error.detail)?;
    let verified = match settings.keys.find(stamp.serial, now) {
        Found::Key(key) => stamp.verify(&key, body, now),
        Found::Expired | Found::Unknown => {
            let id = serial(stamp.serial).ok_or("the answer names no certificate")?;
            let key = keys
                .iter()
                .find(|key| key.id == id)
                .ok_or("the answer is signed by none of its certificates")?;
            stamp.verify(key, body, now)
        }
    };
    verified.map(|_: sign::Verified| ()).map_err(|error| error.detail)
}

/// One entry of the answer: `{serial_no, encrypt_certificate}`.
fn certificate(key: &seal::Key, entry: &Map<String, Value>) -> Option<PlatformKey> {
    let pem = key.open(entry.get("encrypt_certificate")?.as_object()?)?;
    let found = PlatformKey::from_certificate_pem(std::str::from_utf8(&pem).ok()?)?;
    (serial(strict_json::text(entry, "serial_no")?)? == found.id).then_some(found)
}

fn by_id(keys: Vec<PlatformKey>) -> ById {
    keys.into_iter().map(|key| (key.id.clone(), Arc::new(key))).collect()
}

pub(super) fn is_public_key_id(serial: &str) -> bool {
    serial.starts_with(PUBLIC_KEY_ID)
}

/// A certificate's serial in the one form that we compare: upper-case hex without zeros in front, which some print and
/// others do not. `None` for what is no hex.
pub(super) fn serial(text: &str) -> Option<String> {
    let digits = text.trim_start_matches('0');
    let is_hex =
        (1..=SERIAL_DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| digits.to_ascii_uppercase())
}
