//! Tables `payment_event` and `outbox`: one event for one fact, and its place in the queue, in the caller's transaction.

use sqlx::PgConnection;
use time::OffsetDateTime;

/// An event about to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewEvent {
    pub(crate) bucket: i16,
    pub(crate) msg_key: String,
    pub(crate) pay_no: String,
    pub(crate) kind: &'static str,
    pub(crate) from_state: Option<&'static str>,
    pub(crate) to_state: Option<&'static str>,
    pub(crate) version: i64,
    pub(crate) cause: String,
    pub(crate) partition_key: String,
    pub(crate) payload: String,
    pub(crate) traceparent: Option<String>,
}

/// Appends events and queues them, in the order given. A fact that has its event already is left alone; gives how many
/// were new.
pub(crate) async fn append_in_tx(
    tx: &mut PgConnection,
    events: &[NewEvent],
    now: OffsetDateTime,
) -> Result<u64, sqlx::Error> {
    if events.is_empty() {
        return Ok(0);
    }
    let column =
        |text: fn(&NewEvent) -> &str| -> Vec<String> { events.iter().map(|e| text(e).to_owned()).collect() };
    let states = |state: fn(&NewEvent) -> Option<&'static str>| -> Vec<Option<String>> {
        events.iter().map(|e| state(e).map(str::to_owned)).collect()
    };
    let queued = sqlx::query!(
        "WITH new AS (
             INSERT INTO payment_event (bucket, msg_key, aggregate_type, aggregate_id, type, from_state, to_state,
                                        version, cause, partition_key, payload, traceparent, created_at)
             SELECT n.bucket, n.msg_key, 'payment', n.aggregate_id, n.type, n.from_state, n.to_state, n.version,
                    n.cause, n.partition_key, n.payload, n.traceparent, $12
             FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::TEXT[], $7::BIGINT[],
                         $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::TEXT[])
                  WITH ORDINALITY
                  AS n (bucket, msg_key, aggregate_id, type, from_state, to_state, version, cause, partition_key,
                        payload, traceparent, place)
             ORDER BY n.place
             ON CONFLICT DO NOTHING
             RETURNING bucket, event_id)
         INSERT INTO outbox (bucket, event_id, shard) SELECT bucket, event_id, bucket / 64 FROM new",
        &events.iter().map(|e| e.bucket).collect::<Vec<_>>(),
        &column(|e| &e.msg_key),
        &column(|e| &e.pay_no),
        &column(|e| e.kind),
        &states(|e| e.from_state) as _,
        &states(|e| e.to_state) as _,
        &events.iter().map(|e| e.version).collect::<Vec<_>>(),
        &column(|e| &e.cause),
        &column(|e| &e.partition_key),
        &column(|e| &e.payload),
        &events.iter().map(|e| e.traceparent.clone()).collect::<Vec<_>>() as _,
        now
    )
    .execute(tx)
    .await?;
    Ok(queued.rows_affected())
}
