//! Tables `outbox`, `payment_event` and `outbox_parked`.

use sqlx::PgConnection;
use time::OffsetDateTime;

use super::{Place, within};
use crate::Error;

/// An event that waits in the queue.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) place: Place,
    pub(crate) msg_key: String,
    pub(crate) kind: String,
    pub(crate) aggregate_id: String,
    pub(crate) partition_key: String,
    /// `None` when it is larger than may be sent.
    pub(crate) payload: Option<String>,
    pub(crate) payload_bytes: i32,
    pub(crate) traceparent: Option<String>,
    pub(crate) created_at: OffsetDateTime,
}

/// What a read saw beside the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The oldest transaction that was running; all below it had ended.
    pub(crate) oldest_transaction: i64,
    /// The first transaction that had not begun.
    pub(crate) next_transaction: i64,
    /// Whether anything was parked in the shards.
    pub(crate) parked: bool,
}

/// The lowest events of each of the shards from its floor, at most `rows_max` a shard, all in order. Events whose key has a
/// parked one are passed over. A payload over `bytes_max` is not brought along.
pub(crate) async fn read(
    connection: &mut PgConnection,
    shards: &[i16],
    floors: &[i64],
    rows_max: i64,
    bytes_max: i32,
) -> Result<(Snapshot, Vec<Event>), Error> {
    let rows = within(
        sqlx::query!(
            r#"SELECT h.oldest AS "oldest!", h.next AS "next!", h.parked AS "parked!",
                      o.bucket AS "bucket?", o.event_id AS "event_id?", o.shard AS "shard?", o.msg_key AS "msg_key?",
                      o.type AS "kind?", o.aggregate_id AS "aggregate_id?", o.partition_key AS "partition_key?",
                      o.payload AS "payload?", o.payload_bytes AS "payload_bytes?", o.traceparent AS "traceparent?",
                      o.created_at AS "created_at?"
               FROM (SELECT pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT AS oldest,
                            pg_snapshot_xmax(pg_current_snapshot())::TEXT::BIGINT AS next,
                            EXISTS (SELECT FROM outbox_parked WHERE shard = ANY ($1)) AS parked) AS h
               LEFT JOIN LATERAL (
                   SELECT w.* FROM UNNEST($1::SMALLINT[], $2::BIGINT[]) AS s (shard, floor)
                   CROSS JOIN LATERAL (
                       SELECT q.bucket, q.event_id, q.shard, e.msg_key, e.type, e.aggregate_id, e.partition_key,
                              CASE WHEN octet_length(e.payload) <= $4 THEN e.payload END AS payload,
                              octet_length(e.payload) AS payload_bytes, e.traceparent, e.created_at
                       FROM outbox AS q
                       JOIN payment_event AS e ON e.bucket = q.bucket AND e.event_id = q.event_id
                       WHERE q.shard = s.shard AND q.event_id >= s.floor
                         AND NOT EXISTS (SELECT FROM outbox_parked AS p
                                         WHERE p.bucket = q.bucket AND p.partition_key = e.partition_key)
                       ORDER BY q.event_id
                       LIMIT $3) AS w) AS o ON TRUE
               ORDER BY o.event_id"#,
            shards,
            floors,
            rows_max,
            bytes_max
        )
        .fetch_all(connection),
    )
    .await?;
    let mut snapshot = Snapshot { oldest_transaction: 0, next_transaction: 0, parked: false };
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        snapshot =
            Snapshot { oldest_transaction: row.oldest, next_transaction: row.next, parked: row.parked };
        let (Some(bucket), Some(event_id), Some(shard)) = (row.bucket, row.event_id, row.shard) else {
            continue;
        };
        events.push(Event {
            place: Place { bucket, event_id, shard },
            msg_key: row.msg_key.unwrap_or_default(),
            kind: row.kind.unwrap_or_default(),
            aggregate_id: row.aggregate_id.unwrap_or_default(),
            partition_key: row.partition_key.unwrap_or_default(),
            payload: row.payload,
            payload_bytes: row.payload_bytes.unwrap_or_default(),
            traceparent: row.traceparent,
            created_at: row.created_at.unwrap_or(OffsetDateTime::UNIX_EPOCH),
        });
    }
    Ok((snapshot, events))
}

/// Takes rows out of the queue that the broker has acknowledged. Each of them must be there: a row that is not was taken by
/// somebody who works on the same shard.
pub(crate) async fn delete(connection: &mut PgConnection, places: &[Place]) -> Result<(), Error> {
    if places.is_empty() {
        return Ok(());
    }
    let (shards, ids, buckets) = columns(places.iter());
    let deleted = within(
        sqlx::query!(
            "DELETE FROM outbox AS o
             USING UNNEST($1::SMALLINT[], $2::BIGINT[], $3::SMALLINT[]) AS d (shard, event_id, bucket)
             WHERE o.shard = d.shard AND o.event_id = d.event_id AND o.bucket = d.bucket",
            &shards,
            &ids,
            &buckets
        )
        .execute(connection),
    )
    .await?;
    all(places.len(), deleted.rows_affected())
}

/// An event to be parked, and why.
#[derive(Debug, Clone)]
pub(crate) struct Parked {
    pub(crate) place: Place,
    pub(crate) partition_key: String,
    pub(crate) error: String,
    pub(crate) tries: i32,
}

/// Moves rows from the queue to the parked ones, in one statement.
pub(crate) async fn park(connection: &mut PgConnection, parked: &[Parked]) -> Result<(), Error> {
    if parked.is_empty() {
        return Ok(());
    }
    let (shards, ids, buckets) = columns(parked.iter().map(|p| &p.place));
    let moved = within(
        sqlx::query!(
            "WITH gone AS (
                 DELETE FROM outbox AS o
                 USING UNNEST($1::SMALLINT[], $2::BIGINT[], $3::SMALLINT[], $4::TEXT[], $5::TEXT[], $6::INTEGER[])
                       AS d (shard, event_id, bucket, partition_key, error, tries)
                 WHERE o.shard = d.shard AND o.event_id = d.event_id AND o.bucket = d.bucket
                 RETURNING o.bucket, o.event_id, o.shard, d.partition_key, d.error, d.tries)
             INSERT INTO outbox_parked (bucket, event_id, shard, partition_key, error, tries)
             SELECT bucket, event_id, shard, partition_key, error, tries FROM gone
             ON CONFLICT ON CONSTRAINT pk_outbox_parked DO NOTHING",
            &shards,
            &ids,
            &buckets,
            &parked.iter().map(|p| p.partition_key.clone()).collect::<Vec<_>>(),
            &parked.iter().map(|p| p.error.clone()).collect::<Vec<_>>(),
            &parked.iter().map(|p| p.tries).collect::<Vec<_>>()
        )
        .execute(connection),
    )
    .await?;
    all(parked.len(), moved.rows_affected())
}

fn columns<'a>(places: impl Iterator<Item = &'a Place>) -> (Vec<i16>, Vec<i64>, Vec<i16>) {
    let (mut shards, mut ids, mut buckets) = (Vec::new(), Vec::new(), Vec::new());
    for place in places {
        shards.push(place.shard);
        ids.push(place.event_id);
        buckets.push(place.bucket);
    }
    (shards, ids, buckets)
}

fn all(sent: usize, affected: u64) -> Result<(), Error> {
    let missing = sent.saturating_sub(usize::try_from(affected).unwrap_or(usize::MAX));
    if missing == 0 { Ok(()) } else { Err(Error::TakenByOthers { sent, missing }) }
}
