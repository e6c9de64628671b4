//! How long to wait before the next round: almost nothing while events come, next to nothing when idle, longer and longer
//! when things fail.

use std::time::Duration;

/// First pause after an empty look; a fresh event leaves within it.
const IDLE_MIN: Duration = Duration::from_millis(2);
/// Longest pause of an idle relay: 40 cheap queries a second, and the price of the first event after a quiet time.
const IDLE_MAX: Duration = Duration::from_millis(25);
/// First pause after a failure.
const FAILED_MIN: Duration = Duration::from_millis(100);
/// Longest pause after failures: how late the first event may be after an outage.
const FAILED_MAX: Duration = Duration::from_secs(5);
/// Pause of a copy that owns nothing; it is how soon it takes over.
const STANDBY: Duration = Duration::from_millis(250);

/// What the last round was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Something was published or parked; there may be more.
    Some,
    /// There was nothing to do.
    Nothing,
    /// There was something to do, and nothing of it succeeded.
    Failed,
    /// Other copies own everything.
    Standby,
}

/// Remembers the pauses.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    idle: Option<Duration>,
    failed: Option<Duration>,
}

impl Pace {
    /// The pause after a round with this progress; `None`: go on at once.
    pub(crate) fn after(&mut self, progress: Progress) -> Option<Duration> {
        match progress {
            Progress::Some => {
                *self = Self::default();
                None
            }
            Progress::Nothing => {
                self.failed = None;
                grow(&mut self.idle, IDLE_MIN, IDLE_MAX)
            }
            Progress::Failed => grow(&mut self.failed, FAILED_MIN, FAILED_MAX),
            Progress::Standby => Some(STANDBY),
        }
    }
}

fn grow(pause: &mut Option<Duration>, min: Duration, max: Duration) -> Option<Duration> {
    *pause = Some(pause.map_or(min, |pause| pause.saturating_mul(2).min(max)));
    *pause
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_limit_and_success_forgets_them() {
        let mut pace = Pace::default();
        let idle: Vec<_> = (0..5).map(|_| pace.after(Progress::Nothing).unwrap().as_millis()).collect();
        assert_eq!(idle, [2, 4, 8, 16, 25]);
        let failed: Vec<_> = (0..8).map(|_| pace.after(Progress::Failed).unwrap().as_millis()).collect();
        assert_eq!(failed, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(pace.after(Progress::Some), None);
        assert_eq!(pace.after(Progress::Failed), Some(FAILED_MIN));
        assert_eq!(pace.after(Progress::Nothing), Some(IDLE_MIN));
    }
}
