use test_kit::Topic;

use crate::stage::{Stage, first_seen};

/// Text that does not compress away.
fn noise(words: usize) -> String {
    std::iter::repeat_with(|| test_kit::unique("n")).take(words).collect()
}

async fn parked(stage: &Stage) -> Vec<(i64, String, i32)> {
    sqlx::query_as("SELECT event_id, error, tries FROM outbox_parked ORDER BY event_id")
        .fetch_all(stage.db.pool())
        .await
        .unwrap()
}

/// A poison row goes out of the way: other orders flow, later events of its own order wait, visibly. Put back when the cause
/// is mended, it leaves first, and they follow. Fails when the row is skipped (its successor passes it), and when it is tried
/// for ever.
#[tokio::test]
async fn a_poison_event_is_parked_others_flow_and_its_order_waits() {
    let strict = Topic::create_with(1, &[("max.message.bytes", "2000")]).await;
    let mut stage = Stage::with(strict).await;
    stage.put("BAD", "BAD:1").await;
    let poison = stage.put_payload("BAD", "BAD:2", &noise(400)).await;
    stage.put("BAD", "BAD:3").await;
    for n in 0..40 {
        stage.put(&format!("O{n}"), &format!("K{n}")).await;
    }
    let mut relay = stage.relay();
    let round = relay.run_once().await.unwrap();
    assert_eq!((round.published, round.parked, round.failed, round.held), (41, 1, 0, 1), "{round:?}");
    let rows = parked(&stage).await;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].0, rows[0].2), (poison.event_id, 2));
    assert!(rows[0].1.contains("MessageSizeTooLarge"), "{}", rows[0].1);
    // New events of the order wait too, and cost nobody else anything.
    stage.put("BAD", "BAD:4").await;
    stage.put("O1", "later").await;
    let round = relay.run_once().await.unwrap();
    assert_eq!((round.read, round.published, round.held), (1, 1, 0));
    assert_eq!(stage.count("outbox").await, 2);
    // A topic that takes it: the cause is mended, and a person puts it back.
    let mended = Topic::create(1).await;
    let strict = std::mem::replace(&mut stage.topic, mended);
    assert_eq!(first_seen(&strict.records().await)["M1:BAD"], ["BAD:1"]);
    drop(relay);
    let mut relay = stage.relay();
    relay.run_once().await.unwrap();
    assert_eq!(stage.count("outbox").await, 2, "still held");
    stage.unpark().await;
    stage.drain(&mut relay).await;
    assert_eq!(first_seen(&stage.topic.records().await)["M1:BAD"], ["BAD:2", "BAD:3", "BAD:4"]);
}

/// A payload over our own limit is not even read into memory.
#[tokio::test]
async fn an_event_over_our_own_limit_is_parked_unsent() {
    let stage = Stage::new().await;
    stage.put_payload("O1", "K1", &"x".repeat(300 * 1024)).await;
    stage.put("O2", "K2").await;
    let round = stage.relay().run_once().await.unwrap();
    assert_eq!((round.published, round.parked), (1, 1));
    let rows = parked(&stage).await;
    assert_eq!((rows[0].1.as_str(), rows[0].2), ("the payload has 307200 bytes, 262144 are allowed", 0));
    assert_eq!(stage.topic.records().await.len(), 1);
}

/// A small batch full of poison is no dead end: with one row a batch the queue still moves.
#[tokio::test]
async fn with_a_batch_of_one_a_poison_event_does_not_block_the_rest() {
    let stage = Stage::new().await;
    let settings = outbox_relay::Settings { batch_rows_max: 1, ..stage.settings() };
    let mut relay = outbox_relay::Relay::connect(&settings).unwrap();
    stage.put_payload("O1", "K1", &"x".repeat(300 * 1024)).await;
    stage.put("O2", "K2").await;
    stage.drain(&mut relay).await;
    assert_eq!(stage.count("outbox_parked").await, 1);
    assert_eq!(stage.topic.records().await.len(), 1);
}

/// A topic that takes nothing at all is misconfigured; its events stay where they are and are not parked one by one. Fails
/// without the limit on parking.
#[tokio::test]
async fn a_topic_that_refuses_everything_parks_nothing() {
    let stage = Stage::with(Topic::create_with(1, &[("max.message.bytes", "10")]).await).await;
    for n in 0..10 {
        stage.put(&format!("O{n}"), &format!("K{n}")).await;
    }
    let round = stage.relay().run_once().await.unwrap();
    assert_eq!((round.published, round.parked, round.failed), (0, 0, 10), "{round:?}");
    assert_eq!((stage.count("outbox").await, stage.count("outbox_parked").await), (10, 0));
}
