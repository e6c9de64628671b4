//! From the topic to the books, over a real broker.

use std::net::SocketAddr;

use ledger_consumer::{App, Settings};
use service_kit::pg::PoolSettings;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock};
use test_kit::{Db, Topic, unique, wait_for};
use tokio::task::JoinHandle;

use crate::{assert_books_agree, books, count, entries, paid, producer, send};

/// A running consumer.
pub(crate) struct Running {
    pub(crate) admin: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Option<Result<(), ledger_consumer::Error>>>,
}

impl Running {
    pub(crate) async fn start(settings: Settings) -> Self {
        let app = App::build(settings, Clock::system(), Switches::all_on()).await.unwrap();
        let (admin, shutdown) = (app.admin_addr(), CancellationToken::new());
        let task = service_kit::task::spawn("test.consumer", app.run(shutdown.clone()));
        Self { admin, shutdown, task }
    }

    /// Asks it to end, and sees that it ends well.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().expect("no panic").unwrap();
    }

    /// What `/readyz` says: status and text.
    pub(crate) async fn ready(&self) -> (u16, String) {
        let answer = reqwest::get(format!("http://{}/readyz", self.admin)).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

pub(crate) fn settings(db: &Db, topic: &Topic, group: &str) -> Settings {
    Settings {
        admin_listen: ([127, 0, 0, 1], 0).into(),
        database_url: db.url_as("ledger_consumer"),
        pool: PoolSettings { acquire_ms_max: 500, ..PoolSettings::default() },
        kafka_brokers: topic.brokers(),
        topic: topic.name().to_owned(),
        partitions: 3,
        group_id: group.to_owned(),
        workers: 1,
        batch_rows_max: 500,
        poll_ms_max: 100,
    }
}

async fn wait_for_entries(db: &Db, wanted: i64) {
    wait_for(&format!("{wanted} entries"), async || entries(db).await >= wanted).await;
}

/// The topic is made where it is missing, everything in it is booked, and `/readyz` says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_booked_from_a_topic_that_the_consumer_makes() {
    let (db, topic) = (Db::ledger().await, Topic::not_yet());
    let running = Running::start(settings(&db, &topic, &unique("g"))).await;
    wait_for("the consumer to be ready", async || running.ready().await.0 == 200).await;
    let events: Vec<_> = (0..200).map(|n| paid(&format!("M{}", n % 7), n, 1 + i64::from(n))).collect();
    let partitions = send(&producer(&topic), &topic, &events).await;
    wait_for_entries(&db, 200).await;
    running.stop().await;
    assert_books_agree(&db).await;
    // The shard of a balance is the partition of its events.
    let mut shards: Vec<i16> =
        sqlx::query_scalar("SELECT DISTINCT shard FROM account_balance").fetch_all(db.pool()).await.unwrap();
    let mut used: Vec<i16> = partitions.into_iter().map(|p| i16::try_from(p).unwrap()).collect();
    shards.sort_unstable();
    used.sort_unstable();
    used.dedup();
    assert_eq!((shards, used.len()), (used.clone(), 3));
}

/// H4: the offsets are lost, and the whole topic is read again into the same books. Fails when gate 8 is off in both of
/// its guards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_from_the_first_offset_leaves_every_balance_unchanged() {
    let (db, topic) = (Db::ledger().await, Topic::create(3).await);
    let producer = producer(&topic);
    let events: Vec<_> = (0..300).map(|n| paid(&format!("M{}", n % 5), n, 1 + i64::from(n))).collect();
    send(&producer, &topic, &events).await;
    let first = Running::start(settings(&db, &topic, &unique("g"))).await;
    wait_for_entries(&db, 300).await;
    first.stop().await;
    let before = books(&db).await;

    let again = Running::start(settings(&db, &topic, &unique("g"))).await;
    // A new fact at the end of each partition: when they are booked, everything before them was read.
    let marks: Vec<_> = (0..30).map(|n| paid("END", n, 1)).collect();
    let partitions = send(&producer, &topic, &marks).await;
    assert!((0..3).all(|partition| partitions.contains(&partition)));
    wait_for_entries(&db, 330).await;
    again.stop().await;
    let mut after = books(&db).await;
    after.postings.retain(|(_, code, ..)| code != "payable:END:CNY");
    let payables = |balances: &[(String, i16, i64, i64)]| -> Vec<_> {
        balances.iter().filter(|(code, ..)| code.starts_with("payable:M")).cloned().collect()
    };
    assert_eq!(payables(&after.balances), payables(&before.balances));
    assert_eq!(after.marks.len(), before.marks.len() + 30);
    assert_books_agree(&db).await;
}

/// A restart goes on at the committed offsets: the offset follows the effect, and follows it soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_on_where_the_last_one_stopped() {
    let (db, topic, group) = (Db::ledger().await, Topic::create(3).await, unique("g"));
    let producer = producer(&topic);
    let events: Vec<_> = (0..50).map(|n| paid("M1", n, 1)).collect();
    send(&producer, &topic, &events).await;
    let first = Running::start(settings(&db, &topic, &group)).await;
    wait_for_entries(&db, 50).await;
    first.stop().await;
    // The books forget, so that anything read again would be booked again.
    let other = Db::ledger().await;
    let second = Running::start(settings(&other, &topic, &group)).await;
    let more: Vec<_> = (50..80).map(|n| paid("M1", n, 1)).collect();
    send(&producer, &topic, &more).await;
    wait_for_entries(&other, 30).await;
    second.stop().await;
    assert_eq!(entries(&other).await, 30, "nothing before the committed offsets may come again");
}

/// A bad record is parked and copied to the dead-letter topic with its reason, and its partition goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_record_goes_to_the_dead_letters_and_its_partition_goes_on() {
    let (db, topic) = (Db::ledger().await, Topic::create(1).await);
    let producer = producer(&topic);
    send(&producer, &topic, &[paid("M1", 1, 5), paid("M1", 2, 0), paid("M1", 3, 5)]).await;
    let running = Running::start(settings(&db, &topic, &unique("g"))).await;
    wait_for_entries(&db, 2).await;
    let copies = topic.dead_letters().wait_for_records(1).await;
    running.stop().await;
    let original = &topic.records().await[1];
    assert_eq!((&copies[0].key, &copies[0].value), (&original.key, &original.value));
    assert_eq!(copies[0].header("ce_id"), original.header("ce_id"));
    assert!(copies[0].header("oncepay_parked_reason").unwrap().starts_with("FIELD_INVALID: amount "));
    assert_eq!(copies[0].header("oncepay_parked_place").unwrap(), format!("{}[0]@1", topic.name()));
    assert_eq!(count(&db, "SELECT count(*) FROM parked_message WHERE offset_no = 1").await, 1);
}

/// Several consumers in one process, and a second process of the same group that comes and goes: partitions move, and
/// every event is booked once (H2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_move_lose_and_repeat_nothing() {
    let (db, topic, group) = (Db::ledger().await, Topic::create(6).await, unique("g"));
    let producer = producer(&topic);
    let two = Settings { workers: 2, batch_rows_max: 7, ..settings(&db, &topic, &group) };
    let steady = Running::start(two.clone()).await;
    for round in 0..3 {
        let events: Vec<_> = (0..200).map(|n| paid("M1", round * 200 + n, 3)).collect();
        let (guest, _) = tokio::join!(Running::start(two.clone()), send(&producer, &topic, &events));
        wait_for_entries(&db, i64::from(round) * 200 + 100).await;
        guest.stop().await;
    }
    wait_for_entries(&db, 600).await;
    steady.stop().await;
    assert_eq!(count(&db, "SELECT SUM(debit)::BIGINT FROM account_balance").await, 1800);
    assert_eq!(books(&db).await.parked, []);
    assert_books_agree(&db).await;
}
