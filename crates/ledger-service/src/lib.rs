#![doc = include_str!("../README.md")]

mod app;
mod config;
mod error;
mod grpc;
mod watch;

pub use app::App;
pub use config::Settings;
pub use error::Error;
