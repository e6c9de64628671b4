//! What breaks while the storm goes on: Kafka is away for the middle third, and payment-core is killed in the middle.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::gates::{self, Closings};
use crate::stack::Stack;
use crate::storm::Storm;

/// What was broken.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) told: Vec<&'static str>,
    /// Closings that the killed process had counted; its successor counts from zero.
    pub(crate) lost_counts: Closings,
}

/// Breaks things at their time and mends them.
pub(crate) async fn run(stack: Arc<Stack>, storm: Arc<Storm>) -> anyhow::Result<Trouble> {
    let mut told = Vec::new();
    storm.reaches(33).await;
    if stack.has_kafka() {
        storm.tell("Kafka is stopped · 停止 Kafka");
        stack.run("kafka.sh", &["stop", "main"], &[]).await?;
        told.push("Kafka stopped for the middle third · Kafka 中段停机");
    }
    storm.reaches(50).await;
    let lost_counts = match stack.admin.get(1) {
        Some(core) => gates::of(core).await,
        None => BTreeMap::new(),
    };
    storm.tell("payment-core is killed (SIGKILL) · 杀死 payment-core");
    stack.run("services.sh", &["kill", "payment-core"], &[]).await?;
    stack.run("services.sh", &["start", "payment-core"], &[]).await?;
    storm.tell("payment-core is back · payment-core 恢复");
    told.push("payment-core killed and restarted · payment-core 被杀后重启");
    storm.reaches(66).await;
    if stack.has_kafka() {
        stack.run("kafka.sh", &["start", "main"], &[]).await?;
        storm.tell("Kafka is back · Kafka 恢复");
    }
    Ok(Trouble { told, lost_counts })
}
