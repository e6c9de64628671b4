//! Waiting for a condition, never for a time.

use std::time::Duration;

use tokio::time::Instant;

/// Longest wait: far beyond what anything takes on a busy two-core machine, so that only a real fault reaches it.
pub const WAIT_MAX: Duration = Duration::from_secs(30);
/// First pause between two looks; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// What a look at a condition gives: `bool`, or an `Option` with what was waited for.
pub trait Seen {
    type Value;
    fn seen(self) -> Option<Self::Value>;
}

impl Seen for bool {
    type Value = ();
    fn seen(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Seen for Option<T> {
    type Value = T;
    fn seen(self) -> Self {
        self
    }
}

/// Looks until the condition holds.
///
/// # Panics
/// After [`WAIT_MAX`], with `what`.
pub async fn wait_for<S: Seen>(what: &str, mut look: impl AsyncFnMut() -> S) -> S::Value {
    let started = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        if let Some(value) = look().await.seen() {
            return value;
        }
        assert!(started.elapsed() < WAIT_MAX, "waited {WAIT_MAX:?} in vain for: {what}");
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(PAUSE_MAX);
    }
}
