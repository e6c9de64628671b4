#![doc = include_str!("../README.md")]
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a library of tests: it fails by panicking in the test"
)]

mod caller;
mod simulator;
mod stack;

pub use caller::{Caller, request};
pub use simulator::Simulator;
pub use stack::{Stack, Wish, count};
