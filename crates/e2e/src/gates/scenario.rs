//! The races, one purchase each: what a person, a client, a channel or a broker repeats, reorders or mistakes.

use std::time::Duration;

use broker::{Producer, ProducerSettings, Record};
use channel_simulator::{DirectNotice, PayOptions};
use contract::common::Money;
use contract::event::header;
use contract::order::{CreatePaymentRequest, PaymentState};
use contract::reason::Reason;
use futures::future::join_all;

use super::scene::{Cell, Scene};
use crate::Stack;
use crate::wait::holds_within;

/// Longest wait for two settlings to meet at a held row.
const MEET: Duration = Duration::from_secs(2);
/// Longest wait until the consumer has read a record.
const READ: Duration = Duration::from_secs(60);

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    SameKey,
    TwoDevices,
    TwoAttempts,
    KeyReused,
    NoticeStorm,
    LateClosed,
    WrongAmount,
    EventTwice,
}

impl Scenario {
    pub const ALL: [Self; 8] = [
        Self::SameKey,
        Self::TwoDevices,
        Self::TwoAttempts,
        Self::KeyReused,
        Self::NoticeStorm,
        Self::LateClosed,
        Self::WrongAmount,
        Self::EventTwice,
    ];

    /// The column's heading: two lines and a third one in Chinese.
    #[must_use]
    pub fn heading(self) -> [&'static str; 3] {
        match self {
            Self::SameKey => ["same key", "×50", "同键×50"],
            Self::TwoDevices => ["two devices", "×50", "两设备"],
            Self::TwoAttempts => ["two attempts", "at once", "两次尝试"],
            Self::KeyReused => ["key reused,", "other amount", "同键异额"],
            Self::NoticeStorm => ["notice", "×20 at once", "通知×20"],
            Self::LateClosed => ["closed races", "paid", "迟到关单"],
            Self::WrongAmount => ["wrong", "amount", "错额"],
            Self::EventTwice => ["event", "twice", "事件重投"],
        }
    }

    /// In one line.
    #[must_use]
    pub fn name(self) -> String {
        let [first, second, _] = self.heading();
        format!("{first} {second}")
    }

    pub(super) fn is_alone(self) -> bool {
        self == Self::LateClosed
    }

    /// Plays it on an order of its own. `fresh_keys`: retries bring new keys.
    pub(super) async fn play(self, stack: &Stack, fresh_keys: bool) -> Cell {
        let scene = Scene::new(stack);
        match self {
            Self::SameKey => same_key(scene, fresh_keys).await,
            Self::TwoDevices => two_devices(scene).await,
            Self::TwoAttempts => two_attempts(scene).await,
            Self::KeyReused => key_reused(scene).await,
            Self::NoticeStorm => notice_storm(scene).await,
            Self::LateClosed => late_closed(scene).await,
            Self::WrongAmount => wrong_amount(scene).await,
            Self::EventTwice => event_twice(scene).await,
        }
    }
}

/// One purchase, clicked and retried fifty times.
async fn same_key(mut scene: Scene<'_>, fresh_keys: bool) -> Cell {
    let keys = if fresh_keys { 50 } else { 1 };
    let requests: Vec<_> = (0..keys).map(|n| scene.request("O1", &format!("K{n}"))).collect();
    scene.storm(&requests).await;
    scene.pay_all().await;
    scene.end(1, 1).await
}

/// One order on two devices, each with a key of its own.
async fn two_devices(mut scene: Scene<'_>) -> Cell {
    let requests = [scene.request("O1", "phone"), scene.request("O1", "laptop")];
    scene.storm(&requests).await;
    scene.pay_all().await;
    scene.end(1, 1).await
}

/// Attempt 1 and attempt 2 of one order, at the same instant.
async fn two_attempts(mut scene: Scene<'_>) -> Cell {
    let requests = [1, 2].map(|attempt_no| CreatePaymentRequest {
        attempt_no,
        ..scene.request("O1", &format!("K{attempt_no}"))
    });
    let answers = join_all(requests.iter().map(|request| scene.answer(request))).await;
    let made = answers.iter().flatten().filter(|answer| answer.is_ok()).count();
    scene.expect(made == 1, &format!("{made} attempts live"));
    scene.pay_all().await;
    scene.end(1, 1).await
}

/// A client's fault: its stored key goes out with another amount, then for another order.
async fn key_reused(mut scene: Scene<'_>) -> Cell {
    let first = scene.request("O1", "K1");
    let made = scene.answer(&first).await;
    scene.expect(matches!(made, Some(Ok(_))), "the first use of the key was refused");
    let amount = Some(Money { amount: 2999, currency: "CNY".to_owned() });
    for request in [
        CreatePaymentRequest { amount: amount.clone(), ..first },
        CreatePaymentRequest { amount, ..scene.request("O2", "K1") },
    ] {
        let told = scene.answer(&request).await;
        let refused = matches!(told, Some(Err(Reason::IdempotencyKeyReused)));
        scene.expect(refused, &format!("the second use for {} was not refused as such", request.order_no));
    }
    scene.pay_all().await;
    scene.end(1, 1).await
}

/// The channel tells of one payment twenty times at once, the same bytes and with fresh nonces.
async fn notice_storm(mut scene: Scene<'_>) -> Cell {
    let Some(payment) = scene.begun().await else { return scene.end(1, 1).await };
    let silent = PayOptions { silent: true, ..PayOptions::default() };
    scene.stack.simulator.pay(&payment.pay_no, &silent).await;
    for fresh_nonces in [false, true] {
        let notice = DirectNotice {
            pay_no: Some(payment.pay_no.clone()),
            repeats: Some(20),
            parallel: Some(20),
            fresh_nonces,
            ..DirectNotice::default()
        };
        scene.notice(&notice).await;
    }
    scene.end(1, 1).await
}

/// *Paid* and an overtaken *closed* read the payment in process; both then want to move it. The row is held meanwhile, so that
/// they always meet.
async fn late_closed(mut scene: Scene<'_>) -> Cell {
    let Some(payment) = scene.begun().await else { return scene.end(1, 1).await };
    let silent = PayOptions { silent: true, ..PayOptions::default() };
    let simulator = &scene.stack.simulator;
    simulator.pay(&payment.pay_no, &silent).await;
    let paid = DirectNotice { pay_no: Some(payment.pay_no.clone()), ..DirectNotice::default() };
    let closed = DirectNotice { event: Some("payment.closed".to_owned()), ..paid.clone() };
    let mut hold = scene.stack.payments().begin().await.unwrap();
    sqlx::query("SELECT 1 FROM payment WHERE pay_no = $1 FOR UPDATE")
        .bind(&payment.pay_no)
        .execute(&mut *hold)
        .await
        .unwrap();
    let second = async {
        holds_within(MEET, async || waiting(scene.stack).await >= 1).await;
        simulator.notice(&closed).await
    };
    let release = async {
        holds_within(MEET, async || waiting(scene.stack).await >= 2).await;
        hold.commit().await.unwrap();
    };
    let (first, second, ()) = futures::join!(simulator.notice(&paid), second, release);
    for (notice, answers) in [(&paid, first), (&closed, second)] {
        if answers.iter().any(|answer| answer.status.is_none_or(|status| status >= 300)) {
            scene.notice(notice).await;
        }
    }
    let paid = "SELECT COUNT(*) FROM payment WHERE merchant_id = $1 AND state = 'SUCCESS'";
    let paid = scene.number(paid).await;
    scene.expect(paid == 1, "the payment is no longer paid");
    let ends = "SELECT COUNT(*) FROM payment_event
                WHERE partition_key LIKE $1 || ':%' AND from_state = 'PROCESSING'";
    let ends = scene.number(ends).await;
    scene.expect(ends == 1, &format!("the payment ended {ends} times"));
    scene.end(1, 1).await
}

/// Backends that wait for a lock.
async fn waiting(stack: &Stack) -> i64 {
    let waiting = "SELECT COUNT(DISTINCT w.pid) FROM pg_locks w
                   WHERE NOT w.granted AND w.pid IN
                       (SELECT l.pid FROM pg_locks l
                        JOIN pg_database d ON d.oid = l.database AND d.datname = current_database())";
    crate::count(stack.payments(), waiting).await
}

/// A notice of another amount, then the true one: the first is booked to suspense, the second pays.
async fn wrong_amount(mut scene: Scene<'_>) -> Cell {
    let Some(payment) = scene.begun().await else { return scene.end(1, 2).await };
    let silent = PayOptions { silent: true, ..PayOptions::default() };
    scene.stack.simulator.pay(&payment.pay_no, &silent).await;
    let wrong = DirectNotice {
        pay_no: Some(payment.pay_no.clone()),
        channel_txn_id: Some(test_kit::unique("X")),
        amount: Some(1),
        ..DirectNotice::default()
    };
    scene.notice(&wrong).await;
    let state = scene.stack.caller().get(&scene.merchant, &payment.pay_no).await.state();
    scene.expect(state == PaymentState::Processing, "another amount paid the order");
    let right = DirectNotice { pay_no: Some(payment.pay_no), ..DirectNotice::default() };
    scene.notice(&right).await;
    scene.end(1, 2).await
}

/// The broker delivers a booked event once more, as a relay that died after the acknowledgement would have it.
async fn event_twice(mut scene: Scene<'_>) -> Cell {
    let Some(payment) = scene.begun().await else { return scene.end(1, 1).await };
    scene.pay_all().await;
    scene.wait_booked().await;
    let topic = &scene.stack.topic;
    let records = topic.records().await;
    let key = format!("PAY_SUCCEEDED:{}", payment.pay_no);
    let Some(record) = records.iter().find(|record| record.header(header::ID) == Some(key.as_str())) else {
        scene.expect(false, "the event is not in the topic");
        return scene.end(1, 1).await;
    };
    let copy = Record {
        topic: topic.name(),
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: record.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect(),
    };
    let producer = Producer::connect(&ProducerSettings::new(scene.stack.brokers())).unwrap();
    producer.send(copy).await.unwrap();
    let read = holds_within(READ, async || topic.unread(topic.name()).await == 0).await;
    scene.expect(read, "the copy was not read");
    scene.end(1, 1).await
}
