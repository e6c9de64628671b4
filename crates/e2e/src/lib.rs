#![doc = include_str!("../README.md")]
#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a library of tests: it fails by panicking in the test, and speaks to the person who runs it"
)]

mod caller;
pub mod gates;
mod simulator;
mod stack;
mod wait;
pub mod workload;

pub use caller::{Caller, refund_request, request};
pub use simulator::Simulator;
pub use stack::{Stack, Wish, count};
