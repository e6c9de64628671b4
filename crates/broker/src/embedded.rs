//! The broker inside librdkafka, for the demo on a machine that can have no Kafka. It keeps at most 5 MiB for each
//! partition, drops what is older even if nobody read it, and loses everything at exit. Tests and services never use it.

use rdkafka::admin::AdminClient;
use rdkafka::client::Client;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::context::Context;
use crate::{Error, TopicSpec};

/// A broker in this process, gone when dropped.
pub struct Embedded {
    /// The client that owns the broker.
    _host: AdminClient<Context>,
    brokers: String,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

impl Embedded {
    /// Starts the broker with these topics. Its port is chosen by the system.
    ///
    /// # Errors
    /// When the broker cannot be made.
    pub fn start(topics: &[TopicSpec]) -> Result<Self, Error> {
        let failed = |error| Error::new("the embedded broker cannot be made", error);
        let mut config = ClientConfig::new();
        config.set("test.mock.num.brokers", "1").set("bootstrap.servers", "none");
        let host: AdminClient<Context> = config.create_with_context(Context::default()).map_err(failed)?;
        let brokers = {
            let cluster = host
                .inner()
                .mock_cluster()
                .ok_or_else(|| failed(KafkaError::Global(RDKafkaErrorCode::NotImplemented)))?;
            for topic in topics {
                cluster.create_topic(&topic.name, topic.partitions, 1).map_err(failed)?;
            }
            cluster.bootstrap_servers()
        };
        join_without_delay(host.inner());
        Ok(Self { _host: host, brokers })
    }

    /// Where clients connect, also those of other processes on this machine.
    #[must_use]
    pub fn brokers(&self) -> &str {
        &self.brokers
    }
}

/// Lets a consumer group start at once instead of after three seconds.
#[expect(unsafe_code, reason = "rdkafka has no safe call for this setting of its mock cluster")]
fn join_without_delay(host: &Client<Context>) {
    // SAFETY: the client is alive for the whole call. The cluster belongs to it and lives as long; the library returns
    // null for a client without one, which is checked.
    unsafe {
        let cluster = rdkafka_sys::rd_kafka_handle_mock_cluster(host.native_ptr());
        if !cluster.is_null() {
            rdkafka_sys::rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0);
        }
    }
}
