//! Work that waits for its time: payments that happen by themselves and notices, the unanswered ones again and again. One
//! queue and a bounded number of hands; no notice has a task of its own while it waits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use channel::Account;
use futures::StreamExt as _;
use service_kit::CancellationToken;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::app::Simulator;
use crate::book::Kind;
use crate::control_types::{PayOptions, Signature};
use crate::message::Message;
use crate::plan::Lie;

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
    pub(crate) account: Arc<Account>,
    pub(crate) url: reqwest::Url,
    pub(crate) body: Bytes,
    pub(crate) kind: Kind,
    /// The order it is counted for.
    pub(crate) pay_no: String,
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
        pay_no: String,
    },
    /// The money of a refund arrives, or does not.
    Refund {
        refund_no: String,
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
                Work::Pay { pay_no } => simulator.auto_pay(&pay_no),
                Work::Refund { refund_no } => simulator.finish_refund(&refund_no),
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
    // A repeat is signed anew: it must be inside the receiver's window. Its copies are the same bytes.
    let mut message = Message::new(Arc::clone(&parcel.account), parcel.url.clone(), parcel.body.clone(), at);
    if parcel.kind == Kind::Lie(Lie::BadSignature) {
        message.signature = Signature::Wrong;
    }
    let answers: Vec<_> = futures::stream::iter(0..parcel.copies)
        .map(|_| message.send(&simulator.http))
        .buffer_unordered(COPIES_AT_ONCE_MAX)
        .collect()
        .await;
    let acked = answers.iter().filter(|answer| answer.is_acked()).count();
    let acked = u64::try_from(acked).unwrap_or(u64::MAX);
    simulator.book.sent(&parcel.pay_no, parcel.kind, u64::from(parcel.copies), acked);
    parcel.tries = parcel.tries.saturating_add(1);
    let once = matches!(parcel.kind, Kind::Lie(Lie::BadSignature | Lie::StaleTimestamp));
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
        if parcel.tries >= self.retry_tries_max {
            tracing::warn!(pay.no = parcel.pay_no, "a notice is given up: no 2xx after the last try");
            self.book.count(|totals| totals.given_up = totals.given_up.saturating_add(1));
            return;
        }
        let doublings = parcel.tries.saturating_sub(1);
        let wait = self.retry_first.saturating_mul(2_u32.saturating_pow(doublings)).min(RETRY_MAX);
        self.put(wait, Work::Send(Box::new(parcel)));
    }

    fn auto_pay(&self, pay_no: &str) {
        if let Err(refused) = self.pay(pay_no, &PayOptions::default()) {
            tracing::info!(pay.no = pay_no, ?refused, "an order does not pay itself: it has ended");
        }
    }
}
