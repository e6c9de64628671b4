//! First answers by idempotency key: repeated as they were, for as long as the simulator runs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// Most answers that are kept, about two kilobytes each; the oldest go first, as Stripe's do after a day.
const ANSWERS_MAX: usize = 100_000;

/// Longest that a call may run before its key is answered for; its work waits for nothing, so this is never met.
const RUN_MAX: Duration = Duration::from_secs(3_600);

/// An account, and a key of its caller's making.
pub(super) type Key = (String, String);

#[derive(Debug, Clone)]
struct First {
    /// Path and parameters.
    asked: String,
    status: u16,
    body: Bytes,
    /// Until then the first call is still running.
    answered: Instant,
}

/// What is known of a key.
#[derive(Debug)]
pub(super) enum Known {
    /// Never seen.
    Not,
    /// Answered before.
    Answered(u16, Bytes),
    /// Being answered.
    Running,
    /// Used for something else.
    OtherParameters,
}

/// The store.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<(HashMap<Key, First>, VecDeque<Key>)>);

impl Answers {
    /// Begins a call under a key: whoever is first has it until it keeps an answer or forgets the key.
    pub(super) fn begin(&self, key: &Key, asked: &str) -> Known {
        let inner = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.0.get(key) {
            None => {
                let now = Instant::now();
                let answered = now.checked_add(RUN_MAX).unwrap_or(now);
                let first = First { asked: asked.to_owned(), status: 409, body: Bytes::new(), answered };
                inner.0.insert(key.clone(), first);
                Known::Not
            }
            Some(first) if first.asked != asked => Known::OtherParameters,
            Some(first) if first.answered > Instant::now() => Known::Running,
            Some(first) => Known::Answered(first.status, first.body.clone()),
        }
    }

    /// The call did not begin its work: the key is as good as new.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.remove(key);
    }

    /// Keeps an answer that is sent `wait` from now.
    pub(super) fn keep(&self, key: Key, asked: String, answer: (u16, Bytes), wait: Duration) {
        let now = Instant::now();
        let (status, body) = answer;
        let first = First { asked, status, body, answered: now.checked_add(wait).unwrap_or(now) };
        let inner = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.1.len() >= ANSWERS_MAX
            && let Some(oldest) = inner.1.pop_front()
        {
            inner.0.remove(&oldest);
        }
        inner.1.push_back(key.clone());
        inner.0.insert(key, first);
    }
}
