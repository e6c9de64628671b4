use std::collections::BTreeSet;
use std::time::Duration;

use broker::{Consumer, ConsumerSettings, Message, Producer, ProducerSettings, Record};
use test_kit::{Topic, unique, wait_for};

const WAIT: Duration = Duration::from_millis(200);

fn consumer(topic: &Topic, group: &str) -> Consumer {
    let settings = ConsumerSettings {
        brokers: topic.brokers(),
        group_id: group.to_owned(),
        topics: vec![topic.name().to_owned()],
    };
    Consumer::connect(&settings).unwrap()
}

async fn produce(topic: &Topic, values: std::ops::Range<usize>) {
    let producer = Producer::connect(&ProducerSettings::new(topic.brokers())).unwrap();
    let texts: Vec<_> = values.map(|n| (format!("key{}", n % 10), n.to_string())).collect();
    let records = texts
        .iter()
        .map(|(key, value)| Record {
            topic: topic.name(),
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: vec![("h", b"x")],
        })
        .collect();
    for result in producer.send_all(records).await {
        result.unwrap();
    }
}

/// Reads until `count` messages have come, or the wait's limit.
async fn read(consumer: &Consumer, count: usize) -> Vec<Message> {
    let mut all = Vec::new();
    wait_for("messages to come", async || {
        all.extend(consumer.next_batch(100, WAIT).await.unwrap());
        all.len() >= count
    })
    .await;
    all
}

fn numbers(messages: &[Message]) -> BTreeSet<usize> {
    messages
        .iter()
        .map(|m| std::str::from_utf8(m.value.as_deref().unwrap()).unwrap().parse().unwrap())
        .collect()
}

fn next_offsets(messages: &[Message]) -> Vec<(String, i32, i64)> {
    let mut next = std::collections::BTreeMap::new();
    for message in messages {
        next.insert(message.partition, message.offset.saturating_add(1));
    }
    next.into_iter().map(|(partition, offset)| (messages[0].topic.clone(), partition, offset)).collect()
}

/// What was committed is not read again, what was not is: also by another member of the group. Fails with auto commit, or
/// when offsets are stored by reading.
#[tokio::test(flavor = "multi_thread")]
async fn a_successor_reads_from_the_last_commit() {
    let (topic, group) = (Topic::create(1).await, unique("group"));
    produce(&topic, 0..120).await;
    let first = consumer(&topic, &group);
    let mut seen = read(&first, 120).await;
    assert_eq!(seen[0].header("h"), Some("x"));
    seen.truncate(70);
    first.commit(&next_offsets(&seen)).unwrap();
    drop(first);
    let second = consumer(&topic, &group);
    assert_eq!(numbers(&read(&second, 50).await), (70..120).collect());
}

/// A batch is never larger than asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_at_most_the_rows_that_were_asked_for() {
    let topic = Topic::create(1).await;
    produce(&topic, 0..30).await;
    let consumer = consumer(&topic, &unique("group"));
    let mut sizes = Vec::new();
    wait_for("all to come", async || {
        sizes.push(consumer.next_batch(7, WAIT).await.unwrap().len());
        sizes.iter().sum::<usize>() == 30
    })
    .await;
    assert!(sizes.iter().all(|size| *size <= 7));
}

/// Messages that could not be handled come again, in order.
#[tokio::test(flavor = "multi_thread")]
async fn seeking_back_delivers_again_from_there() {
    let topic = Topic::create(1).await;
    produce(&topic, 0..20).await;
    let consumer = consumer(&topic, &unique("group"));
    read(&consumer, 20).await;
    consumer.seek_back(topic.name(), 0, 5).unwrap();
    let again = read(&consumer, 15).await;
    assert_eq!(again.iter().map(|m| m.offset).collect::<Vec<_>>(), (5..20).collect::<Vec<_>>());
}

/// A member that lost a partition may not move its offset: the new owner would skip what it has not handled. Fails when
/// `commit` does not look at the assignment.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_for_a_partition_that_moved_is_skipped() {
    let (topic, group) = (Topic::create(2).await, unique("group"));
    produce(&topic, 0..40).await;
    let first = consumer(&topic, &group);
    let seen = read(&first, 40).await;
    let second = consumer(&topic, &group);
    // The second gets one of the two partitions, and the messages that nobody committed.
    let mut moved = Vec::new();
    wait_for("a partition to move", async || {
        first.next_batch(100, WAIT).await.unwrap();
        moved = second.next_batch(100, WAIT).await.unwrap();
        !moved.is_empty()
    })
    .await;
    first.commit(&next_offsets(&seen)).unwrap();
    let partition = moved[0].partition;
    assert!(moved.iter().all(|m| m.partition == partition), "both partitions moved");
    drop((first, second));
    let third = consumer(&topic, &group);
    let left = read(&third, seen.iter().filter(|m| m.partition == partition).count()).await;
    assert!(left.iter().all(|m| m.partition == partition), "the first one's own partition was not committed");
    assert_eq!(left[0].offset, 0);
    // Positions that nobody owns are no error either.
    third.commit(&[("no-such-topic".to_owned(), 0, 1)]).unwrap();
}

/// The lag is what lies behind the commit.
#[tokio::test(flavor = "multi_thread")]
async fn the_lag_counts_what_is_not_committed() {
    let topic = Topic::create(1).await;
    produce(&topic, 0..25).await;
    let consumer = consumer(&topic, &unique("group"));
    read(&consumer, 25).await;
    consumer.commit(&[(topic.name().to_owned(), 0, 10)]).unwrap();
    wait_for("the statistics to say 15", async || {
        consumer.next_batch(1, WAIT).await.unwrap();
        consumer.lag().unwrap() == [(0, 15)]
    })
    .await;
}
