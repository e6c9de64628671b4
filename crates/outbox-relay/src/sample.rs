//! What waits in the outbox, told every few seconds by every copy, also by a standby: an outbox without an owner shows.

use std::time::Duration;

use service_kit::CancellationToken;
use sqlx::PgPool;

use crate::store;

/// Pause between two samples: a fraction of a metrics scrape.
const PAUSE: Duration = Duration::from_secs(5);

/// Samples until `shutdown`.
pub(crate) async fn run(pool: PgPool, shutdown: CancellationToken) {
    loop {
        match store::lag(&pool).await {
            Ok(lag) => tell(lag),
            Err(error) => tracing::debug!(%error, "the outbox could not be sampled"),
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

fn tell(lag: store::Lag) {
    let count = |rows: i64| f64::from(u32::try_from(rows).unwrap_or(u32::MAX));
    metrics::gauge!("oncepay_outbox_rows").set(count(lag.rows));
    let oldest = Duration::from_millis(u64::try_from(lag.oldest_ms).unwrap_or(0));
    metrics::gauge!("oncepay_outbox_oldest_seconds").set(oldest.as_secs_f64());
    metrics::gauge!("oncepay_outbox_parked_rows").set(count(lag.parked));
    metrics::gauge!("oncepay_outbox_held_rows").set(count(lag.held));
}
