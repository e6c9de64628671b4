//! Gate 3, the lease.

use std::time::Duration;

use idempotency::lease::{Acquired, Lease, Leases};
use test_kit::{PrivateRedis, redis_url, unique, wait_for};

fn held(acquired: Acquired) -> Lease {
    match acquired {
        Acquired::Held(lease) => lease,
        other @ (Acquired::Busy { .. } | Acquired::Open) => panic!("expected the lease, got {other:?}"),
    }
}

/// Fails when `NX` is left out of the command.
#[tokio::test]
async fn one_owner_at_a_time_and_the_other_hears_the_note() {
    let (a, b) = (Leases::new(&redis_url()).unwrap(), Leases::new(&redis_url()).unwrap());
    let key = unique("lease");
    let lease = held(a.acquire(&key, "first").await);
    match b.acquire(&key, "second").await {
        Acquired::Busy { note } => assert_eq!(note, "first"),
        other @ (Acquired::Held(_) | Acquired::Open) => panic!("{other:?}"),
    }
    lease.release().await;
    held(b.acquire(&key, "second").await).release().await;
}

/// A stalls until its lease has ended, B takes it; A's release must not free B's lease. Fails when the release is a plain
/// `DEL` instead of compare-and-delete.
#[tokio::test]
async fn a_late_release_leaves_the_new_owners_lease_alone() {
    let mut redis = PrivateRedis::start().await;
    let (a, b) = (Leases::new(&redis.url()).unwrap(), Leases::new(&redis.url()).unwrap());
    let stalled = held(a.acquire("k", "a").await);
    // Redis forgets everything: for A the same as a stall beyond the life of its lease.
    redis.restart().await;
    let owner = wait_for("B to take the lease", || async {
        match b.acquire("k", "b").await {
            Acquired::Held(lease) => Some(lease),
            Acquired::Busy { .. } | Acquired::Open => None,
        }
    })
    .await;
    stalled.release().await;
    let c = Leases::new(&redis.url()).unwrap();
    assert!(matches!(c.acquire("k", "c").await, Acquired::Busy { note } if note == "b"));
    owner.release().await;
}

/// Fails when renewal is removed: a lease of 300 ms would end while it is held.
#[tokio::test]
async fn a_held_lease_outlives_its_first_life() {
    let leases = Leases::new(&redis_url()).unwrap().with_life(Duration::from_millis(300));
    let key = unique("lease");
    let lease = held(leases.acquire(&key, "a").await);
    let other = Leases::new(&redis_url()).unwrap();
    let started = std::time::Instant::now();
    wait_for("three lives to pass", || async {
        assert!(
            matches!(other.acquire(&key, "b").await, Acquired::Busy { .. }),
            "the lease ended while it was held"
        );
        started.elapsed() > Duration::from_millis(900)
    })
    .await;
    lease.release().await;
}

/// Fails when a lost lease is not told to its owner.
#[tokio::test]
async fn a_lease_that_is_forgotten_is_told_to_its_owner() {
    let mut redis = PrivateRedis::start().await;
    let leases = Leases::new(&redis.url()).unwrap().with_life(Duration::from_millis(300));
    let lease = held(leases.acquire("k", "a").await);
    redis.restart().await;
    tokio::time::timeout(Duration::from_secs(10), lease.lost()).await.unwrap();
}

/// Redis down, and Redis that hangs: the gate stands open within a bounded wait. Fails when an error refuses the caller, or when
/// both waits are long (`ANSWER_MAX`): the one of the pool and the one around it. Either alone holds.
#[tokio::test]
async fn without_redis_the_gate_stands_open() {
    let mut redis = PrivateRedis::start().await;
    let leases = Leases::new(&redis.url()).unwrap();
    redis.stop();
    let asked = tokio::time::timeout(Duration::from_secs(5), leases.acquire("k", "a")).await.unwrap();
    assert!(matches!(asked, Acquired::Open));
    redis.resume();
    redis.kill();
    let asked = tokio::time::timeout(Duration::from_secs(5), leases.acquire("k", "a")).await.unwrap();
    assert!(matches!(asked, Acquired::Open));
    redis.restart().await;
    wait_for("leases to be given again", || async {
        matches!(leases.acquire("k", "a").await, Acquired::Held(_))
    })
    .await;
}
