#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test may overflow, and fails then"))]

mod app;
mod begin;
mod config;
mod error;
mod grpc;

pub use app::App;
pub use config::Settings;
pub use error::Error;
