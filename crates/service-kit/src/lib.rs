#![doc = include_str!("../README.md")]

pub mod admin;
pub mod clock;
pub mod config;
pub mod grpc;
pub mod pg;
pub mod shutdown;
pub mod switch;
pub mod task;
pub mod telemetry;

pub use clock::Clock;
pub use tokio_util::sync::CancellationToken;
