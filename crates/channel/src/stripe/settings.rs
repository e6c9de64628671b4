//! What an account of Stripe needs: its keys, its mode, and where payers come back to.

use std::fmt;

use aws_lc_rs::hmac;
use http::Uri;
use serde::Deserialize;
use service_kit::config::Secret;

use crate::accounts::{Fault, secret};

/// Shortest and longest key; the channel's have about a hundred characters.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=255;
/// Webhook secrets of one account: a rolled one is valid beside the new one for a day, and more endpoints than this lead
/// nowhere. Each costs one MAC for each notice.
const WEBHOOK_SECRETS_MAX: usize = 8;
/// Longest address that payers come back to.
const RETURN_URL_BYTES_MAX: usize = 1024;

/// How payers pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Product {
    /// A page at the channel.
    Checkout,
    /// The channel's code in our page or app.
    PaymentIntent,
}

/// As the channels file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSettings {
    #[serde(deserialize_with = "secret")]
    secret_key: Secret,
    livemode: bool,
    product: Product,
    /// Of checkout: where the channel's page sends the payer back to. Without it, the front page of the host of
    /// `notify_url`.
    return_url: Option<String>,
    #[serde(default)]
    webhook_secret: Vec<RawWebhookSecret>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWebhookSecret {
    #[serde(deserialize_with = "secret")]
    secret: Secret,
}

/// One secret that notices may be signed with.
pub(super) struct WebhookSecret {
    /// The secrets have no names, so each is known by a few digits that are made from it and tell nothing about it.
    pub(super) key_id: String,
    pub(super) key: hmac::Key,
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookSecret({})", self.key_id)
    }
}

impl WebhookSecret {
    fn new(secret: &Secret) -> Self {
        // The whole text is the key, its prefix too.
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
        let mut digits = hex::encode(hmac::sign(&key, b"oncepay key id"));
        digits.truncate(8);
        Self { key_id: format!("whsec-{digits}"), key }
    }
}

/// Checked.
#[derive(Debug)]
pub struct Settings {
    pub(super) secret_key: Secret,
    pub(super) livemode: bool,
    pub(super) product: Product,
    pub(super) return_url: Option<String>,
    pub(super) webhook_secrets: Vec<WebhookSecret>,
}

impl Settings {
    /// Whether money is real.
    #[must_use]
    pub fn livemode(&self) -> bool {
        self.livemode
    }

    #[must_use]
    pub fn product(&self) -> Product {
        self.product
    }
}

impl RawSettings {
    pub(crate) fn check(self) -> Result<Settings, Fault> {
        let key = self.secret_key.expose();
        let is_secret = key.starts_with("sk_") || key.starts_with("rk_");
        if !is_secret || !is_key(key) {
            return Err((
                "secret_key",
                "must be a secret key (sk_…) or a restricted one (rk_…), not a public one",
            ));
        }
        let says_live = key.get(2..).is_some_and(|rest| rest.starts_with("_live_"));
        let says_test = key.get(2..).is_some_and(|rest| rest.starts_with("_test_"));
        if (says_live && !self.livemode) || (says_test && self.livemode) {
            return Err(("livemode", "must be that of secret_key: true for …_live_…, false for …_test_…"));
        }
        if let Some(url) = &self.return_url
            && !is_return_url(url)
        {
            return Err(("return_url", "must be an http or https address of at most 1024 characters"));
        }
        let mut webhook_secrets: Vec<WebhookSecret> = Vec::with_capacity(self.webhook_secret.len());
        for RawWebhookSecret { secret } in self.webhook_secret {
            if !secret.expose().starts_with("whsec_") || !is_key(secret.expose()) {
                return Err(("webhook_secret", "must be the signing secret of a webhook endpoint, whsec_…"));
            }
            let secret = WebhookSecret::new(&secret);
            if webhook_secrets.iter().any(|other| other.key_id == secret.key_id) {
                return Err(("webhook_secret", "is there twice; keep one of each"));
            }
            webhook_secrets.push(secret);
        }
        if !(1..=WEBHOOK_SECRETS_MAX).contains(&webhook_secrets.len()) {
            return Err(("webhook_secret", "must be there: 1 to 8 [[account.stripe.webhook_secret]] tables"));
        }
        Ok(Settings {
            secret_key: self.secret_key,
            livemode: self.livemode,
            product: self.product,
            return_url: self.return_url,
            webhook_secrets,
        })
    }
}

fn is_key(text: &str) -> bool {
    KEY_BYTES.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_return_url(text: &str) -> bool {
    text.len() <= RETURN_URL_BYTES_MAX
        && text.parse::<Uri>().is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")))
}
