//! The one connection on which the queue is worked. Its advisory locks say which shards this relay owns; reading and deleting
//! on the same connection means that a relay that lost its locks can do neither.

use std::str::FromStr as _;
use std::time::Duration;

use service_kit::config::Secret;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::time::Instant;

use super::within;
use crate::Error;

/// Shards of the queue: 64 buckets each.
pub(crate) const SHARDS: i16 = 16;
/// First half of the locks' keys, our name space among advisory locks: the letters "obox". The second half is the shard.
const LOCK_SPACE: i32 = 0x6f62_6f78;
/// Pause between two tries to get the shards that are missing: how soon a standby takes over.
const CLAIM_PAUSE: Duration = Duration::from_millis(250);

/// A connection and the shards it owns.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: PgConnection,
    shards: Vec<i16>,
    claim_at: Instant,
}

impl Session {
    /// Connects; owns nothing yet.
    pub(crate) async fn connect(url: &Secret) -> Result<Self, Error> {
        let options = PgConnectOptions::from_str(url.expose())?.application_name("outbox-relay").options([
            ("statement_timeout", "10000"),
            // The server finds a dead owner within seconds, and frees its locks for a standby.
            ("tcp_keepalives_idle", "3"),
            ("tcp_keepalives_interval", "1"),
            ("tcp_keepalives_count", "3"),
            // The queue is empty when it is analysed and full when it is read: its statistics are always wrong. Every
            // statement here has one right plan, by the indexes.
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("jit", "off"),
        ]);
        let connection = within(PgConnection::connect_with(&options)).await?;
        Ok(Self { connection, shards: Vec::new(), claim_at: Instant::now() })
    }

    /// The shards that this session owns.
    pub(crate) fn shards(&self) -> &[i16] {
        &self.shards
    }

    /// Asks for the shards that are missing, if it is time. A lock is held until the session ends.
    pub(crate) async fn claim(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        let missing: Vec<_> = (0..SHARDS).filter(|shard| !self.shards.contains(shard)).collect();
        if missing.is_empty() || now < self.claim_at {
            return Ok(());
        }
        self.claim_at = now.checked_add(CLAIM_PAUSE).unwrap_or(now);
        let taken = within(
            sqlx::query_scalar!(
                r#"SELECT s.shard AS "shard!" FROM UNNEST($1::SMALLINT[]) AS s (shard)
                   WHERE pg_try_advisory_lock($2, s.shard::INTEGER)"#,
                &missing,
                LOCK_SPACE
            )
            .fetch_all(&mut self.connection),
        )
        .await?;
        if !taken.is_empty() {
            self.shards.extend(taken);
            self.shards.sort_unstable();
            tracing::info!(outbox.shards = ?self.shards, "this relay owns shards");
        }
        Ok(())
    }

    /// Whether the connection, and with it the ownership, still stands.
    pub(crate) async fn check(&mut self) -> Result<(), Error> {
        within(self.connection.ping()).await
    }
}
