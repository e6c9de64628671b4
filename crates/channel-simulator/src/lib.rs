#![doc = include_str!("../README.md")]

mod app;
mod book;
mod config;
mod control_types;
mod deliver;
mod error;
mod http;
mod message;
mod order;
mod payer;
mod plan;
mod refund;

pub use app::App;
pub use config::Settings;
pub use control_types::{BookView, DirectNotice, LieTotals, PayOptions, Received, Signature, Totals};
pub use error::Error;
pub use order::{OrderView, Status};
pub use plan::{AutoPay, CreateFaults, Lies, Plan, RefundFaults};
pub use refund::{RefundStatus, RefundView};
