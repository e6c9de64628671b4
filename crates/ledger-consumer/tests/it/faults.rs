//! When something is down, the consumer waits, and loses nothing.

use service_kit::config::Secret;
use test_kit::{Db, Proxy, Topic, unique, wait_for};

use crate::consume::{Running, settings};
use crate::{assert_books_agree, books, entries, paid, producer, send};

/// The address of a database, with a proxy on the way.
async fn proxied(db: &Db) -> (Proxy, Secret) {
    let url = db.url_as("ledger_consumer");
    let (before, after) = url.expose().rsplit_once('@').unwrap();
    let (server, database) = after.split_once('/').unwrap();
    let proxy = Proxy::start(server).await;
    let url = Secret::new(format!("{before}@{}/{database}", proxy.addr()));
    (proxy, url)
}

/// The ledger database is cut off while events come, and comes back: everything is booked, nothing is parked, and
/// `/readyz` told the truth meanwhile. Fails when offsets are committed for what was not applied, or when an outage is
/// counted against messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_database_that_goes_and_comes_back_has_everything() {
    let (db, topic) = (Db::ledger().await, Topic::create(3).await);
    let (proxy, database_url) = proxied(&db).await;
    let producer = producer(&topic);
    let settings = settings(&db, &topic, &unique("g"));
    let running = Running::start(ledger_consumer::Settings { database_url, ..settings }).await;
    let events = |from: u32, until: u32| (from..until).map(|n| paid("M1", n, 2)).collect::<Vec<_>>();
    send(&producer, &topic, &events(0, 50)).await;
    wait_for("the first events", async || entries(&db).await == 50).await;

    proxy.cut().await;
    send(&producer, &topic, &events(50, 150)).await;
    wait_for("readyz to tell", async || {
        let (status, text) = running.ready().await;
        status == 503 && text.contains("ledger database")
    })
    .await;
    assert_eq!(entries(&db).await, 50);

    proxy.restore().await;
    wait_for("everything", async || entries(&db).await == 150).await;
    wait_for("the consumer to be ready", async || running.ready().await.0 == 200).await;

    // A line that dies in the middle of answers: commits whose answer is lost are found out by reading again.
    for round in 0..5_u32 {
        proxy.drop_after_bytes(400 * (round + 1));
        send(&producer, &topic, &events(150 + round * 20, 170 + round * 20)).await;
        wait_for("the line to be of no use, or the work done", async || {
            running.ready().await.0 == 503 || entries(&db).await == i64::from(170 + round * 20)
        })
        .await;
        proxy.restore().await;
        wait_for("everything", async || entries(&db).await == i64::from(170 + round * 20)).await;
    }
    running.stop().await;
    assert_eq!(books(&db).await.parked, []);
    assert_books_agree(&db).await;
}

/// A consumer that is asked to end while its database is away ends, and the next one books what it left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_while_the_database_is_away_leaves_the_work_to_the_next_one() {
    let (db, topic, group) = (Db::ledger().await, Topic::create(3).await, unique("g"));
    let (proxy, database_url) = proxied(&db).await;
    proxy.cut().await;
    let away = ledger_consumer::Settings { database_url, ..settings(&db, &topic, &group) };
    let running = Running::start(away).await;
    let events: Vec<_> = (0..30).map(|n| paid("M1", n, 2)).collect();
    send(&producer(&topic), &topic, &events).await;
    wait_for("readyz to tell", async || running.ready().await.0 == 503).await;
    running.stop().await;
    let next = Running::start(settings(&db, &topic, &group)).await;
    wait_for("everything", async || entries(&db).await == 30).await;
    next.stop().await;
    assert_books_agree(&db).await;
}
