//! Two gauges that must be zero: the trial balance's difference, and the messages that wait for a person.

use std::time::Duration;

use ledger::store::report::{Error, health};
use service_kit::CancellationToken;
use sqlx::PgPool;

/// Pause between two looks: within one scrape of the metrics, and two cheap statements each.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks until `shutdown`. A look that fails leaves the gauges as they were; `/readyz` tells why.
pub(crate) async fn run(pool: PgPool, shutdown: CancellationToken) {
    loop {
        if let Err(error) = look(&pool).await {
            tracing::debug!(%error, "the books could not be looked at");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

async fn look(pool: &PgPool) -> Result<(), Error> {
    let mut connection = pool.acquire().await?;
    for (currency, difference) in health::differences(&mut connection).await? {
        if difference != 0 {
            tracing::error!(currency, difference, "debits and credits of the running totals differ");
        }
        // A gauge is a float: what does not fit is shown as its largest, and is wrong all the same.
        let shown = i32::try_from(difference).unwrap_or(if difference < 0 { i32::MIN } else { i32::MAX });
        metrics::gauge!("oncepay_trial_balance_difference", "currency" => currency).set(shown);
    }
    let parked = u32::try_from(health::parked(&mut connection).await?).unwrap_or(u32::MAX);
    metrics::gauge!("oncepay_parked_messages").set(parked);
    Ok(())
}
