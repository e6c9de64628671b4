//! The only wall clock. Tests set it; nothing else may read the system's.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use time::OffsetDateTime;

/// A clock that is cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    fixed_micros: Option<Arc<AtomicI64>>,
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that stands still until it is set; for tests.
    #[must_use]
    pub fn fixed(at: OffsetDateTime) -> Self {
        Self { fixed_micros: Some(Arc::new(AtomicI64::new(micros(at)))) }
    }

    /// Sets a fixed clock; the machine's clock is left alone.
    pub fn set(&self, at: OffsetDateTime) {
        if let Some(fixed) = &self.fixed_micros {
            fixed.store(micros(at), Ordering::SeqCst);
        }
    }

    /// Now, in whole microseconds: what PostgreSQL keeps.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        let micros = match &self.fixed_micros {
            Some(fixed) => fixed.load(Ordering::SeqCst),
            #[expect(clippy::disallowed_methods, reason = "this is the clock")]
            None => micros(OffsetDateTime::now_utc()),
        };
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros).saturating_mul(1000))
            .expect("a microsecond count of 64 bits is a valid time")
    }

    /// Unix milliseconds now; zero before 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(micros(self.now()).checked_div(1000).unwrap_or(0)).unwrap_or(0)
    }
}

fn micros(at: OffsetDateTime) -> i64 {
    at.unix_timestamp_nanos().checked_div(1000).and_then(|m| i64::try_from(m).ok()).unwrap_or(0)
}
