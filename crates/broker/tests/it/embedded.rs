use std::time::Duration;

use broker::{Consumer, ConsumerSettings, Embedded, Producer, ProducerSettings, Record, TopicSpec, ensure};
use test_kit::wait_for;

/// The demo's way without Kafka: the same clients work, and `ensure` does not hang on the missing admin calls.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_clients_work_on_the_embedded_broker() {
    let topics = [TopicSpec { name: "t".to_owned(), partitions: 24 }];
    let embedded = Embedded::start(&topics).unwrap();
    let limit = Duration::from_secs(5);
    tokio::time::timeout(limit, ensure(embedded.brokers(), &topics)).await.unwrap().unwrap();
    let settings = ConsumerSettings {
        brokers: embedded.brokers().to_owned(),
        group_id: "g".to_owned(),
        topics: vec!["t".to_owned()],
    };
    let consumer = Consumer::connect(&settings).unwrap();
    let producer = Producer::connect(&ProducerSettings::new(embedded.brokers())).unwrap();
    let record = Record { topic: "t", key: Some(b"k"), value: Some(b"v"), headers: vec![("h", b"x")] };
    let delivery = producer.send(record).await.unwrap();
    let message = wait_for("the message", async || {
        consumer.next_batch(10, Duration::from_millis(200)).await.unwrap().pop()
    })
    .await;
    assert_eq!((message.partition, message.offset, message.header("h")), (delivery.partition, 0, Some("x")));
    consumer.commit(&[("t".to_owned(), message.partition, 1)]).unwrap();
}
