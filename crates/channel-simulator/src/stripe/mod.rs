//! Stripe: `PaymentIntents`, Checkout sessions, refunds, and signed events.

mod amount;
mod answers;
mod call;
mod intents;
mod notice;
mod params;
mod refunds;
mod sessions;
mod show;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use pay_types::ChannelCode;
use serde::Deserialize;
use service_kit::config::Secret;

use crate::app::Simulator;
use crate::sides::Owner;

pub(crate) use answers::Answers;
pub(crate) use notice::{Letter, letters};
pub(crate) use refunds::{create as create_refund, list as list_refunds, query as query_refund};

/// The version whose shapes the objects have; events name it.
const API_VERSION: &str = "2025-10-29.clover";

/// As `simulator.toml` has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSide {
    secret_key: Secret,
    livemode: bool,
    webhook_url: String,
    webhook_secret: Vec<RawSecret>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSecret {
    secret: Secret,
}

/// An account as Stripe knows it.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) owner: Owner,
    secret_key: Secret,
    livemode: bool,
    webhook_url: String,
    /// All of them sign: a rolled secret is good for a day beside the new one.
    webhook_secrets: Vec<Secret>,
}

impl Side {
    pub(crate) fn check(account: &str, raw: RawSide) -> Result<Self, &'static str> {
        if raw.webhook_secret.is_empty() {
            return Err("webhook_secret must be there at least once");
        }
        Ok(Self {
            owner: Owner::new(ChannelCode::Stripe, account),
            secret_key: raw.secret_key,
            livemode: raw.livemode,
            webhook_url: raw.webhook_url,
            webhook_secrets: raw.webhook_secret.into_iter().map(|raw| raw.secret).collect(),
        })
    }
}

/// Which object an order is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Intent,
    Session,
}

/// What an order is at Stripe, beside its terms.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    kind: Kind,
    id: String,
    metadata: BTreeMap<String, String>,
    /// Of a session: what its intent will carry.
    intent_metadata: BTreeMap<String, String>,
    client_reference_id: Option<String>,
    success_url: Option<String>,
    cancel_url: Option<String>,
    client_secret: String,
}

impl Object {
    /// The intent's id, where the order is one; a session gets its intent when it is paid.
    pub(crate) fn intent_id(&self) -> Option<&str> {
        (self.kind == Kind::Intent).then_some(self.id.as_str())
    }
}

/// All paths but those under `/v1/refunds`, which the generic channel has too.
pub(crate) fn routes() -> Router<Arc<Simulator>> {
    Router::new()
        .route("/v1/payment_intents", post(intents::create).get(intents::list))
        .route("/v1/payment_intents/search", get(intents::search))
        .route("/v1/payment_intents/{id}", get(intents::query))
        .route("/v1/payment_intents/{id}/confirm", post(intents::confirm))
        .route("/v1/payment_intents/{id}/cancel", post(intents::cancel))
        .route("/v1/checkout/sessions", post(sessions::create).get(sessions::list))
        .route("/v1/checkout/sessions/{id}", get(sessions::query))
        .route("/v1/checkout/sessions/{id}/expire", post(sessions::expire))
}
