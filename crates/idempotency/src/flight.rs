//! Gate 2, single flight. The hole: many identical calls in one process, all doing the same work.
//!
//! The first call with a key runs the work in a task of its own; calls that come while it runs wait for its answer. The
//! work is not tied to the call that began it: a caller that goes away harms nobody. A panic in the work is told to
//! those who wait as [`Lost`], and the key is free again.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Flights at one time in one process: above the calls that a service admits, so it is only met when work hangs.
const FLIGHTS_MAX: usize = 20_000;

/// The work ended without an answer, or too many flights are under way. Nothing is known about its effect; ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shared call ended without an answer")]
pub struct Lost;

/// An answer, and whether this call's work made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shared<G, T> {
    Led(T),
    /// Another call's answer, with what that call was for.
    Followed(G, T),
}

type Waiting<T> = watch::Receiver<Option<T>>;
/// What each call was for, and where its answer will be.
type UnderWay<K, G, T> = Arc<Mutex<HashMap<K, (G, Waiting<T>)>>>;

/// Calls under way, by key. `G` tells calls with one key apart: what exactly was asked.
#[derive(Debug)]
pub struct Flight<K, G, T> {
    under_way: UnderWay<K, G, T>,
}

impl<K, G, T> Default for Flight<K, G, T> {
    fn default() -> Self {
        Self { under_way: Arc::default() }
    }
}

impl<K, G, T> Flight<K, G, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    G: Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Runs `work` under `key`, or waits for the call that runs already.
    ///
    /// # Errors
    /// [`Lost`] when that work panicked, or when too many keys are under way.
    pub async fn share<F>(&self, key: K, asked: G, work: F) -> Result<Shared<G, T>, Lost>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (leader, mut waiting) = self.board(key, asked, work)?;
        let answer = waiting.wait_for(Option::is_some).await.map_err(|_| Lost)?.clone().ok_or(Lost)?;
        Ok(match leader {
            None => Shared::Led(answer),
            Some(asked) => Shared::Followed(asked, answer),
        })
    }

    fn board<F>(&self, key: K, asked: G, work: F) -> Result<(Option<G>, Waiting<T>), Lost>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((leader, waiting)) = under_way.get(&key) {
            return Ok((Some(leader.clone()), waiting.clone()));
        }
        if under_way.len() >= FLIGHTS_MAX {
            return Err(Lost);
        }
        let (answer, waiting) = watch::channel(None);
        under_way.insert(key.clone(), (asked, waiting.clone()));
        drop(under_way);
        let landing = Landing { under_way: Arc::clone(&self.under_way), key };
        service_kit::task::spawn("idempotency.flight", async move {
            let landing = landing;
            let value = work.await;
            // The key is free before the answer is told: whoever hears it and calls again starts a new flight.
            drop(landing);
            answer.send_replace(Some(value));
        });
        Ok((None, waiting))
    }

    /// What the call that is under way with this key was for; `None` when none is.
    #[must_use]
    pub fn under_way(&self, key: &K) -> Option<G> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).get(key).map(|(asked, _)| asked.clone())
    }

    /// Keys under way now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Frees the key when the work ends, also by panic.
struct Landing<K: Eq + Hash, G, T> {
    under_way: UnderWay<K, G, T>,
    key: K,
}

impl<K: Eq + Hash, G, T> Drop for Landing<K, G, T> {
    fn drop(&mut self) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn calls_with_one_key_share_one_execution() {
        let flight = Arc::new(Flight::<&str, (), usize>::default());
        let (runs, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let work = |runs: &Arc<AtomicUsize>, gate: &Arc<Semaphore>| {
            let (runs, gate) = (Arc::clone(runs), Arc::clone(gate));
            async move {
                gate.acquire().await.unwrap().forget();
                runs.fetch_add(1, Ordering::SeqCst)
            }
        };
        let calls: Vec<_> = (0..50)
            .map(|_| {
                let (flight, work) = (Arc::clone(&flight), work(&runs, &gate));
                service_kit::task::spawn("call", async move { flight.share("k", (), work).await })
            })
            .collect();
        while flight.is_empty() {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(50);
        let mut led = 0;
        for call in calls {
            match call.await.unwrap().unwrap().unwrap() {
                Shared::Led(0) => led += 1,
                Shared::Followed((), 0) => {}
                other @ (Shared::Led(_) | Shared::Followed(..)) => panic!("{other:?}"),
            }
        }
        assert_eq!((led, runs.load(Ordering::SeqCst)), (1, 1));
        assert!(flight.is_empty());
    }

    #[tokio::test]
    async fn a_leader_that_goes_away_harms_no_follower() {
        let flight = Arc::new(Flight::<&str, (), usize>::default());
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let leader = flight.share("k", (), async move {
            held.acquire().await.unwrap().forget();
            7
        });
        let mut leader = Box::pin(leader);
        let mut follower = Box::pin(flight.share("k", (), async { 8 }));
        assert!(poll_once(&mut leader).await.is_none());
        assert!(poll_once(&mut follower).await.is_none());
        drop(leader);
        gate.add_permits(1);
        assert_eq!(follower.await, Ok(Shared::Followed((), 7)));
    }

    #[tokio::test]
    async fn a_panic_frees_the_key_and_is_told() {
        let flight = Flight::<&str, (), usize>::default();
        assert_eq!(flight.share("k", (), async { panic!("boom") }).await, Err(Lost));
        assert!(flight.is_empty());
        assert_eq!(flight.share("k", (), async { 1 }).await, Ok(Shared::Led(1)));
    }

    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = std::future::ready(()) => None,
        }
    }
}
