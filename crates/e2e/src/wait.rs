//! Waiting that may be in vain: where a gate is off or a fault is on, what was waited for may never come.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Pause between two looks: a look is a query, and a condition comes true within tens of milliseconds.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until the condition holds, at most for `limit`; whether it did.
pub(crate) async fn holds_within(limit: Duration, mut look: impl AsyncFnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if look().await {
            return true;
        }
        if started.elapsed() >= limit {
            return false;
        }
        sleep(PAUSE).await;
    }
}
