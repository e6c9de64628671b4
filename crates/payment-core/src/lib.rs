#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test may overflow, and fails then"))]

mod app;
mod config;
mod error;
mod grpc;
mod payment;
mod refund;
mod store;

pub use app::App;
pub use config::Settings;
pub use error::Error;
