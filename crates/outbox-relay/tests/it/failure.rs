use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outbox_relay::Error;
use service_kit::CancellationToken;
use test_kit::proxy::kafka_proxied_brokers;
use test_kit::{Proxy, wait_for};

use crate::stage::{Stage, first_seen, published};

/// The relay dies after the broker's acknowledgement (here: the delete fails): the event is published again under the same
/// `ce_id`, by which the ledger knows it. Fails when the row is deleted before the acknowledgement: then it is lost.
#[tokio::test]
async fn an_event_whose_row_could_not_be_deleted_is_published_again_with_the_same_id() {
    let stage = Stage::new().await;
    stage.put("O1", "K1").await;
    sqlx::query("REVOKE DELETE ON outbox FROM outbox_relay").execute(stage.db.pool()).await.unwrap();
    let mut relay = stage.relay();
    assert!(matches!(relay.run_once().await, Err(Error::Database(_))));
    assert_eq!(stage.count("outbox").await, 1);
    sqlx::query("GRANT DELETE ON outbox TO outbox_relay").execute(stage.db.pool()).await.unwrap();
    stage.drain(&mut relay).await;
    let ids: Vec<_> =
        stage.topic.records().await.iter().map(|r| r.header("ce_id").unwrap().to_owned()).collect();
    assert_eq!(ids, ["K1", "K1"]);
}

/// Somebody else deletes a row that we published: two relays work on one shard, or a person does. It is told, and the shards
/// are given up. Fails when the row count of the delete is not looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_else_deleted_is_noticed() {
    let stage = Stage::new().await;
    stage.put("O1", "K1").await;
    stage.put("O2", "K2").await;
    let mut other = stage.db.pool().begin().await.unwrap();
    sqlx::query("DELETE FROM outbox WHERE event_id = (SELECT min(event_id) FROM outbox)")
        .execute(&mut *other)
        .await
        .unwrap();
    let mut relay = stage.relay();
    let round = service_kit::task::spawn("round", async move { relay.run_once().await });
    // The other's delete is not committed, so the relay reads the row, publishes it, and waits for it when deleting.
    wait_for("the relay's delete to wait", async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND usename = 'outbox_relay' AND wait_event_type = 'Lock'",
        )
        .fetch_one(stage.db.pool())
        .await
        .unwrap();
        waiting == 1
    })
    .await;
    other.commit().await.unwrap();
    let error = round.await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, Error::TakenByOthers { sent: 2, missing: 1 }), "{error:?}");
    stage.drain(&mut stage.relay()).await;
    assert_eq!(stage.topic.records().await.len(), 2);
}

/// Without a broker nothing is deleted, and everything leaves once it is back. Fails when a row is deleted without a good
/// delivery report.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_broker_is_away_events_stay_and_afterwards_all_leave() {
    let mut stage = Stage::new().await;
    let proxy = Proxy::kafka().await;
    stage.brokers = kafka_proxied_brokers();
    let mut relay = stage.relay();
    stage.put("O0", "before").await;
    stage.drain(&mut relay).await;
    proxy.cut().await;
    for n in 0..40 {
        stage.put(&format!("O{}", n % 20), &format!("K{n:02}")).await;
    }
    let round = relay.run_once().await.unwrap();
    assert_eq!((round.read, round.published, round.failed, round.held), (40, 0, 20, 20));
    assert_eq!(stage.count("outbox").await, 40);
    proxy.restore().await;
    stage.drain(&mut relay).await;
    let seen = first_seen(&stage.topic.records().await);
    assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 41);
    assert!(seen.values().skip(1).all(|ids| ids.is_sorted()));
}

/// The line to the broker breaks, stalls and loses answers again and again, each time until events have failed: nothing is
/// lost, and whatever is published twice, no event of an order is ever seen before an earlier one. Fails when a row is deleted
/// without an acknowledgement of its own. (That an order stops at its failed event is shown without chance in parked.rs.) The
/// seed says how the line behaved.
#[tokio::test(flavor = "multi_thread")]
async fn order_within_a_payment_is_kept_through_faults_of_the_line() {
    const EVENTS: usize = 600;
    let mut stage = Stage::new().await;
    let proxy = Proxy::kafka().await;
    stage.brokers = kafka_proxied_brokers();
    let settings =
        outbox_relay::Settings { delivery_ms_max: 1_000, batch_rows_max: 1_000, ..stage.settings() };
    let mut relay = outbox_relay::Relay::connect(&settings).unwrap();
    stage.put("O0", "K0").await;
    stage.drain(&mut relay).await;
    let (shutdown, failed) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let running = service_kit::task::spawn("relay", {
        let (shutdown, failed) = (shutdown.clone(), Arc::clone(&failed));
        async move {
            while !shutdown.is_cancelled() {
                let round = relay.run_once().await.unwrap();
                failed.fetch_add(round.failed, Ordering::SeqCst);
            }
        }
    });
    let mut seed = test_kit::seed();
    for n in 1..EVENTS {
        if n % 100 == 30 {
            // A multiplicative generator is random enough to choose a fault.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match (seed >> 33) % 3 {
                0 => proxy.cut().await,
                1 => proxy.freeze(),
                _ => proxy.drop_after_bytes(u32::try_from(seed >> 50).unwrap() % 400),
            }
        }
        stage.put(&format!("O{}", n % 5), &format!("K{n:04}")).await;
        if n % 100 == 80 {
            let before = failed.load(Ordering::SeqCst);
            // The last answers that pass may be enough for all that there is.
            wait_for("events to fail or all to leave", async || {
                failed.load(Ordering::SeqCst) > before || stage.count("outbox").await == 0
            })
            .await;
            proxy.restore().await;
        }
    }
    wait_for("the outbox to be empty", async || stage.count("outbox").await == 0).await;
    shutdown.cancel();
    running.await.unwrap();
    let seen = first_seen(&stage.topic.records().await);
    assert_eq!(seen.values().map(Vec::len).sum::<usize>(), EVENTS, "lost");
    for ids in seen.values() {
        assert!(ids.is_sorted(), "reordered: {ids:?}");
    }
}

/// The database is away: the relay says so, and goes on by itself when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_fault_of_the_database_the_same_relay_goes_on() {
    let stage = Stage::new().await;
    let mut relay = stage.relay();
    stage.put("O1", "K1").await;
    assert_eq!(published(&relay.run_once().await.unwrap()), (1, 1));
    crate::ownership::terminate_owners(&stage).await;
    stage.put("O1", "K2").await;
    assert!(matches!(relay.run_once().await, Err(Error::Database(_))));
    stage.drain(&mut relay).await;
    assert_eq!(stage.topic.records().await.len(), 2);
}
