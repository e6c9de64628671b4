//! A database with an outbox, a topic, and relays between them.

use std::collections::BTreeMap;

use outbox_relay::{Relay, Round, Settings};
use pay_types::Bucket;
use test_kit::{Db, Record, Topic, wait_for};

pub(crate) const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

pub(crate) struct Stage {
    pub(crate) db: Db,
    pub(crate) topic: Topic,
    pub(crate) brokers: String,
}

/// An event that was put into the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) event_id: i64,
    pub(crate) bucket: i16,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(Topic::create(4).await).await
    }

    pub(crate) async fn with(topic: Topic) -> Self {
        Self { db: Db::payment().await, brokers: topic.brokers(), topic }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            admin_listen: "127.0.0.1:0".parse().unwrap(),
            database_url: self.db.url_as("outbox_relay"),
            kafka_brokers: self.brokers.clone(),
            topic: self.topic.name().to_owned(),
            partitions: 4,
            batch_rows_max: 200,
            delivery_ms_max: 3_000,
        }
    }

    pub(crate) fn relay(&self) -> Relay {
        Relay::connect(&self.settings()).unwrap()
    }

    /// Puts an event of an order into the outbox, as payment-core does, and commits.
    pub(crate) async fn put(&self, order: &str, msg_key: &str) -> Put {
        self.put_payload(order, msg_key, &format!("{{\"msgKey\":\"{msg_key}\"}}")).await
    }

    pub(crate) async fn put_payload(&self, order: &str, msg_key: &str, payload: &str) -> Put {
        let mut tx = self.db.pool().begin().await.unwrap();
        let put = put_in_tx(&mut tx, order, msg_key, payload).await;
        tx.commit().await.unwrap();
        put
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        let statement = match table {
            "outbox" => "SELECT count(*) FROM outbox",
            "outbox_parked" => "SELECT count(*) FROM outbox_parked",
            other => panic!("no count for {other}"),
        };
        sqlx::query_scalar(statement).fetch_one(self.db.pool()).await.unwrap()
    }

    /// Rounds until the queue is empty.
    pub(crate) async fn drain(&self, relay: &mut Relay) {
        wait_for("the outbox to be empty", async || {
            relay.run_once().await.unwrap();
            self.count("outbox").await == 0
        })
        .await;
    }

    /// Puts back what was parked, as the README says.
    pub(crate) async fn unpark(&self) {
        sqlx::query(
            "WITH back AS (DELETE FROM outbox_parked RETURNING bucket, event_id, shard)
             INSERT INTO outbox (bucket, event_id, shard) SELECT bucket, event_id, shard FROM back",
        )
        .execute(self.db.pool())
        .await
        .unwrap();
    }
}

pub(crate) async fn put_in_tx(tx: &mut sqlx::PgConnection, order: &str, msg_key: &str, payload: &str) -> Put {
    let bucket = Bucket::of(&"M1".parse().unwrap(), &order.parse().unwrap()).as_i16();
    let event_id: i64 = sqlx::query_scalar(
        "WITH new AS (
             INSERT INTO payment_event (bucket, msg_key, aggregate_type, aggregate_id, type, version, cause, partition_key,
                                        payload, traceparent)
             VALUES ($1, $2, 'payment', 'P' || $3, 'PAY_CREATED', 1, 'test', 'M1:' || $3, $4, $5)
             RETURNING bucket, event_id)
         INSERT INTO outbox (bucket, event_id, shard) SELECT bucket, event_id, bucket / 64 FROM new RETURNING event_id",
    )
    .bind(bucket)
    .bind(msg_key)
    .bind(order)
    .bind(payload)
    .bind(TRACEPARENT)
    .fetch_one(tx)
    .await
    .unwrap();
    Put { event_id, bucket }
}

/// `ce_id`s by record key, in the order in which they first came.
pub(crate) fn first_seen(records: &[Record]) -> BTreeMap<String, Vec<String>> {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in records {
        let ids = seen.entry(record.key_text().unwrap().to_owned()).or_default();
        let id = record.header("ce_id").unwrap().to_owned();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    seen
}

pub(crate) fn published(round: &Round) -> (usize, usize) {
    (round.read, round.published)
}
