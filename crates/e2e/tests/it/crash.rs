//! Processes that die between two statements, as `kill -9` would have it: nothing lost, nothing twice.

use channel_simulator::{DirectNotice, PayOptions};
use contract::order::PaymentState;
use e2e::{Stack, Wish, count, request};
use test_kit::{Process, merchant, unique, wait_for};

/// The core as a process that dies at a named point.
fn core_dying_at(point: &str) -> Wish {
    let variable = ("ONCEPAY_KILL_POINT".to_owned(), point.to_owned());
    Wish { core_process: Some(vec![variable]), first_look_s: 1, ..Wish::default() }
}

/// Dies between the commit and the channel call. After the restart the payment is sent once, under the same number. Fails
/// when the sweep is removed, or when it makes a new number.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_was_committed_and_not_sent_is_sent_once() {
    let mut stack = Stack::start(core_dying_at("payment_core.dispatch.before_call")).await;
    let request = request(merchant().as_str(), "O1", &unique("key"));
    let told = stack.caller().create(request.clone()).await;
    assert!(told.is_err(), "the core died before it could answer: {told:?}");
    stack.core.as_mut().unwrap().wait_exit().await;
    let committed: String =
        sqlx::query_scalar("SELECT pay_no FROM payment").fetch_one(stack.payments()).await.unwrap();
    assert_eq!(stack.simulator.book().await.totals.orders, 0, "the channel was not called");
    stack.restart_core_process().await;
    wait_for("the sweep to send it", || async { stack.simulator.book().await.totals.orders == 1 }).await;
    let payment = stack.caller().pay(&request).await;
    assert_eq!(payment.pay_no, committed);
    let book = stack.simulator.book().await;
    assert_eq!((book.totals.orders, book.orders[0].pay_no.as_str()), (1, committed.as_str()));
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM payment").await, 1);
}

/// Dies at every point of create, dispatch and settle in turn. Fails when two of the statements part, or when a mark is
/// committed apart from its effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_dies_anywhere_charges_once_and_loses_nothing() {
    for point in [
        "payment_core.create.after_claim",
        "payment_core.create.after_payment",
        "payment_core.create.after_event",
        "payment_core.create.before_commit",
        "payment_core.create.after_commit",
        "payment_core.dispatch.after_call",
        "payment_core.dispatch.after_store",
        "payment_core.settle.after_nonce",
        "payment_core.settle.after_read",
        "payment_core.settle.after_cas",
        "payment_core.settle.after_receipt",
        "payment_core.settle.after_callback_log",
        "payment_core.settle.after_event",
        "payment_core.settle.before_commit",
        "payment_core.settle.after_commit",
    ] {
        let mut stack = Stack::start(core_dying_at(point)).await;
        let request = request(merchant().as_str(), "O1", &unique("key"));
        let first = stack.caller().create(request.clone()).await;
        if point.contains("settle") {
            let payment = first.unwrap().payment.unwrap();
            stack.simulator.pay(&payment.pay_no, &PayOptions::default()).await;
        }
        stack.core.as_mut().unwrap().wait_exit().await;
        stack.restart_core_process().await;
        let payment = stack.caller().pay(&request).await;
        wait_for(&format!("the order at the channel ({point})"), || async {
            stack.simulator.book().await.totals.orders == 1
        })
        .await;
        if !point.contains("settle") {
            stack.simulator.pay(&payment.pay_no, &PayOptions::default()).await;
        }
        wait_for(&format!("the payment to be paid ({point})"), || async {
            stack.caller().get(&payment.merchant_id, &payment.pay_no).await.state() == PaymentState::Success
        })
        .await;
        let totals = stack.simulator.book().await.totals;
        assert_eq!((totals.orders, totals.charges), (1, 1), "{point}");
        let facts = "SELECT COUNT(*) FROM payment_event WHERE type = 'PAY_SUCCEEDED'";
        assert_eq!(count(stack.payments(), facts).await, 1, "{point}");
        assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM payment").await, 1, "{point}");
    }
}

/// The relay dies after the broker's acknowledgement: the event is sent again, booked once. Fails when the consumer does
/// not dedupe.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_dies_after_the_acknowledgement_books_once() {
    let stack = Stack::start(Wish::default()).await;
    paid(&stack).await;
    let mut relay = spawn("outbox-relay", &relay_settings(&stack, "outbox_relay.publish.after_ack"));
    relay.wait_exit().await;
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM outbox").await, 2, "nothing was deleted");
    stack.start_relay().await;
    stack.start_consumer().await;
    stack.wait_booked().await;
    wait_for("the second copy", || async { stack.topic.records().await.len() >= 4 }).await;
    once(&stack).await;
}

/// The consumer dies after its commit and before the offset's: delivered again, booked once. Fails when the dedupe mark is
/// not in the transaction of the posting.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_dies_before_its_offset_commit_books_once() {
    let stack = Stack::start(Wish::default()).await;
    paid(&stack).await;
    stack.start_relay().await;
    stack.topic.wait_for_records(2).await;
    for point in ["ledger_consumer.apply.after_claim", "ledger_consumer.apply.after_commit"] {
        let mut consumer = spawn("ledger-consumer", &consumer_settings(&stack, point));
        consumer.wait_exit().await;
    }
    assert_eq!(count(stack.books(), "SELECT COUNT(*) FROM entry").await, 1);
    stack.start_consumer().await;
    wait_for("the copy to be known", || async {
        // The group has committed past the records once it has seen them again.
        count(stack.books(), "SELECT COUNT(*) FROM entry").await == 1
    })
    .await;
    let next = DirectNotice {
        channel_txn_id: Some("T2".into()),
        pay_no: Some(pay_no(&stack).await),
        ..Default::default()
    };
    stack.simulator.notice(&next).await;
    stack.wait_booked().await;
    assert_eq!(count(stack.books(), "SELECT COUNT(*) FROM entry WHERE kind = 'PAY_SUCCEEDED'").await, 1);
    assert_eq!(count(stack.books(), "SELECT COUNT(*) FROM entry WHERE kind = 'RECEIPT_UNEXPECTED'").await, 1);
    assert_eq!(audit::audit(stack.payments(), stack.books()).await.unwrap(), []);
}

async fn pay_no(stack: &Stack) -> String {
    sqlx::query_scalar("SELECT pay_no FROM payment").fetch_one(stack.payments()).await.unwrap()
}

/// One payment, paid; its two events wait in the outbox.
async fn paid(stack: &Stack) {
    let payment = stack.caller().pay(&request(merchant().as_str(), "O1", &unique("key"))).await;
    stack.simulator.pay(&payment.pay_no, &PayOptions::default()).await;
    wait_for("the payment to be paid", || async {
        stack.caller().get(&payment.merchant_id, &payment.pay_no).await.state() == PaymentState::Success
    })
    .await;
}

async fn once(stack: &Stack) {
    assert_eq!(count(stack.books(), "SELECT COUNT(*) FROM entry").await, 1);
    assert_eq!(count(stack.books(), "SELECT COUNT(*) FROM parked_message").await, 0);
    assert_eq!(audit::audit(stack.payments(), stack.books()).await.unwrap(), []);
}

fn spawn(service: &str, settings: &[(String, String)]) -> Process {
    let settings: Vec<(&str, &str)> =
        settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Process::spawn(service, &settings)
}

fn relay_settings(stack: &Stack, point: &str) -> Vec<(String, String)> {
    settings(stack, "OUTBOX_RELAY", stack.payment.url_as("outbox_relay").expose(), point)
}

fn consumer_settings(stack: &Stack, point: &str) -> Vec<(String, String)> {
    let mut settings =
        settings(stack, "LEDGER_CONSUMER", stack.ledger.url_as("ledger_consumer").expose(), point);
    settings.push(("ONCEPAY_LEDGER_CONSUMER__GROUP_ID".into(), stack.topic.name().into()));
    settings
}

fn settings(stack: &Stack, service: &str, database_url: &str, point: &str) -> Vec<(String, String)> {
    vec![
        (format!("ONCEPAY_{service}__DATABASE_URL"), database_url.to_owned()),
        (format!("ONCEPAY_{service}__KAFKA_BROKERS"), stack.brokers()),
        (format!("ONCEPAY_{service}__TOPIC"), stack.topic.name().to_owned()),
        ("ONCEPAY_KILL_POINT".to_owned(), point.to_owned()),
    ]
}
