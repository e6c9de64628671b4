//! Work that waits for its time: payments that happen by themselves and notices, the unanswered ones again and again. One
//! queue and a bounded number of hands; no notice has a task of its own while it waits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use service_kit::CancellationToken;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::app::Simulator;
use crate::book::Kind;
use crate::control_types::{PayOptions, Signature};
use crate::fate::Lie;
use crate::letter::{Letter, post_copies};

/// Work that may wait; about a kilobyte each. Beyond it work is dropped and counted, which a run sees as a failure.
const QUEUED_MAX: usize = 200_000;
/// Work in hand at once: enough to keep a receiver busy, and below what its own limit refuses.
const IN_HAND_MAX: u32 = 64;
/// Copies of one notice on their way at once.
const COPIES_AT_ONCE_MAX: usize = 16;
/// Longest wait between two tries.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// How far in the past a stale notice is signed: an hour, far outside every window.
const STALE: time::Duration = time::Duration::HOUR;

/// A notice that is sent until it is acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    pub(crate) letter: Letter,
    pub(crate) url: reqwest::Url,
    pub(crate) kind: Kind,
    /// The order it is counted for, by its key.
    pub(crate) key: String,
    pub(crate) copies: u32,
    /// Tries that were made, a lost first one included.
    pub(crate) tries: u32,
    /// Sent once this one is acknowledged.
    pub(crate) then: Option<Box<Parcel>>,
}

/// Something to do at its time.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Pay {
        key: String,
    },
    /// The money of a refund arrives, or does not.
    Refund {
        key: String,
    },
    /// The money of a refund that had arrived comes back.
    Return {
        key: String,
    },
    Send(Box<Parcel>),
}

#[derive(Debug)]
struct Entry {
    due: Instant,
    sequence: u64,
    work: Work,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.sequence) == (other.due, other.sequence)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.sequence).cmp(&(other.due, other.sequence))
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: BinaryHeap<Reverse<Entry>>,
    in_hand: u64,
    sequence: u64,
}

/// What waits.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts work in for later; false when the queue is full.
    #[must_use]
    pub(crate) fn put(&self, after: Duration, work: Work) -> bool {
        let mut state = self.lock();
        if state.waiting.len() >= QUEUED_MAX {
            return false;
        }
        let now = Instant::now();
        state.sequence = state.sequence.saturating_add(1);
        let entry = Entry { due: now.checked_add(after).unwrap_or(now), sequence: state.sequence, work };
        state.waiting.push(Reverse(entry));
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Work that waits or is in hand.
    pub(crate) fn pending(&self) -> u64 {
        let state = self.lock();
        u64::try_from(state.waiting.len()).unwrap_or(u64::MAX).saturating_add(state.in_hand)
    }

    /// The next work whose time has come, now in hand; else when to look again.
    fn take(&self) -> Result<Work, Option<Instant>> {
        let mut state = self.lock();
        let due = state.waiting.peek().map(|Reverse(entry)| entry.due);
        if due.is_some_and(|due| due <= Instant::now())
            && let Some(Reverse(entry)) = state.waiting.pop()
        {
            state.in_hand = state.in_hand.saturating_add(1);
            return Ok(entry.work);
        }
        Err(due)
    }

    async fn next(&self) -> Work {
        loop {
            match self.take() {
                Ok(work) => return work,
                Err(Some(due)) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(due) => {}
                        () = self.changed.notified() => {}
                    }
                }
                Err(None) => self.changed.notified().await,
            }
        }
    }

    fn done(&self) {
        let mut state = self.lock();
        state.in_hand = state.in_hand.saturating_sub(1);
    }
}

/// Does the queue's work until `shutdown`, then finishes what is in hand. What still waits is forgotten.
pub(crate) async fn run(simulator: Arc<Simulator>, shutdown: CancellationToken) {
    let hands = Arc::new(Semaphore::new(usize::try_from(IN_HAND_MAX).unwrap_or(1)));
    loop {
        let next = async {
            // The hand first: work that was taken is always done.
            let hand = Arc::clone(&hands).acquire_owned().await;
            (hand, simulator.queue.next().await)
        };
        let (hand, work) = tokio::select! {
            () = shutdown.cancelled() => break,
            next = next => next,
        };
        let simulator = Arc::clone(&simulator);
        service_kit::task::spawn("channel_simulator.work", async move {
            let _hand = hand;
            match work {
                Work::Pay { key } => simulator.auto_pay(&key),
                Work::Refund { key } => simulator.finish_refund(&key),
                Work::Return { key } => simulator.return_refund(&key),
                Work::Send(parcel) => deliver(&simulator, *parcel).await,
            }
            simulator.queue.done();
        });
    }
    let _all = hands.acquire_many(IN_HAND_MAX).await;
}

/// One try of a notice, and what follows from its answers.
async fn deliver(simulator: &Simulator, mut parcel: Parcel) {
    let now = simulator.clock.now();
    let at = if parcel.kind == Kind::Lie(Lie::StaleTimestamp) { now.saturating_sub(STALE) } else { now };
    let signature = match parcel.kind {
        Kind::Lie(Lie::BadSignature) => Signature::Wrong,
        Kind::Lie(Lie::ProbeSignature) => Signature::Probe,
        Kind::Genuine | Kind::ClosedAfterPaid | Kind::Refund | Kind::Lie(_) => Signature::Valid,
    };
    // A repeat is signed anew: it must be inside the receiver's window. Its copies are the same bytes.
    let sealed = parcel.letter.seal(&parcel.url, at, signature);
    let answers = post_copies(&simulator.http, &parcel.url, &sealed, parcel.copies, COPIES_AT_ONCE_MAX).await;
    let acked = answers.iter().filter(|answer| parcel.letter.is_acked(answer)).count();
    let acked = u64::try_from(acked).unwrap_or(u64::MAX);
    simulator.book.sent(&parcel.key, parcel.kind, u64::from(parcel.copies), acked);
    parcel.tries = parcel.tries.saturating_add(1);
    let once = matches!(parcel.kind, Kind::Lie(lie) if lie.is_told_once());
    if acked > 0 {
        if let Some(then) = parcel.then.take() {
            simulator.put(Duration::ZERO, Work::Send(then));
        }
    } else if !once {
        simulator.again(parcel);
    }
}

impl Simulator {
    /// Puts work into the queue; counts what finds no place.
    pub(crate) fn put(&self, after: Duration, work: Work) {
        if !self.queue.put(after, work) {
            tracing::error!("the queue of notices is full: one is dropped");
            self.book.count(|totals| totals.dropped = totals.dropped.saturating_add(1));
        }
    }

    /// Puts a notice in for its next try, or gives it up.
    pub(crate) fn again(&self, parcel: Parcel) {
        let Some(wait) = parcel.letter.wait(parcel.tries, self.retry_first, self.retry_tries_max) else {
            tracing::warn!(order.key = parcel.key, "a notice is given up: it was not taken by the last try");
            self.book.count(|totals| totals.given_up = totals.given_up.saturating_add(1));
            return;
        };
        self.put(wait.min(RETRY_MAX), Work::Send(Box::new(parcel)));
    }

    fn auto_pay(&self, key: &str) {
        if let Err(refused) = self.pay(key, &PayOptions::default()) {
            tracing::info!(order.key = key, ?refused, "an order does not pay itself: it has ended");
        }
    }
}
