//! WeChat Pay, API v3: JSON over HTTPS, RSA signatures in headers, notices sealed with AES-256-GCM.
//!
//! | call | answer |
//! |---|---|
//! | `POST /v3/pay/transactions/native`, `…/h5` | `code_url` or `h5_url`; the same number with other terms is refused |
//! | `GET /v3/pay/transactions/out-trade-no/{pay_no}` | the order |
//! | `POST /v3/pay/transactions/out-trade-no/{pay_no}/close` | 204 |
//! | `POST /v3/refund/domestic/refunds` | the refund, taken |
//! | `GET /v3/refund/domestic/refunds/{refund_no}` | the refund |
//! | `GET /v3/certificates` | the channel's certificates, sealed; for accounts that have any |
//!
//! Amounts are whole fen. `amount.total` is what an order costs and is compared with ours; `payer_total` is what coupons left
//! of it.

mod client;
mod exchange;
mod keys;
mod notice;
mod seal;
mod settings;
mod sign;
mod states;

pub use client::{Client, Wire};
pub use notice::Reader;
pub(crate) use settings::RawSettings;
pub use settings::{Product, Settings};
