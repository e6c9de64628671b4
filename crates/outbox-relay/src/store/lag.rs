//! How much waits, for the metrics.

use sqlx::PgPool;

use super::{SHARDS, within};
use crate::Error;

/// Rows that are counted at most; the metric stops there. Counting a million takes a tenth of a second.
const ROWS_COUNTED_MAX: i64 = 1_000_000;

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lag {
    /// Events in the queue.
    pub(crate) rows: i64,
    /// Age of the oldest, by the database's clock.
    pub(crate) oldest_ms: i64,
    /// Events that were parked.
    pub(crate) parked: i64,
    /// Events of the queue that wait for a parked one of their key.
    pub(crate) held: i64,
}

/// Counts what waits, in all shards.
pub(crate) async fn lag(pool: &PgPool) -> Result<Lag, Error> {
    let shards: Vec<_> = (0..SHARDS).collect();
    within(
        sqlx::query_as!(
            Lag,
            r#"SELECT
                 (SELECT count(*) FROM (SELECT FROM outbox LIMIT $2) AS counted) AS "rows!",
                 COALESCE((SELECT (EXTRACT(EPOCH FROM now() - min(e.created_at)) * 1000)::BIGINT
                           FROM UNNEST($1::SMALLINT[]) AS s (shard)
                           CROSS JOIN LATERAL (SELECT o.bucket, o.event_id FROM outbox AS o WHERE o.shard = s.shard
                                               ORDER BY o.event_id LIMIT 1) AS first
                           JOIN payment_event AS e ON e.bucket = first.bucket AND e.event_id = first.event_id), 0)
                   AS "oldest_ms!",
                 (SELECT count(*) FROM outbox_parked) AS "parked!",
                 (SELECT count(*) FROM (SELECT DISTINCT bucket, shard, partition_key FROM outbox_parked) AS p
                  JOIN outbox AS o ON o.shard = p.shard AND o.bucket = p.bucket
                  JOIN payment_event AS e ON e.bucket = o.bucket AND e.event_id = o.event_id
                                         AND e.partition_key = p.partition_key) AS "held!""#,
            &shards,
            ROWS_COUNTED_MAX
        )
        .fetch_one(pool),
    )
    .await
}
