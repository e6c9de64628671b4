//! The whole way, one file for each group of properties.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::too_many_lines,
    reason = "tests fail by panicking, and tell their story in one piece"
)]

mod books;
mod broker_away;
mod crash;
mod create;
mod entrance;
mod explore;
mod jobs;
mod notice;
mod operate;
mod refund_payment;
mod refund_receipt;
mod refuse;
