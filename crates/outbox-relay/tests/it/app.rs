use outbox_relay::App;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock};
use test_kit::proxy::kafka_proxied_brokers;
use test_kit::{Proxy, Topic, wait_for};

use crate::stage::Stage;

async fn get(addr: std::net::SocketAddr, path: &str) -> Option<(u16, String)> {
    let answer = reqwest::get(format!("http://{addr}{path}")).await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

/// The service starts while the broker is away, says what waits, makes the topic when the broker comes, and empties the
/// outbox. It ends in order.
#[tokio::test(flavor = "multi_thread")]
async fn the_service_starts_without_a_broker_and_makes_the_topic_later() {
    let mut stage = Stage::with(Topic::not_yet()).await;
    let proxy = Proxy::kafka().await;
    stage.brokers = kafka_proxied_brokers();
    proxy.cut().await;
    stage.put("O1", "K1").await;
    let app = App::build(stage.settings(), Clock::system(), Switches::all_on()).await.unwrap();
    let admin = app.admin_addr();
    let shutdown = CancellationToken::new();
    let running = service_kit::task::spawn("app", app.run(shutdown.clone()));
    wait_for("readiness", async || get(admin, "/readyz").await.is_some_and(|(status, _)| status == 200))
        .await;
    let told = |line: &'static str| async move {
        let (_, text) = get(admin, "/metrics").await?;
        text.lines().any(|l| l == line).then_some(())
    };
    wait_for("one row to be told", async || told("oncepay_outbox_rows 1").await).await;
    proxy.restore().await;
    wait_for("the outbox to be empty", async || stage.count("outbox").await == 0).await;
    assert_eq!(stage.topic.records().await.len(), 1);
    wait_for("no row to be told", async || told("oncepay_outbox_rows 0").await).await;
    shutdown.cancel();
    running.await.unwrap().unwrap().unwrap();
}
