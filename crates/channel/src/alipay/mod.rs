//! Alipay: forms to one gateway, answers whose node is signed as it stands, notices as signed forms. RSA2 throughout.
//!
//! | call | method |
//! |---|---|
//! | create | `alipay.trade.page.pay`, `alipay.trade.wap.pay`: a signed address, no call; `alipay.trade.precreate`: a QR text |
//! | query, close | `alipay.trade.query`, `alipay.trade.close`, by `out_trade_no`, our `pay_no` |
//! | refund, its query | `alipay.trade.refund`, `alipay.trade.fastpay.refund.query`, by `out_request_no`, our `refund_no` |
//!
//! A notice of a refund tells how much went back in all, not how much this refund was. So it is a running total to us, and the
//! refund is asked about by its number; nothing is matched by an amount.

mod amount;
mod client;
mod notice;
mod settings;
mod sign;
mod states;

pub use client::Client;
pub use notice::Reader;
pub(crate) use settings::RawSettings;
pub use settings::{EmptyValues, Product, Settings};
