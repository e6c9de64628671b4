use std::time::Duration;

use broker::{Kind, Producer, ProducerSettings, Record};
use test_kit::proxy::kafka_proxied_brokers;
use test_kit::{Proxy, Topic, wait_for};

fn record<'a>(topic: &'a Topic, key: &'a str, value: &'a str) -> Record<'a> {
    Record {
        topic: topic.name(),
        key: Some(key.as_bytes()),
        value: Some(value.as_bytes()),
        headers: vec![("h1", b"one"), ("h2", b"two")],
    }
}

/// Key, value and headers arrive as they were given, and the delivery names their place.
#[tokio::test]
async fn a_record_arrives_whole_where_its_delivery_says() {
    let topic = Topic::create(4).await;
    let producer = Producer::connect(&ProducerSettings::new(topic.brokers())).unwrap();
    let delivery = producer.send(record(&topic, "M1:O1", "{}")).await.unwrap();
    let records = topic.records().await;
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].partition, records[0].offset), (delivery.partition, delivery.offset));
    assert_eq!(records[0].key_text(), Some("M1:O1"));
    assert_eq!(records[0].value.as_deref(), Some(b"{}".as_slice()));
    assert_eq!((records[0].header("h1"), records[0].header("h2")), (Some("one"), Some("two")));
}

/// A full queue is back-pressure: everything is delivered, in order. Fails when `QueueFull` is given back as an error, or
/// when a record is queued past one that had to wait.
#[tokio::test]
async fn a_full_queue_is_waited_for_and_order_is_kept() {
    let topic = Topic::create(1).await;
    let settings = ProducerSettings { queue_records_max: 7, ..ProducerSettings::new(topic.brokers()) };
    let producer = Producer::connect(&settings).unwrap();
    let values: Vec<_> = (0..500).map(|n| n.to_string()).collect();
    let records = values.iter().map(|value| record(&topic, "k", value)).collect();
    let offsets: Vec<_> = producer.send_all(records).await.into_iter().map(|d| d.unwrap().offset).collect();
    assert_eq!(offsets, (0..500).collect::<Vec<_>>());
    let read: Vec<_> =
        topic.records().await.into_iter().map(|r| String::from_utf8(r.value.unwrap()).unwrap()).collect();
    assert_eq!(read, values);
}

/// What the client itself finds too large is refused, and its neighbours pass.
#[tokio::test]
async fn an_oversized_record_is_refused_and_spoils_no_neighbour() {
    let topic = Topic::create(1).await;
    let producer = Producer::connect(&ProducerSettings::new(topic.brokers())).unwrap();
    let large = "x".repeat(1_100_000);
    let results = producer
        .send_all(vec![record(&topic, "a", "1"), record(&topic, "b", &large), record(&topic, "c", "3")])
        .await;
    assert_eq!(results[1].as_ref().unwrap_err().kind(), Kind::Refused);
    assert!(results[0].is_ok() && results[2].is_ok());
    assert_eq!(topic.records().await.len(), 2);
}

/// What only the topic finds too large is refused as well, and the client works on.
#[tokio::test]
async fn a_record_over_the_topics_limit_is_refused_when_sent_alone() {
    let topic = Topic::create_with(1, &[("max.message.bytes", "2000")]).await;
    let producer = Producer::connect(&ProducerSettings::new(topic.brokers())).unwrap();
    // Text that does not compress below the limit.
    let noise: String = std::iter::repeat_with(|| test_kit::unique("n")).take(1_000).collect();
    let refused = producer.send(record(&topic, "a", &noise)).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Refused, "{}", refused.reason());
    producer.send(record(&topic, "a", "small")).await.unwrap();
    assert_eq!(topic.records().await.len(), 1);
}

/// Without a broker the caller hears so within the limit; afterwards the same client delivers. Fails when the failure is
/// taken as permanent, or when the client has to be made anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_is_told_as_away_and_comes_back() {
    let topic = Topic::create(1).await;
    let proxy = Proxy::kafka().await;
    let settings =
        ProducerSettings { delivery_ms_max: 4_000, ..ProducerSettings::new(kafka_proxied_brokers()) };
    let producer = Producer::connect(&settings).unwrap();
    producer.send(record(&topic, "k", "before")).await.unwrap();
    proxy.cut().await;
    let error = producer.send(record(&topic, "k", "lost")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Away, "{}", error.reason());
    proxy.restore().await;
    wait_for("the broker to take a record again", async || {
        producer.send(record(&topic, "k", "after")).await.is_ok()
    })
    .await;
    producer.flush(Duration::from_secs(5)).await.unwrap();
    let last = topic.records().await.pop().unwrap();
    assert_eq!(last.value.as_deref(), Some(b"after".as_slice()));
}

/// A lost answer does not double a record: the client sends it again under the same sequence number. Fails without
/// `enable.idempotence`.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_lost_on_the_way_does_not_double_the_record() {
    let topic = Topic::create(1).await;
    let proxy = Proxy::kafka().await;
    let producer = Producer::connect(&ProducerSettings::new(kafka_proxied_brokers())).unwrap();
    producer.send(record(&topic, "k", "first")).await.unwrap();
    proxy.drop_after_bytes(0);
    let sending = producer.clone();
    let name = topic.name().to_owned();
    let second = spawn(async move {
        let record = Record { topic: &name, key: Some(b"k"), value: Some(b"second"), headers: Vec::new() };
        sending.send(record).await
    });
    topic.wait_for_records(2).await;
    proxy.restore().await;
    second.await.unwrap().unwrap();
    let values: Vec<_> =
        topic.records().await.into_iter().map(|r| String::from_utf8(r.value.unwrap()).unwrap()).collect();
    assert_eq!(values, ["first", "second"]);
}

fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    #[expect(clippy::disallowed_methods, reason = "a task of the test itself")]
    tokio::spawn(work)
}
