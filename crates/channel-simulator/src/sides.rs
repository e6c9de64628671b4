//! The channels' own knowledge of the accounts, from `simulator.toml` (which [`crate::keys`] writes): public keys of the
//! merchants, private keys of the channels. Accounts of the generic channel are the same on both sides and come from the
//! services' own file.

use std::path::Path;
use std::sync::Arc;

use channel::Accounts;
use pay_types::ChannelCode;
use serde::Deserialize;

use crate::error::Error;
use crate::{alipay, stripe, wechatpay};

/// Whose an order or a refund is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) channel: ChannelCode,
    pub(crate) account: String,
}

impl Owner {
    pub(crate) fn new(channel: ChannelCode, account: &str) -> Self {
        Self { channel, account: account.to_owned() }
    }
}

/// The accounts of the three real channels.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    pub(crate) alipay: Vec<Arc<alipay::Side>>,
    pub(crate) wechatpay: Vec<Arc<wechatpay::Side>>,
    pub(crate) stripe: Vec<Arc<stripe::Side>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    account: Vec<RawAccount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAccount {
    channel: String,
    account: String,
    alipay: Option<alipay::RawSide>,
    wechatpay: Option<wechatpay::RawSide>,
    stripe: Option<stripe::RawSide>,
}

impl Sides {
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::KeysUnreadable { path: path.to_owned(), source })?;
        // Of toml's error only the message is kept: its own text repeats the line, and the line may hold a secret.
        let raw: RawFile =
            toml::from_str(&text).map_err(|error| Error::KeysForm { detail: error.message().to_owned() })?;
        let mut sides = Self::default();
        for one in raw.account {
            let RawAccount { channel, account, alipay, wechatpay, stripe } = one;
            let fault = |detail: &str| Error::KeysForm { detail: format!("{channel}/{account}: {detail}") };
            let lacking = "its table of keys is missing";
            match channel.parse::<ChannelCode>() {
                Ok(ChannelCode::Alipay) => {
                    let raw = alipay.ok_or_else(|| fault(lacking))?;
                    sides.alipay.push(Arc::new(alipay::Side::check(&account, raw).map_err(fault)?));
                }
                Ok(ChannelCode::WechatPay) => {
                    let raw = wechatpay.ok_or_else(|| fault(lacking))?;
                    sides.wechatpay.push(Arc::new(wechatpay::Side::check(&account, raw).map_err(fault)?));
                }
                Ok(ChannelCode::Stripe) => {
                    let raw = stripe.ok_or_else(|| fault(lacking))?;
                    sides.stripe.push(Arc::new(stripe::Side::check(&account, raw).map_err(fault)?));
                }
                Ok(ChannelCode::Generic) | Err(_) => {
                    return Err(fault("channel must be alipay, wechatpay or stripe"));
                }
            }
        }
        Ok(sides)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.alipay.is_empty() && self.wechatpay.is_empty() && self.stripe.is_empty()
    }
}

/// The accounts of the generic channel in the services' file. The other channels' tables hold our private keys, which are
/// none of a channel's business: they are left out before anything is read.
pub(crate) fn generic_accounts(path: &Path) -> Result<Vec<Arc<channel::Account>>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::ChannelsUnreadable { path: path.to_owned(), source })?;
    let Ok(mut file) = text.parse::<toml::Table>() else {
        // Its own reader says best what is wrong, without repeating the line.
        return Ok(Accounts::parse(&text)?.iter().cloned().collect());
    };
    let generic = ChannelCode::Generic.as_str();
    if let Some(accounts) = file.get_mut("account").and_then(toml::Value::as_array_mut) {
        accounts.retain(|account| account.get("channel").and_then(toml::Value::as_str) == Some(generic));
        if accounts.is_empty() {
            return Ok(Vec::new());
        }
    }
    Ok(Accounts::parse(&file.to_string())?.iter().cloned().collect())
}
