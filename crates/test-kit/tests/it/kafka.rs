use test_kit::{Topic, assert_real_kafka};

/// No test may pass against a pretended broker.
#[tokio::test]
async fn the_broker_is_a_real_kafka() {
    assert_real_kafka().await;
}

#[tokio::test]
async fn a_new_topic_is_empty() {
    let topic = Topic::create(3).await;
    assert!(topic.records().await.is_empty());
}
