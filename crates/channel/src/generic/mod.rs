//! The generic channel: JSON over HTTP, HMAC-SHA256 over everything that decides. Our own protocol, for partners in house.
//!
//! | call | answer |
//! |---|---|
//! | `POST /v1/orders` | the order; the same number with other terms is 409 `TERMS_DIFFER` |
//! | `GET /v1/orders/{pay_no}` | the order, or 404 `ORDER_NOT_FOUND` |
//! | `POST /v1/orders/{pay_no}/close` | the order: `CLOSED`, or `PAID` when the payer was faster |
//! | `POST /v1/refunds` | the refund; the same number with other terms is 409 `TERMS_DIFFER` |
//! | `GET /v1/refunds/{refund_no}` | the refund, or 404 `REFUND_NOT_FOUND` |
//!
//! A refund is `{refund_no, pay_no, channel_txn_id, channel_refund_no, status: ACCEPTED|ABNORMAL|SUCCEEDED|FAILED, amount, currency,
//! occurred_at}`. An order is `{pay_no, status: CREATED|PAID|CLOSED|FAILED, amount, currency, pay_url, channel_txn_id?, occurred_at?}`, an
//! error `{code, message}`. Requests, answers and notices are signed alike (see [`sign`]).

pub mod sign;

mod client;
mod notice;
mod refund;
mod states;

pub use client::Client;
pub use notice::Reader;
