//! What an account of WeChat Pay needs: its names there and its keys.

use std::str::FromStr as _;

use serde::Deserialize;
use service_kit::config::Secret;

use super::keys::{KeySet, PlatformKey, is_public_key_id, serial};
use super::seal;
use crate::accounts::{Fault, secret};
use crate::rsa::{PrivateKey, PublicKey};

/// Longest number of a merchant or an app at the channel.
const NAME_BYTES_MAX: usize = 32;
/// Longest id of a public key.
const KEY_ID_BYTES_MAX: usize = 64;

/// How payers pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    /// A QR code that the payer's app scans.
    Native,
    /// A page that opens the app from the phone's browser.
    H5,
}

/// As the channels file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSettings {
    mchid: String,
    appid: String,
    product: Product,
    /// Serial of the certificate whose private key signs our requests, in hex.
    merchant_serial: String,
    #[serde(deserialize_with = "secret")]
    merchant_private_key: Secret,
    #[serde(deserialize_with = "secret")]
    api_v3_key: Secret,
    /// Of H5 payments: the channel wants the payer's address, and takes that of the shop's server for it.
    #[serde(default = "h5_payer_ip")]
    h5_payer_ip: String,
    #[serde(default)]
    platform_certificate: Vec<RawCertificate>,
    #[serde(default)]
    public_key: Vec<RawPublicKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCertificate {
    /// A certificate, or the bare public key of one, with its serial beside it.
    #[serde(deserialize_with = "secret")]
    pem: Secret,
    serial: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPublicKey {
    id: String,
    #[serde(deserialize_with = "secret")]
    pem: Secret,
}

fn h5_payer_ip() -> String {
    "127.0.0.1".to_owned()
}

/// Checked. The key set of the account is here too, so that its client and its reader share it.
#[derive(Debug)]
pub struct Settings {
    pub(super) mchid: String,
    pub(super) appid: String,
    pub(super) product: Product,
    pub(super) merchant_serial: String,
    pub(super) merchant_key: PrivateKey,
    pub(super) api_v3_key: seal::Key,
    pub(super) h5_payer_ip: String,
    pub(super) keys: KeySet,
}

impl Settings {
    /// Our number at the channel.
    #[must_use]
    pub fn mchid(&self) -> &str {
        &self.mchid
    }

    /// Our app's number at the channel.
    #[must_use]
    pub fn appid(&self) -> &str {
        &self.appid
    }

    #[must_use]
    pub fn product(&self) -> Product {
        self.product
    }
}

impl RawSettings {
    pub(crate) fn check(self) -> Result<Settings, Fault> {
        if !is_name(&self.mchid) {
            return Err(("mchid", "must be 1 to 32 letters and digits"));
        }
        if !is_name(&self.appid) {
            return Err(("appid", "must be 1 to 32 letters and digits"));
        }
        if std::net::IpAddr::from_str(&self.h5_payer_ip).is_err() {
            return Err(("h5_payer_ip", "must be an IP address"));
        }
        // Sent as it is configured; the channel compares it as we compare its own.
        if serial(&self.merchant_serial).is_none() {
            return Err(("merchant_serial", "must be the certificate's serial in hex"));
        }
        let merchant_key = PrivateKey::parse(self.merchant_private_key.expose()).map_err(|_| {
            ("merchant_private_key", "must be an RSA private key of at least 2048 bits, as PEM")
        })?;
        let api_v3_key = seal::Key::try_new(self.api_v3_key.expose().as_bytes())
            .ok_or(("api_v3_key", "must be the 32 bytes set in the merchant's account"))?;
        let mut configured: Vec<PlatformKey> = Vec::new();
        for raw in self.platform_certificate {
            configured.push(raw.check()?);
        }
        // An account with public keys alone never had certificates, and asking for them is answered as an error.
        let fetches = !configured.is_empty() || self.public_key.is_empty();
        let answers_by = self.public_key.first().map(|key| key.id.clone());
        for raw in self.public_key {
            configured.push(raw.check()?);
        }
        let twice = configured
            .iter()
            .enumerate()
            .any(|(at, key)| configured.iter().take(at).any(|other| other.id() == key.id()));
        if twice {
            return Err((
                "platform_certificate",
                "or public_key is there twice; keep one of each serial and id",
            ));
        }
        Ok(Settings {
            mchid: self.mchid,
            appid: self.appid,
            product: self.product,
            merchant_serial: self.merchant_serial,
            merchant_key,
            api_v3_key,
            h5_payer_ip: self.h5_payer_ip,
            keys: KeySet::new(configured, answers_by, fetches),
        })
    }
}

impl RawCertificate {
    fn check(self) -> Result<PlatformKey, Fault> {
        let Some(given) = self.serial else {
            return PlatformKey::from_certificate_pem(self.pem.expose())
                .ok_or(("platform_certificate.pem", "must be an X.509 certificate with an RSA key, as PEM"));
        };
        let given = serial(&given).ok_or(("platform_certificate.serial", "must be hex"))?;
        let key = PublicKey::parse(self.pem.expose())
            .map_err(|_| ("platform_certificate.pem", "must be an RSA public key, as PEM"))?;
        Ok(PlatformKey::without_certificate(given, key))
    }
}

impl RawPublicKey {
    fn check(self) -> Result<PlatformKey, Fault> {
        let printable = self.id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_public_key_id(&self.id) || self.id.len() > KEY_ID_BYTES_MAX || !printable {
            return Err(("public_key.id", "must be PUB_KEY_ID_ and the number that the channel shows"));
        }
        let key = PublicKey::parse(self.pem.expose())
            .map_err(|_| ("public_key.pem", "must be an RSA public key, as PEM"))?;
        Ok(PlatformKey::without_certificate(self.id, key))
    }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}
