use test_kit::{Process, wait_for};

use crate::stage::{Stage, first_seen};

/// Killed between any two steps, the relay loses nothing and reorders nothing; after the acknowledgement it publishes again
/// under the same ids. Fails when the row is deleted before the acknowledgement.
#[tokio::test]
async fn killed_at_any_point_nothing_is_lost() {
    for (point, copies) in [
        ("outbox_relay.publish.after_read", 1),
        ("outbox_relay.publish.after_ack", 2),
        ("outbox_relay.publish.after_delete", 1),
    ] {
        let stage = Stage::new().await;
        let settings = stage.settings();
        let mut variables = vec![
            ("ONCEPAY_OUTBOX_RELAY__DATABASE_URL", settings.database_url.expose()),
            ("ONCEPAY_OUTBOX_RELAY__KAFKA_BROKERS", settings.kafka_brokers.as_str()),
            ("ONCEPAY_OUTBOX_RELAY__TOPIC", settings.topic.as_str()),
            ("ONCEPAY_KILL_POINT", point),
        ];
        stage.put("O1", "K1").await;
        stage.put("O2", "K2").await;
        let mut killed = Process::spawn("outbox-relay", &variables);
        assert!(!killed.wait_exit().await.success());
        variables.pop();
        let mut relay = Process::start("outbox-relay", &variables).await;
        stage.put("O1", "K3").await;
        wait_for("the outbox to be empty", async || stage.count("outbox").await == 0).await;
        relay.terminate();
        assert!(relay.wait_exit().await.success());
        let records = stage.topic.records().await;
        let seen = first_seen(&records);
        assert_eq!(
            (seen["M1:O1"].as_slice(), seen["M1:O2"].as_slice()),
            (&["K1".to_owned(), "K3".to_owned()][..], &["K2".to_owned()][..])
        );
        let firsts = records.iter().filter(|r| r.header("ce_id") == Some("K1")).count();
        assert_eq!(firsts, copies, "{point}");
    }
}
