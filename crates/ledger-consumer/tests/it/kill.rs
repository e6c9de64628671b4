//! `kill -9` between any two effects of the way: after a restart every event is booked once.

use test_kit::{Db, Process, Topic, unique, wait_for};

use crate::{assert_books_agree, books, entries, paid, producer, send};

/// Every kill point on the way, in its order.
const POINTS: [&str; 8] = [
    "ledger_consumer.consume.after_poll",
    "ledger_consumer.apply.after_claim",
    "ledger.post.after_accounts",
    "ledger.post.after_entries",
    "ledger.post.after_balances",
    "ledger_consumer.apply.after_parking",
    "ledger_consumer.apply.after_commit",
    "ledger_consumer.consume.after_offset_commit",
];

/// H1 and H9. A consumer is killed at each point, and another one takes over. Fails when the offset is committed before
/// the transaction (events are lost at `after_poll`), or marks apart from entries (at `after_claim`).
#[test]
fn a_kill_between_any_two_effects_loses_and_repeats_nothing() {
    // Side by side: each waits until the broker gives the dead consumer up.
    std::thread::scope(|scope| {
        for point in POINTS {
            scope.spawn(move || {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(kill_at(point));
            });
        }
    });
}

async fn kill_at(point: &'static str) {
    let (db, topic, group) = (Db::ledger().await, Topic::create(2).await, unique("g"));
    let url = db.url_as("ledger_consumer");
    let brokers = topic.brokers();
    let settings = |point: &'static str| {
        [
            ("ONCEPAY_LEDGER_CONSUMER__DATABASE_URL", url.expose()),
            ("ONCEPAY_LEDGER_CONSUMER__KAFKA_BROKERS", &brokers),
            ("ONCEPAY_LEDGER_CONSUMER__TOPIC", topic.name()),
            ("ONCEPAY_LEDGER_CONSUMER__GROUP_ID", &group),
            ("ONCEPAY_KILL_POINT", point),
        ]
    };
    let mut events: Vec<_> = (0..20).map(|n| paid("M1", n, 3)).collect();
    // One to be parked, so that every step has something to do.
    events.push(paid("M1", 20, 0));
    send(&producer(&topic), &topic, &events).await;
    let mut killed = Process::spawn("ledger-consumer", &settings(point));
    let status = killed.wait_exit().await;
    assert!(!status.success(), "the consumer must die at {point}: {status}");
    let mut next = Process::start("ledger-consumer", &settings("none")).await;
    wait_for(&format!("everything after {point}"), async || entries(&db).await == 20).await;
    wait_for(&format!("the bad one after {point}"), async || books(&db).await.parked.len() == 1).await;
    next.terminate();
    assert!(next.wait_exit().await.success());
    let books = books(&db).await;
    assert_eq!((books.marks.len(), books.postings.len()), (20, 40), "{point}");
    assert_books_agree(&db).await;
}
