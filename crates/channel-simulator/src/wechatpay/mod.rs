//! WeChat Pay, API v3: signed calls and answers, sealed notices, certificates and public keys side by side.

mod bill;
mod call;
mod certificates;
mod notice;
mod refunds;
mod seal;
mod transactions;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use pay_types::ChannelCode;
use serde::Deserialize;
use service_kit::config::Secret;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::app::Simulator;
use crate::ids::in_china;
use crate::rsa::{PrivateKey, PublicKey};
use crate::sides::Owner;

pub(crate) use notice::{Letter, letter};

/// Waits between sendings of a notice, seconds.
pub(crate) const RETRY_S: [u32; 15] =
    [15, 15, 30, 180, 600, 1_200, 1_800, 1_800, 1_800, 3_600, 10_800, 10_800, 10_800, 21_600, 21_600];

/// As `simulator.toml` has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSide {
    mchid: String,
    appid: String,
    merchant_serial: String,
    merchant_public_key: Secret,
    api_v3_key: Secret,
    /// Which key signs notices; the first, if it is not said.
    notice_serial: Option<String>,
    key: Vec<RawKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    serial: String,
    private_key: Secret,
    /// There for certificates, not there for public keys.
    certificate: Option<Secret>,
}

/// A key that the channel signs with.
#[derive(Debug)]
struct Key {
    /// The certificate's serial number, or the public key's id.
    serial: String,
    key: PrivateKey,
    certificate: Option<Secret>,
}

/// An account as WeChat Pay knows it.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) owner: Owner,
    mchid: String,
    appid: String,
    merchant_serial: String,
    merchant_key: PublicKey,
    api_v3_key: Secret,
    notice_serial: Option<String>,
    keys: Vec<Key>,
}

impl Side {
    pub(crate) fn check(account: &str, raw: RawSide) -> Result<Self, &'static str> {
        let keys: Option<Vec<Key>> = raw
            .key
            .into_iter()
            .map(|raw| {
                let key = PrivateKey::from_pem(raw.private_key.expose())?;
                Some(Key { serial: raw.serial, key, certificate: raw.certificate })
            })
            .collect();
        let keys = keys.filter(|keys| !keys.is_empty()).ok_or("key must be RSA keys, one at least")?;
        if raw.api_v3_key.expose().len() != 32 {
            return Err("api_v3_key must have 32 bytes");
        }
        let merchant_key = PublicKey::from_pem(raw.merchant_public_key.expose());
        Ok(Self {
            owner: Owner::new(ChannelCode::WechatPay, account),
            mchid: raw.mchid,
            appid: raw.appid,
            merchant_serial: raw.merchant_serial,
            merchant_key: merchant_key.ok_or("merchant_public_key must be a public key in PEM")?,
            api_v3_key: raw.api_v3_key,
            notice_serial: raw.notice_serial,
            keys,
        })
    }

    /// The key of this serial number, written in either case; else the first.
    fn key(&self, serial: Option<&str>) -> &Key {
        let named =
            serial.and_then(|serial| self.keys.iter().find(|key| key.serial.eq_ignore_ascii_case(serial)));
        named.or_else(|| self.keys.first()).expect("an account without keys is refused when it is read")
    }
}

/// What an order is at WeChat Pay, beside its terms.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Deal {
    trade_type: &'static str,
    attach: Option<String>,
}

/// As WeChat Pay writes times.
fn text(at: OffsetDateTime) -> String {
    in_china(at).replace_nanosecond(0).unwrap_or(at).format(&Rfc3339).unwrap_or_default()
}

pub(crate) fn routes() -> Router<Arc<Simulator>> {
    Router::new()
        .route("/v3/pay/transactions/native", post(transactions::native))
        .route("/v3/pay/transactions/h5", post(transactions::h5))
        .route("/v3/pay/transactions/out-trade-no/{no}", get(transactions::query))
        .route("/v3/pay/transactions/id/{id}", get(transactions::query_by_id))
        .route("/v3/pay/transactions/out-trade-no/{no}/close", post(transactions::close))
        .route("/v3/refund/domestic/refunds", post(refunds::create))
        .route("/v3/refund/domestic/refunds/{no}", get(refunds::query))
        .route("/v3/certificates", get(certificates::list))
        .route("/v3/bill/tradebill", get(bill::link))
        .route("/v3/billdownload/file", get(bill::download))
}
