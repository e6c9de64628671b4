#![doc = include_str!("../README.md")]

mod app;
mod config;
mod error;

pub mod apply;
mod consume;
mod dead_letter;
pub mod decode;
pub mod fact;
mod fault;
mod health;
pub mod park;
pub mod rules;
pub mod store;

pub use app::App;
pub use config::Settings;
pub use error::Error;
