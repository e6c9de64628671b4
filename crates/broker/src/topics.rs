//! Topics are made with a chosen number of partitions, never by accident: the ledger's balances are split by partition.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::Error;
use crate::context::Context;

/// Longest answer to a question about topics; a process that ends waits for it.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Replicas as the broker's own default says: one on a laptop, three in production.
const REPLICAS_AS_THE_BROKER_SAYS: i32 = -1;

/// A topic that must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSpec {
    pub name: String,
    pub partitions: i32,
}

/// Makes the topics that are missing. One that exists is left as it is, also with another number of partitions (a warning
/// says so): changing it would move keys to other partitions.
///
/// First the broker is asked which topics it has. One that has all of them needs no more: the embedded broker does not
/// know how to be asked for new ones.
///
/// # Errors
/// [`Error`] when the broker is away or refuses.
pub async fn ensure(brokers: &str, topics: &[TopicSpec]) -> Result<(), Error> {
    let failed = |error| Error::new("topics cannot be made", error);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("reconnect.backoff.max.ms", "1000");
    let admin: AdminClient<Context> = config.create_with_context(Context::default()).map_err(failed)?;
    let admin = Arc::new(admin);
    let missing = missing(Arc::clone(&admin), topics).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let replicas = || TopicReplication::Fixed(REPLICAS_AS_THE_BROKER_SAYS);
    let new: Vec<_> = missing.iter().map(|t| NewTopic::new(&t.name, t.partitions, replicas())).collect();
    let options = AdminOptions::new().request_timeout(Some(ANSWER_MAX)).operation_timeout(Some(ANSWER_MAX));
    for result in admin.create_topics(&new, &options).await.map_err(failed)? {
        match result {
            Ok(name) => tracing::info!(kafka.topic = name, "the topic was made"),
            // Another service was faster.
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(failed(KafkaError::Global(code))),
        }
    }
    Ok(())
}

async fn missing(admin: Arc<AdminClient<Context>>, topics: &[TopicSpec]) -> Result<Vec<&TopicSpec>, Error> {
    // All topics, because a question about one would make it, on a broker that makes topics by itself.
    let told = tokio::task::spawn_blocking(move || admin.inner().fetch_metadata(None, ANSWER_MAX)).await;
    let metadata = told
        .unwrap_or(Err(KafkaError::Canceled))
        .map_err(|error| Error::new("the broker does not tell its topics", error))?;
    let mut missing = Vec::new();
    for wanted in topics {
        let Some(found) = metadata.topics().iter().find(|topic| topic.name() == wanted.name) else {
            missing.push(wanted);
            continue;
        };
        let found = found.partitions().len();
        if i32::try_from(found) != Ok(wanted.partitions) {
            let wanted_partitions = wanted.partitions;
            tracing::warn!(
                kafka.topic = wanted.name,
                found,
                wanted_partitions,
                "the topic has other partitions"
            );
        }
    }
    Ok(missing)
}
