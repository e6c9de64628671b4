//! PostgreSQL: one pool for each service with a bounded wait, constraints by name, and which errors are safe to retry.

use std::str::FromStr as _;
use std::time::Duration;

use serde::Deserialize;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::config::Secret;

/// Settings of a pool.
#[derive(Debug, Clone, Deserialize)]
pub struct PoolSettings {
    /// Most connections; more callers wait.
    #[serde(default = "connections_max")]
    pub connections_max: u32,
    /// Longest wait for a connection, milliseconds; then the call is answered `UNAVAILABLE`.
    #[serde(default = "acquire_ms_max")]
    pub acquire_ms_max: u64,
    /// Longest statement, milliseconds, held by the server.
    #[serde(default = "statement_ms_max")]
    pub statement_ms_max: u64,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            connections_max: connections_max(),
            acquire_ms_max: acquire_ms_max(),
            statement_ms_max: statement_ms_max(),
        }
    }
}

fn connections_max() -> u32 {
    10
}

/// Below the shortest deadline that clients use (5 s), so that they hear *retry* and not a time-out.
fn acquire_ms_max() -> u64 {
    3_000
}

/// Ten times the slowest statement of the hot path under load; a statement beyond it has lost its caller.
fn statement_ms_max() -> u64 {
    10_000
}

/// Opens a pool; connects when first used, so that a service starts without its database and says so in `/readyz`.
///
/// # Errors
/// When the address cannot be read.
pub fn pool(url: &Secret, settings: &PoolSettings, application: &str) -> Result<PgPool, sqlx::Error> {
    let statement = settings.statement_ms_max.to_string();
    let options = PgConnectOptions::from_str(url.expose())?.application_name(application).options([
        ("statement_timeout", statement.as_str()),
        ("idle_in_transaction_session_timeout", "30000"),
    ]);
    Ok(PgPoolOptions::new()
        .max_connections(settings.connections_max)
        .acquire_timeout(Duration::from_millis(settings.acquire_ms_max))
        .connect_lazy_with(options))
}

/// Whether the database asked for the transaction to be run again (serialization failure, deadlock). Such a transaction
/// left nothing behind and is run again from its inputs.
#[must_use]
pub fn is_conflict(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|code| matches!(&*code, "40001" | "40P01"))
}

/// Whether the database, or the way to it, is what failed: the caller may try again later.
#[must_use]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum: a new kind of error is not known to be worth a retry"
)]
pub fn is_unavailable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_)
        | sqlx::Error::BeginFailed => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            // 08 connection, 53 resources, 57 operator intervention (shutdown, cancelled statement).
            code.starts_with("08") || code.starts_with("53") || code.starts_with("57")
        }),
        _ => false,
    }
}

/// Name of the constraint that refused a statement. Constraints are matched by name, never by message.
#[must_use]
pub fn constraint(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error().and_then(sqlx::error::DatabaseError::constraint)
}

/// Times a transaction is run again after a conflict before the caller hears of it.
pub const CONFLICT_TRIES_MAX: u32 = 8;
