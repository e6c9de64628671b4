//! Running a transaction from its inputs, again where the database asks for it.

use std::future::Future;

use service_kit::pg::CONFLICT_TRIES_MAX;

use crate::Error;

/// Runs `work` until it succeeds, fails for good, or has been run [`CONFLICT_TRIES_MAX`] times. `work` begins and commits
/// its own transaction and takes nothing from an earlier run.
pub(crate) async fn run<T, F, Fut>(name: &'static str, mut work: F) -> Result<T, Error>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, Error>>,
{
    for _ in 1..CONFLICT_TRIES_MAX {
        match work().await {
            Err(error) if error.asks_for_another_run() => {
                metrics::counter!("oncepay_transaction_reruns_total", "transaction" => name).increment(1);
                tracing::debug!(transaction = name, %error, "a transaction is run again");
            }
            done => return done,
        }
    }
    work().await
}
