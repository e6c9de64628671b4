//! A notice before it is signed, in any protocol, and the one exchange that carries it.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, Method};
use pay_types::ChannelCode;
use time::OffsetDateTime;

use crate::app::Simulator;
use crate::control_types::{Received, Signature};
use crate::fate::Lie;
use crate::order::{Charge, Order};
use crate::refund::Refund;
use crate::{alipay, generic, stripe, wechatpay};

/// Largest part of an answer that is kept for the caller.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What happened, in no protocol's words.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event<'a> {
    Paid(&'a Charge),
    /// Unpaid and closed.
    Closed,
    Failed,
    /// One try of the payer was declined.
    Declined,
    /// A refund ended; `total` is what went back so far, in all. `returned`: it had succeeded before.
    Refund {
        refund: &'a Refund,
        total: i64,
        returned: bool,
    },
}

/// What a notice says, ready to be signed for each sending.
#[derive(Debug, Clone)]
pub(crate) enum Letter {
    Generic(generic::Letter),
    Alipay(alipay::Letter),
    WechatPay(wechatpay::Letter),
    Stripe(stripe::Letter),
}

/// A notice as it goes on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The notices that a channel sends about an event: none where its protocol has no word for it, two where it tells in two.
pub(crate) fn letters(
    simulator: &Simulator,
    order: &Order,
    event: Event<'_>,
    lie: Option<Lie>,
) -> Vec<Letter> {
    let owner = &order.owner;
    match owner.channel {
        ChannelCode::Generic => {
            generic::letters(simulator, order, event).map(Letter::Generic).into_iter().collect()
        }
        ChannelCode::Alipay => {
            let letter =
                simulator.alipay(owner).and_then(|side| alipay::letter(simulator, side, order, event, lie));
            letter.map(Letter::Alipay).into_iter().collect()
        }
        ChannelCode::WechatPay => {
            let letter = simulator
                .wechatpay(owner)
                .and_then(|side| wechatpay::letter(simulator, side, order, event, lie));
            letter.map(Letter::WechatPay).into_iter().collect()
        }
        ChannelCode::Stripe => {
            let letters =
                simulator.stripe(owner).map(|side| stripe::letters(simulator, side, order, event, lie));
            letters.unwrap_or_default().into_iter().map(Letter::Stripe).collect()
        }
    }
}

impl Letter {
    /// Signs it for one sending to `url`.
    pub(crate) fn seal(&self, url: &reqwest::Url, at: OffsetDateTime, signature: Signature) -> Sealed {
        match self {
            Self::Generic(letter) => letter.seal(url, at, signature),
            Self::Alipay(letter) => letter.seal(at, signature),
            Self::WechatPay(letter) => letter.seal(at, signature),
            Self::Stripe(letter) => letter.seal(at, signature),
        }
    }

    /// Whether the answer says that it was taken.
    pub(crate) fn is_acked(&self, answer: &Received) -> bool {
        match self {
            Self::Generic(_) | Self::Stripe(_) => answer.is_2xx(),
            // Anything around the word is a refusal.
            Self::Alipay(_) => answer.status == Some(200) && answer.body == "success",
            Self::WechatPay(_) => matches!(answer.status, Some(200 | 204)),
        }
    }

    /// The wait after the `tries`-th sending, when the first wait is `first`; `None`: it is given up.
    pub(crate) fn wait(&self, tries: u32, first: Duration, tries_max: u32) -> Option<Duration> {
        let schedule: &[u32] = match self {
            Self::Generic(_) | Self::Stripe(_) => {
                let doublings = tries.saturating_sub(1);
                return Some(first.saturating_mul(2_u32.saturating_pow(doublings)))
                    .filter(|_| tries < tries_max);
            }
            Self::Alipay(_) => &alipay::RETRY_S,
            Self::WechatPay(_) => &wechatpay::RETRY_S,
        };
        // The channel's own schedule, made shorter so that its first step is `first`.
        let place = usize::try_from(tries.saturating_sub(1)).unwrap_or(usize::MAX);
        let step = schedule.get(place)?;
        let whole = schedule.first().copied().unwrap_or(1).max(1);
        Some(first.saturating_mul(*step).checked_div(whole).unwrap_or(first))
    }
}

impl Received {
    pub(crate) fn is_2xx(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// Sends a sealed notice once.
pub(crate) async fn post(
    http: &reqwest::Client,
    method: Method,
    url: reqwest::Url,
    sealed: Sealed,
) -> Received {
    let request = http.request(method, url).headers(sealed.headers).body(sealed.body);
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) => return Received { status: None, body: error.without_url().to_string() },
    };
    let status = Some(response.status().as_u16());
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len().saturating_add(chunk.len()) > ANSWER_BYTES_MAX {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    Received { status, body: String::from_utf8_lossy(&body).into_owned() }
}

/// Sends copies of one sealed notice, some of them at once.
pub(crate) async fn post_copies(
    http: &reqwest::Client,
    url: &reqwest::Url,
    sealed: &Sealed,
    copies: u32,
    at_once: usize,
) -> Vec<Received> {
    futures::stream::iter(0..copies)
        .map(|_| post(http, Method::POST, url.clone(), sealed.clone()))
        .buffer_unordered(at_once)
        .collect()
        .await
}
