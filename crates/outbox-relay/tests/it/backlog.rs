//! A backlog that would not fit into memory many times over, with nobody to take it.

use test_kit::proxy::kafka_proxied_brokers;
use test_kit::{Process, Proxy, wait_for};

use crate::stage::Stage;

/// Rows that wait: about twelve minutes of a full stream, 200 MB if a relay held them.
const ROWS: i64 = 200_000;
/// What the process may hold, KiB: its code, its pool and one batch.
const RESIDENT_KIB_MAX: u64 = 150 * 1024;

async fn resident_kib(pid: u32) -> u64 {
    let status = tokio::fs::read_to_string(format!("/proc/{pid}/status")).await.unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The broker is down and two hundred thousand events wait: the relay's memory stays flat, and not one row is lost (bugs.md
/// G6). Fails when a round reads more than its batch, or when a row is deleted without a delivery report.
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_flat_however_many_events_wait() {
    let mut stage = Stage::new().await;
    let proxy = Proxy::kafka().await;
    stage.brokers = kafka_proxied_brokers();
    let settings = stage.settings();
    let variables = [
        ("ONCEPAY_OUTBOX_RELAY__DATABASE_URL", settings.database_url.expose()),
        ("ONCEPAY_OUTBOX_RELAY__KAFKA_BROKERS", settings.kafka_brokers.as_str()),
        ("ONCEPAY_OUTBOX_RELAY__TOPIC", settings.topic.as_str()),
        ("ONCEPAY_OUTBOX_RELAY__DELIVERY_MS_MAX", "1000"),
    ];
    let relay = Process::start("outbox-relay", &variables).await;
    stage.put("O0", "before").await;
    wait_for("the first event to leave", async || stage.count("outbox").await == 0).await;
    proxy.cut().await;
    sqlx::query(
        "WITH new AS (
             INSERT INTO payment_event (bucket, msg_key, aggregate_type, aggregate_id, type, version, cause, partition_key,
                                        payload)
             SELECT n % 1024, 'K' || n, 'payment', 'P' || n, 'PAY_CREATED', 1, 'test', 'M1:O' || n, REPEAT('x', 700)
             FROM generate_series(1, $1) AS n
             RETURNING bucket, event_id)
         INSERT INTO outbox (bucket, event_id, shard) SELECT bucket, event_id, bucket / 64 FROM new",
    )
    .bind(i32::try_from(ROWS).unwrap())
    .execute(stage.db.pool())
    .await
    .unwrap();
    let mut worst = 0;
    wait_for("several rounds to fail", async || {
        worst = worst.max(resident_kib(relay.pid()).await);
        relay.log().matches("events stay in the outbox").count() >= 3
    })
    .await;
    assert!(worst < RESIDENT_KIB_MAX, "{worst} KiB are resident");
    assert_eq!(stage.count("outbox").await, ROWS);
    assert_eq!(stage.count("outbox_parked").await, 0);
}
