#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test may overflow, and fails then"))]

pub mod flight;
pub mod lease;
pub mod log;
