use std::time::Duration;

use test_kit::wait_for;

use crate::stage::{Stage, TRACEPARENT, first_seen, published, put_in_tx};

/// The record is the event as it stands: key, value, CloudEvents headers; its time is now, or retention would delete a
/// backlog that is older than it. Fails when the timestamp is the row's.
#[tokio::test]
async fn a_record_carries_the_event_and_the_present_time() {
    let stage = Stage::new().await;
    let payload = r#"{"msgKey":"K1",  "amount":"5"}"#;
    let before = service_kit::Clock::system().now_ms();
    let mut tx = stage.db.pool().begin().await.unwrap();
    put_in_tx(&mut tx, "O1", "K1", payload).await;
    tx.commit().await.unwrap();
    age_events(&stage).await;
    let mut relay = stage.relay();
    assert_eq!(published(&relay.run_once().await.unwrap()), (1, 1));
    let records = stage.topic.records().await;
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!(record.key_text(), Some("M1:O1"));
    assert_eq!(record.value.as_deref(), Some(payload.as_bytes()));
    for (name, value) in [
        ("ce_specversion", "1.0"),
        ("ce_id", "K1"),
        ("ce_type", "PAY_CREATED"),
        ("ce_source", "/oncepay/payment-core"),
        ("ce_subject", "PO1"),
        ("content-type", "application/json"),
        ("traceparent", TRACEPARENT),
    ] {
        assert_eq!(record.header(name), Some(value), "{name}");
    }
    assert!(record.header("ce_time").unwrap().starts_with("2020-01-02T03:04:05"));
    assert!(u64::try_from(record.timestamp_ms.unwrap()).unwrap() >= before);
    assert_eq!(stage.count("outbox").await, 0);
    assert_eq!(published(&relay.run_once().await.unwrap()), (0, 0));
}

/// Makes every event years old; history is append only, so its guard is switched off for it.
async fn age_events(stage: &Stage) {
    let mut tx = stage.db.pool().begin().await.unwrap();
    for statement in [
        "ALTER TABLE payment_event DISABLE TRIGGER tr_append_only",
        "UPDATE payment_event SET created_at = '2020-01-02T03:04:05Z'",
        "ALTER TABLE payment_event ENABLE TRIGGER tr_append_only",
    ] {
        sqlx::query(statement).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
}

/// Numbers are given before commits: a row may appear below others that were sent long ago. It is published too, and nobody
/// waits for it; and a later event of its payment does not pass it. Fails with a cursor over `event_id`, and with a floor
/// that does not wait for open transactions (look.rs).
#[tokio::test]
async fn a_row_whose_transaction_stays_open_is_published_too_and_nobody_waits() {
    let stage = Stage::new().await;
    let mut relay = stage.relay();
    let mut open = stage.db.pool().begin().await.unwrap();
    let late = put_in_tx(&mut open, "LATE", "LATE:1", "{}").await;
    // Others of the same shard commit and leave, in several rounds, so that every floor that could move has moved.
    let orders = orders_of_the_same_shard(late.bucket);
    for order in &orders {
        stage.put(order, &format!("{order}:1")).await;
        stage.drain(&mut relay).await;
        relay.run_once().await.unwrap();
    }
    assert_eq!(stage.topic.records().await.len(), orders.len());
    open.commit().await.unwrap();
    let next = stage.put("LATE", "LATE:2").await;
    assert!(next.event_id > late.event_id);
    let round = relay.run_once().await.unwrap();
    assert_eq!(published(&round), (2, 2), "the late row leaves in the first round after its commit");
    let seen = first_seen(&stage.topic.records().await);
    assert_eq!(seen["M1:LATE"], ["LATE:1", "LATE:2"]);
    assert_eq!(seen.len(), orders.len() + 1);
}

fn orders_of_the_same_shard(bucket: i16) -> Vec<String> {
    let of = |order: &str| pay_types::Bucket::of(&"M1".parse().unwrap(), &order.parse().unwrap()).as_i16();
    (0..).map(|n| format!("O{n}")).filter(|order| of(order) / 64 == bucket / 64).take(6).collect()
}

/// A backlog larger than a batch leaves in batches, in the order of each key, and each event once.
#[tokio::test]
async fn a_backlog_leaves_in_bounded_batches_and_in_order() {
    let stage = Stage::new().await;
    for n in 0..300 {
        stage.put(&format!("O{}", n % 30), &format!("K{n:03}")).await;
    }
    let mut relay = stage.relay();
    let mut sizes = Vec::new();
    wait_for("the outbox to be empty", async || {
        let round = relay.run_once().await.unwrap();
        assert_eq!(round.read, round.published);
        sizes.push(round.read);
        round.read == 0
    })
    .await;
    assert!(
        sizes.iter().all(|size| *size <= 208),
        "200 and what rounding up for 16 shards brings: {sizes:?}"
    );
    let records = stage.topic.records().await;
    assert_eq!(records.len(), 300);
    for ids in first_seen(&records).values() {
        assert_eq!(ids.len(), 10);
        assert!(ids.is_sorted());
    }
}

/// An idle relay notices a fresh event within milliseconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_event_leaves_an_idle_relay_soon() {
    let stage = Stage::new().await;
    let shutdown = service_kit::CancellationToken::new();
    let running = service_kit::task::spawn("relay", stage.relay().run(shutdown.clone()));
    stage.put("O1", "K1").await;
    stage.topic.wait_for_records(1).await;
    let started = tokio::time::Instant::now();
    stage.put("O1", "K2").await;
    wait_for("the second to leave", async || stage.count("outbox").await == 0).await;
    // The idle pause is at most 25 ms; the rest is a busy machine.
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    shutdown.cancel();
    running.await.unwrap();
}
