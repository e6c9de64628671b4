//! Stripe: forms over HTTPS, answers in JSON that only TLS vouches for, events signed by HMAC-SHA256.
//!
//! | call | answer |
//! |---|---|
//! | `POST /v1/checkout/sessions` | `cs_…` and the address of its page |
//! | `POST /v1/payment_intents` | `pi_…` and its client secret |
//! | `GET /v1/checkout/sessions/{cs}`, `GET /v1/payment_intents/{pi}` | the order |
//! | `GET /v1/payment_intents/search` | the order by our number, some minutes late |
//! | `POST /v1/checkout/sessions/{cs}/expire`, `POST /v1/payment_intents/{pi}/cancel` | the order, closed |
//! | `POST /v1/refunds` | the refund, `re_…` |
//! | `GET /v1/refunds/{re}`, `GET /v1/refunds?payment_intent=…` | the refund; all of one transaction |
//!
//! **One transaction, one id.** The id of a transaction is that of its intent, `pi_…`, on every path. A charge (`ch_…`) is one
//! try of an intent, so that a payment has several; a session (`cs_…`) is a page, and other payments have none; the intent is
//! what is paid once, what every charge, session, refund and dispute names, and what a refund is asked of. The order's number
//! (`Created::channel_order_no`) is another thing: `cs_…` for a session, which has no intent before its payer acts.
//!
//! An intent never expires by itself: the payment's expiry closes it by a cancel. A session does, at the payment's expiry or,
//! where that is too near for the channel, 40 minutes after the payment was made.

mod amount;
mod client;
mod exchange;
mod form;
mod notice;
mod object;
mod refund;
mod settings;
mod sign;
mod states;
mod told;

pub use client::{Client, KEY_KEPT, KEY_TOO_OLD};
pub use notice::Reader;
pub(crate) use settings::RawSettings;
pub use settings::{Product, Settings};
