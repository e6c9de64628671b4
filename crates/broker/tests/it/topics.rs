use broker::{TopicSpec, ensure};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use test_kit::Topic;
use tokio::time::Duration;

fn partitions(topic: &Topic) -> usize {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", topic.brokers()).create().unwrap();
    let metadata = consumer.fetch_metadata(None, Duration::from_secs(10)).unwrap();
    metadata.topics().iter().find(|t| t.name() == topic.name()).map_or(0, |t| t.partitions().len())
}

/// Services start together and again: a topic is made once, and never changed.
#[tokio::test]
async fn ensuring_a_topic_twice_and_at_once_makes_it_once() {
    let topic = Topic::not_yet();
    let specs = |partitions| vec![TopicSpec { name: topic.name().to_owned(), partitions }];
    let (five, brokers) = (specs(5), topic.brokers());
    let (a, b) = tokio::join!(ensure(&brokers, &five), ensure(&brokers, &five));
    a.unwrap();
    b.unwrap();
    ensure(&brokers, &specs(9)).await.unwrap();
    assert_eq!(partitions(&topic), 5);
}
