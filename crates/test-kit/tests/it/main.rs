//! The tools themselves, against the test stack.
#![cfg(test)]

mod kafka;
mod postgres;
mod proxy;
mod redis;
