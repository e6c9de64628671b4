//! What operators do with `payctl`, as they run it.

use std::process::{Command, Output};

use channel_simulator::PayOptions;
use contract::order::{Payment, PaymentState};
use e2e::{Stack, Wish, count, request};
use test_kit::{merchant, process, unique, wait_for};

/// Runs `payctl` on this stack's databases.
async fn payctl(stack: &Stack, words: &[&str]) -> Output {
    let mut command = Command::new(process::program("payctl"));
    command
        .args(words)
        .env("PAYMENT_DATABASE_URL", stack.payment.url_as("oncepay").expose())
        .env("LEDGER_DATABASE_URL", stack.ledger.url_as("oncepay").expose())
        .env("PAYMENT_CORE_URL", stack.core_url())
        .env("KAFKA_BROKERS", stack.brokers());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn paid(stack: &Stack, order: &str) -> Payment {
    let payment = stack.caller().pay(&request(merchant().as_str(), order, &unique("key"))).await;
    stack.simulator.pay(&payment.pay_no, &PayOptions::default()).await;
    wait_for("the payment to be paid", || async {
        stack.caller().get(&payment.merchant_id, &payment.pay_no).await.state() == PaymentState::Success
    })
    .await;
    payment
}

/// One screen, found by number and by order: key, words, events, entry. Fails when a gate is left out of the trace.
#[tokio::test(flavor = "multi_thread")]
async fn a_trace_shows_a_payment_through_every_gate() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let payment = paid(&stack, "O-trace").await;
    stack.wait_booked().await;
    for what in [payment.pay_no.as_str(), "O-trace"] {
        let output = payctl(&stack, &["trace", what]).await;
        let screen = text(&output);
        assert!(output.status.success(), "{screen}");
        let parts = [
            &payment.pay_no,
            "SUCCESS",
            "PAY:CREATE:",
            "NOTICE",
            "PAY_CREATED",
            "PAY_SUCCEEDED",
            "sent",
            "clearing:",
        ];
        for part in parts {
            assert!(screen.contains(part), "{part} is missing:\n{screen}");
        }
    }
    assert!(!payctl(&stack, &["trace", "nothing-of-this-name"]).await.status.success());
}

/// Clean books pass; evidence taken away is found, with the row, and ends with status 1. Fails when a broken invariant is
/// printed and passed over.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_finds_what_is_broken_and_says_so_by_its_status() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let payment = paid(&stack, "O1").await;
    stack.wait_booked().await;
    let clean = payctl(&stack, &["audit"]).await;
    assert!(clean.status.success(), "{}", text(&clean));
    sqlx::query("DELETE FROM callback_log").execute(stack.payments()).await.unwrap();
    let broken = payctl(&stack, &["audit"]).await;
    assert_eq!(broken.status.code(), Some(1), "{}", text(&broken));
    assert!(text(&broken).contains(&payment.pay_no));
}

/// A parked event is listed with what waits behind it, put back, or left out with a reason and a name. Fails when a skip
/// leaves no trace, or needs no reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_event_is_listed_retried_and_skipped_with_a_reason() {
    let stack = Stack::start(Wish::default()).await;
    let payment = paid(&stack, "O1").await;
    let park = "WITH first AS (DELETE FROM outbox WHERE event_id = (SELECT MIN(event_id) FROM outbox) RETURNING *)
                INSERT INTO outbox_parked (bucket, event_id, shard, partition_key, error, tries)
                SELECT f.bucket, f.event_id, f.shard, e.partition_key, 'too large', 2
                FROM first f JOIN payment_event e ON e.bucket = f.bucket AND e.event_id = f.event_id RETURNING event_id";
    let event: i64 = sqlx::query_scalar(park).fetch_one(stack.payments()).await.unwrap();
    let event = event.to_string();
    let list = text(&payctl(&stack, &["outbox", "list"]).await);
    assert!(list.contains(&payment.pay_no) && list.contains("held behind it 1"), "{list}");
    assert!(payctl(&stack, &["outbox", "retry", &event]).await.status.success());
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM outbox").await, 2);
    assert!(
        !payctl(&stack, &["outbox", "retry", &event]).await.status.success(),
        "nothing is parked any more"
    );
    sqlx::query_scalar::<_, i64>(park).fetch_one(stack.payments()).await.unwrap();
    let nameless = payctl(&stack, &["outbox", "skip", &event, "--reason", " ", "--by", "ann"]).await;
    assert!(!nameless.status.success());
    let skip =
        payctl(&stack, &["outbox", "skip", &event, "--reason", "only PAY_CREATED", "--by", "ann"]).await;
    assert!(skip.status.success(), "{}", text(&skip));
    let kept = "SELECT COUNT(*) FROM anomaly WHERE kind = 'EVENT_SKIPPED' AND resolved_by = 'ann'";
    assert_eq!(count(stack.payments(), kept).await, 1);
    stack.start_relay().await;
    stack.start_consumer().await;
    stack.wait_booked().await;
}

/// Stored words applied again have no second effect. Fails when replay goes past the settle path.
#[tokio::test(flavor = "multi_thread")]
async fn stored_notices_replayed_change_nothing_twice() {
    let stack = Stack::start(Wish::default()).await;
    let payment = paid(&stack, "O1").await;
    let events = count(stack.payments(), "SELECT COUNT(*) FROM payment_event").await;
    let replay = payctl(&stack, &["notice", "replay", &payment.pay_no]).await;
    assert!(replay.status.success() && text(&replay).contains("DUPLICATE"), "{}", text(&replay));
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM payment_event").await, events);
}

/// The topic from its first record into an empty database gives the same ledger; an entry that no record explains is
/// found. Fails when the comparison passes over a fact.
#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_rebuilt_from_the_topic_is_the_same() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    for order in ["O1", "O2", "O3"] {
        paid(&stack, order).await;
    }
    stack.wait_booked().await;
    let words = ["ledger", "rebuild", "--check", "--topic", stack.topic.name(), "--quiet-seconds", "6"];
    let same = payctl(&stack, &words).await;
    assert!(same.status.success(), "{}", text(&same));
    sqlx::query(
        "WITH e AS (INSERT INTO entry (msg_key, kind, merchant_id, order_no, pay_no, occurred_at)
                    VALUES ('INVENTED', 'PAY_SUCCEEDED', 'M', 'O', 'P', now()) RETURNING entry_id),
              a AS (SELECT code, normal_side, ROW_NUMBER() OVER (ORDER BY code) AS line_no FROM account ORDER BY code LIMIT 2)
         INSERT INTO posting SELECT e.entry_id, a.line_no, a.code, CASE a.line_no WHEN 1 THEN 'D' ELSE 'C' END, 5, 'CNY' FROM e, a",
    )
    .execute(stack.books())
    .await
    .unwrap();
    let differs = payctl(&stack, &words).await;
    assert_eq!(differs.status.code(), Some(1), "{}", text(&differs));
    assert!(text(&differs).contains("only in the ledger: INVENTED"), "{}", text(&differs));
}
