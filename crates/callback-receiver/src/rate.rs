//! How often something may happen: a bucket of tokens, filled at a steady rate.

use std::time::Duration;

use tokio::time::Instant;

/// A bucket of at most `burst` tokens that gains one each `interval`.
#[derive(Debug)]
pub(crate) struct Rate {
    burst: u32,
    interval: Duration,
    tokens: u32,
    filled_at: Instant,
}

impl Rate {
    /// A full bucket.
    pub(crate) fn new(burst: u32, interval: Duration, now: Instant) -> Self {
        Self { burst, interval, tokens: burst, filled_at: now }
    }

    /// Takes a token; false when there is none.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled_at).as_nanos();
        let gained = passed.checked_div(self.interval.as_nanos()).unwrap_or(0);
        let gained = u32::try_from(gained).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_add(gained);
        if self.tokens >= self.burst {
            self.tokens = self.burst;
            self.filled_at = now;
        } else if let Some(filled_at) = self.filled_at.checked_add(self.interval.saturating_mul(gained)) {
            // What is left of an interval counts towards the next token.
            self.filled_at = filled_at;
        }
        match self.tokens.checked_sub(1) {
            Some(tokens) => {
                self.tokens = tokens;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_taken_at_once_and_then_the_rate_holds() {
        let start = Instant::now();
        let at = |ms: u64| start.checked_add(Duration::from_millis(ms)).unwrap();
        let mut rate = Rate::new(3, Duration::from_millis(10), start);
        let taken = |rate: &mut Rate, ms: u64| (0..10).filter(|_| rate.take(at(ms))).count();
        assert_eq!(taken(&mut rate, 0), 3);
        assert_eq!(taken(&mut rate, 9), 0);
        assert_eq!(taken(&mut rate, 10), 1);
        assert_eq!(taken(&mut rate, 25), 1);
        assert_eq!(taken(&mut rate, 30), 1, "the half interval before counts");
        assert_eq!(taken(&mut rate, 1_000_000), 3, "never more than the burst");
        assert_eq!(taken(&mut rate, 0), 0, "time never runs back");
    }
}
