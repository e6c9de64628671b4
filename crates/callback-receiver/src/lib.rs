#![doc = include_str!("../README.md")]

mod app;
mod apply;
mod config;
mod error;
mod evidence;
mod http;
mod rate;

pub use app::App;
pub use config::Settings;
pub use error::Error;
pub use http::BODY_BYTES_MAX;
