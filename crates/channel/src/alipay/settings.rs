//! What an account of Alipay needs: its names there and its keys.

use serde::Deserialize;
use service_kit::config::Secret;

use crate::accounts::{Fault, secret};
use crate::rsa::{PrivateKey, PublicKey};

/// How payers pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    /// A page for a computer's browser.
    Page,
    /// A page for a phone's browser.
    Wap,
    /// A QR code that the payer's app scans.
    Qr,
}

/// What an empty parameter of a notice does to the signed text. Most of the channel's own libraries keep it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmptyValues {
    #[default]
    Keep,
    /// For an account whose genuine notices have proved it. Both are never tried.
    Skip,
}

/// As the channels file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSettings {
    app_id: String,
    seller_id: String,
    product: Product,
    #[serde(deserialize_with = "secret")]
    app_private_key: Secret,
    #[serde(default)]
    empty_values: EmptyValues,
    #[serde(default)]
    public_key: Vec<RawPublicKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPublicKey {
    #[serde(deserialize_with = "secret")]
    pem: Secret,
}

/// Checked.
#[derive(Debug)]
pub struct Settings {
    pub(super) app_id: String,
    pub(super) seller_id: String,
    pub(super) product: Product,
    pub(super) app_key: PrivateKey,
    pub(super) empty_values: EmptyValues,
    /// The channel's keys, all valid at once while one takes over from another.
    pub(super) keys: Vec<PublicKey>,
}

impl RawSettings {
    pub(crate) fn check(self) -> Result<Settings, Fault> {
        let is_number =
            |text: &str| (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(&self.app_id) {
            return Err(("app_id", "must be the app's number, digits only"));
        }
        if !is_number(&self.seller_id) {
            return Err(("seller_id", "must be the seller's number, digits only"));
        }
        let app_key = PrivateKey::parse(self.app_private_key.expose()).map_err(|_| {
            ("app_private_key", "must be an RSA private key of at least 2048 bits, as PEM or base64")
        })?;
        let keys = self
            .public_key
            .iter()
            .map(|raw| PublicKey::parse(raw.pem.expose()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| ("public_key.pem", "must be the channel's RSA public key, as PEM or base64"))?;
        if keys.is_empty() {
            return Err(("public_key", "must be there: the channel's own key, not the app's"));
        }
        Ok(Settings {
            app_id: self.app_id,
            seller_id: self.seller_id,
            product: self.product,
            app_key,
            empty_values: self.empty_values,
            keys,
        })
    }
}
