#![doc = include_str!("../README.md")]

mod app;
mod config;
mod error;
pub mod keys;
mod rsa;
mod sides;

mod book;
mod fate;
mod ids;
mod links;
mod order;
mod plan;
mod refund;

mod deliver;
mod letter;
mod payer;

mod alipay;
mod archive;
mod fault;
mod form;
mod generic;
mod stripe;
mod wechatpay;

mod control_types;
mod http;
mod serve;

pub use app::App;
pub use config::Settings;
pub use control_types::{
    BookView, DirectNotice, LieTotals, PayOptions, Received, RefundOptions, Signature, Totals,
};
pub use error::Error;
pub use order::{OrderView, Status};
pub use plan::{AutoPay, CreateFaults, Lies, Plan, RefundFaults};
pub use refund::{RefundStatus, RefundView};
