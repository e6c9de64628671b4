//! Gates G3 and G4 on a real Redis and a real PostgreSQL.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod lease;
mod log;
