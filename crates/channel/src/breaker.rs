//! The circuit breaker of one account: a channel that does not answer is left alone for a while.
//!
//! ```text
//! closed --- enough calls without a known outcome ---> open --- after a while, one call may try ---> half open
//!    ^                                                  ^                                             |    |
//!    |                                                  +------------- again no known outcome --------+    |
//!    +------------------------------------ any known outcome, a refusal too -------------------------------+
//! ```
//!
//! It saves the time that a caller would wait for nothing, and the channel the load that it cannot take. What it refuses
//! was surely not sent.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many calls in a row without a known outcome open the circuit: fewer happen by chance on a bad line.
pub const FAILURES_IN_A_ROW_MAX: u32 = 10;
/// So many of the last 64 calls open it too: a channel that fails every second call never fails ten in a row, and a payer
/// who waits for the half of a coin is served worse than one who is told to wait.
pub const FAILURES_OF_64_MAX: u32 = 32;
/// How long an open circuit lets nothing through. One trial every five seconds is no load, and a short outage costs no
/// payment more than that.
pub const OPEN_FOR: Duration = Duration::from_secs(5);
/// From then on a call of any kind may be the trial; before, only a query, which leaves nothing in doubt when it fails as
/// well. Without this an account that only creates would never recover.
pub const QUERIES_ONLY_FOR: Duration = Duration::from_secs(5);

/// One account's circuit.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    circuit: Circuit,
    /// Raised with every change of the circuit: a call that began before it has nothing to say about it.
    round: u64,
}

#[derive(Debug)]
enum Circuit {
    Closed(History),
    Open { since: Instant },
    HalfOpen,
}

/// The last 64 outcomes, the newest in the lowest bit; a one is a failure.
#[derive(Debug, Default)]
struct History(u64);

impl History {
    /// Whether the circuit must open.
    fn push(&mut self, failed: bool) -> bool {
        self.0 = (self.0 << 1) | u64::from(failed);
        failed
            && (self.0.trailing_ones() >= FAILURES_IN_A_ROW_MAX || self.0.count_ones() >= FAILURES_OF_64_MAX)
    }
}

/// What a change of the circuit is to be told as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Change {
    None,
    Opened,
    Closed,
}

/// Leave for one call. Dropped without an outcome, a trial counts as failed: somebody must be able to try again, and who
/// gave up waiting has seen no answer.
#[derive(Debug)]
pub(crate) struct Leave<'a> {
    breaker: &'a Breaker,
    round: u64,
    told: bool,
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { circuit: Circuit::Closed(History::default()), round: 0 }) }
    }

    /// Whether a call would be refused now; changes nothing.
    pub(crate) fn refuses(&self, is_query: bool) -> bool {
        !self.state().lets_through(is_query)
    }

    /// Leave for a call, if the circuit lets it through.
    pub(crate) fn leave(&self, is_query: bool) -> Option<Leave<'_>> {
        let mut state = self.state();
        if !state.lets_through(is_query) {
            return None;
        }
        if matches!(state.circuit, Circuit::Open { .. }) {
            state.turn(Circuit::HalfOpen);
        }
        Some(Leave { breaker: self, round: state.round, told: false })
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state().circuit, Circuit::Closed(_))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lets_through(&self, is_query: bool) -> bool {
        match self.circuit {
            Circuit::Closed(_) => true,
            Circuit::Open { since } if is_query => since.elapsed() >= OPEN_FOR,
            Circuit::Open { since } => since.elapsed() >= OPEN_FOR.saturating_add(QUERIES_ONLY_FOR),
            Circuit::HalfOpen => false,
        }
    }

    fn turn(&mut self, circuit: Circuit) {
        self.circuit = circuit;
        self.round = self.round.wrapping_add(1);
    }

    fn tell(&mut self, round: u64, failed: bool) -> Change {
        if round != self.round {
            return Change::None;
        }
        match (&mut self.circuit, failed) {
            (Circuit::Closed(history), failed) => {
                if history.push(failed) {
                    self.turn(Circuit::Open { since: Instant::now() });
                    return Change::Opened;
                }
                Change::None
            }
            (Circuit::HalfOpen, true) => {
                self.turn(Circuit::Open { since: Instant::now() });
                Change::None
            }
            (Circuit::HalfOpen, false) => {
                self.turn(Circuit::Closed(History::default()));
                Change::Closed
            }
            // No call has leave of this round.
            (Circuit::Open { .. }, _) => Change::None,
        }
    }
}

impl Leave<'_> {
    /// Says how the call ended: `failed` when its outcome is not known.
    pub(crate) fn tell(mut self, failed: bool) -> Change {
        self.told = true;
        let mut state = self.breaker.state();
        state.tell(self.round, failed)
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        let mut state = self.breaker.state();
        // Of a call of a closed circuit nothing is said: callers leave for reasons of their own.
        if state.round == self.round && matches!(state.circuit, Circuit::HalfOpen) {
            state.turn(Circuit::Open { since: Instant::now() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &Breaker, times: u32) -> Change {
        (0..times).map(|_| breaker.leave(false).unwrap().tell(true)).last().unwrap()
    }

    fn open() -> Breaker {
        let breaker = Breaker::new();
        assert_eq!(fail(&breaker, FAILURES_IN_A_ROW_MAX - 1), Change::None);
        assert!(breaker.is_closed());
        assert_eq!(fail(&breaker, 1), Change::Opened);
        breaker
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_open_it_and_one_success_between_them_does_not() {
        let breaker = open();
        assert!(breaker.refuses(true) && breaker.leave(true).is_none());
        let breaker = Breaker::new();
        for _ in 0..3 {
            assert_eq!(fail(&breaker, FAILURES_IN_A_ROW_MAX - 1), Change::None);
            assert_eq!(breaker.leave(false).unwrap().tell(false), Change::None);
        }
        assert!(breaker.is_closed());
    }

    /// A channel that fails every second call never fails ten in a row.
    #[tokio::test(start_paused = true)]
    async fn half_of_the_last_64_open_it_too() {
        let breaker = Breaker::new();
        for _ in 0..31 {
            assert_eq!(fail(&breaker, 1), Change::None);
            assert_eq!(breaker.leave(false).unwrap().tell(false), Change::None);
        }
        assert_eq!(fail(&breaker, 1), Change::Opened);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_while_one_query_may_try_and_later_any_call() {
        let breaker = open();
        tokio::time::advance(OPEN_FOR).await;
        assert!(breaker.leave(false).is_none(), "a create waits for a query to try");
        let trial = breaker.leave(true).unwrap();
        assert!(breaker.leave(true).is_none(), "one at a time");
        assert_eq!(trial.tell(true), Change::None);
        assert!(breaker.leave(true).is_none(), "the wait begins anew");
        tokio::time::advance(OPEN_FOR + QUERIES_ONLY_FOR).await;
        assert_eq!(breaker.leave(false).unwrap().tell(false), Change::Closed);
        assert_eq!(fail(&breaker, FAILURES_IN_A_ROW_MAX - 1), Change::None, "the history begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_that_is_given_up_lets_another_one_try() {
        let breaker = open();
        tokio::time::advance(OPEN_FOR).await;
        drop(breaker.leave(true).unwrap());
        assert!(breaker.leave(true).is_none());
        tokio::time::advance(OPEN_FOR).await;
        assert_eq!(breaker.leave(true).unwrap().tell(false), Change::Closed);
    }

    /// A slow failure of before says nothing about a channel that has recovered since, nor a late success about one that
    /// has not. Fails without the round.
    #[tokio::test(start_paused = true)]
    async fn a_call_of_an_earlier_round_has_nothing_to_say() {
        let breaker = Breaker::new();
        let (late, later) = (breaker.leave(false).unwrap(), breaker.leave(false).unwrap());
        assert_eq!(fail(&breaker, FAILURES_IN_A_ROW_MAX), Change::Opened);
        tokio::time::advance(OPEN_FOR).await;
        let trial = breaker.leave(true).unwrap();
        assert_eq!(late.tell(false), Change::None);
        assert!(!breaker.is_closed());
        assert_eq!(trial.tell(false), Change::Closed);
        assert_eq!(later.tell(true), Change::None);
    }
}
