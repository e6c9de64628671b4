use service_kit::CancellationToken;
use test_kit::wait_for;

use crate::stage::{Stage, first_seen};

/// Owners of shards: the number of locks, and the backends that hold them.
async fn owners(stage: &Stage) -> (usize, Vec<i32>) {
    let held: Vec<(i64, i32)> = sqlx::query_as(
        "SELECT objid::BIGINT, pid FROM pg_locks
         WHERE locktype = 'advisory' AND granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    .fetch_all(stage.db.pool())
    .await
    .unwrap();
    let shards: std::collections::BTreeSet<_> = held.iter().map(|(shard, _)| *shard).collect();
    assert_eq!(shards.len(), held.len(), "a shard has two owners: {held:?}");
    let mut backends: Vec<_> = held.iter().map(|(_, pid)| *pid).collect();
    backends.sort_unstable();
    backends.dedup();
    (held.len(), backends)
}

/// Ends the connections of all owners.
pub(crate) async fn terminate_owners(stage: &Stage) {
    let (_, backends) = owners(stage).await;
    for backend in backends {
        sqlx::query("SELECT pg_terminate_backend($1)").bind(backend).execute(stage.db.pool()).await.unwrap();
    }
}

/// Two copies: each shard has one owner at any time. The owner's connection is cut again and again while events come: a
/// copy takes over within moments, nothing is lost, and no order's events are reordered. Fails when the locks are not held on
/// the connection that works (both work), or when a batch is not sent in waves.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_relays_one_owns_each_shard_and_the_other_takes_over() {
    const EVENTS: usize = 800;
    let stage = Stage::new().await;
    let shutdown = CancellationToken::new();
    let relays =
        ["one", "two"].map(|_| service_kit::task::spawn("relay", stage.relay().run(shutdown.clone())));
    let all_owned = "all shards to have an owner";
    for n in 0..EVENTS {
        stage.put(&format!("O{}", n % 10), &format!("K{n:04}")).await;
        if n % 100 == 50 {
            wait_for(all_owned, async || owners(&stage).await.0 == 16).await;
            terminate_owners(&stage).await;
        }
    }
    wait_for("the outbox to be empty", async || stage.count("outbox").await == 0).await;
    wait_for(all_owned, async || owners(&stage).await.0 == 16).await;
    let seen = first_seen(&stage.topic.records().await);
    assert_eq!(seen.values().map(Vec::len).sum::<usize>(), EVENTS, "lost");
    for ids in seen.values() {
        assert!(ids.is_sorted(), "reordered: {ids:?}");
    }
    shutdown.cancel();
    for relay in relays {
        relay.await.unwrap();
    }
    wait_for("the locks to go with the relays", async || owners(&stage).await.0 == 0).await;
}

/// A standby neither reads nor publishes, and takes over when the owner ends.
#[tokio::test]
async fn a_standby_does_nothing_until_the_owner_is_gone() {
    let stage = Stage::new().await;
    let (mut owner, mut standby) = (stage.relay(), stage.relay());
    assert_eq!(owner.run_once().await.unwrap().shards, 16);
    stage.put("O1", "K1").await;
    let round = standby.run_once().await.unwrap();
    assert_eq!((round.shards, round.read), (0, 0));
    assert_eq!(stage.count("outbox").await, 1);
    drop(owner);
    wait_for("the standby to take over", async || standby.run_once().await.unwrap().published == 1).await;
}
