//! Notices repeated, forged, late, for another amount, for nobody: one effect, evidence committed.

use channel_simulator::{DirectNotice, PayOptions, Received, Signature};
use contract::order::{Payment, PaymentState};
use e2e::{Stack, Wish, count, request};
use test_kit::{merchant, unique, wait_for};

/// What the generic channel hears when its notice was taken.
const ACCEPTED: u16 = 204;

/// A payment in process whose order stands at the channel.
async fn begun(stack: &Stack) -> Payment {
    stack.caller().pay(&request(merchant().as_str(), "O1", &unique("key"))).await
}

fn about(payment: &Payment) -> DirectNotice {
    DirectNotice {
        pay_no: Some(payment.pay_no.clone()),
        channel_txn_id: Some(unique("T")),
        ..Default::default()
    }
}

async fn state(stack: &Stack, payment: &Payment) -> PaymentState {
    stack.caller().get(&payment.merchant_id, &payment.pay_no).await.state()
}

async fn anomalies(stack: &Stack, kind: &str) -> i64 {
    sqlx::query_scalar("SELECT COUNT(*) FROM anomaly WHERE kind = $1 AND state = 'OPEN'")
        .bind(kind)
        .fetch_one(stack.payments())
        .await
        .unwrap()
}

fn statuses(answers: &[Received]) -> Vec<u16> {
    answers.iter().filter_map(|answer| answer.status).collect()
}

/// Twenty copies at once: the payment moves once. Fails when the compare-and-set is blind (the unique keys of event and
/// evidence then still hold the rest), and without the business state's check.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_twenty_times_in_parallel_has_one_effect() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let payment = begun(&stack).await;
    let before = wait_for("the channel's answer to be stored", || async {
        let now = stack.caller().get(&payment.merchant_id, &payment.pay_no).await;
        now.credential.is_some().then_some(now.version)
    })
    .await;
    for fresh_nonces in [false, true] {
        let notice = DirectNotice {
            channel_txn_id: Some("T1".into()),
            repeats: Some(20),
            parallel: Some(20),
            fresh_nonces,
            ..about(&payment)
        };
        let answers = stack.simulator.notice(&notice).await;
        let told = statuses(&answers);
        assert!(told.len() == 20 && told.iter().all(|status| (200..300).contains(status)), "{answers:?}");
    }
    let after = stack.caller().get(&payment.merchant_id, &payment.pay_no).await;
    assert_eq!((after.state(), after.version), (PaymentState::Success, before + 1));
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM callback_log").await, 1);
    assert_eq!(
        count(stack.payments(), "SELECT COUNT(*) FROM payment_event WHERE type = 'PAY_SUCCEEDED'").await,
        1
    );
    stack.wait_booked().await;
    assert_eq!(count(stack.books(), "SELECT COUNT(*) FROM entry").await, 1);
    assert_eq!(audit::audit(stack.payments(), stack.books()).await.unwrap(), []);
}

/// Fails when any of the checks at the edge is left out, or when their evidence is.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_believed_changes_nothing_and_is_kept() {
    let stack = Stack::start(Wish::default()).await;
    let payment = begun(&stack).await;
    for (notice, kind) in [
        (DirectNotice { signature: Signature::Wrong, ..about(&payment) }, "SIGNATURE_INVALID"),
        (DirectNotice { signature: Signature::Missing, ..about(&payment) }, "SIGNATURE_INVALID"),
        (DirectNotice { timestamp_offset_s: -301, ..about(&payment) }, "TIMESTAMP_OUTSIDE_WINDOW"),
        (DirectNotice { timestamp_offset_s: 310, ..about(&payment) }, "TIMESTAMP_OUTSIDE_WINDOW"),
        (DirectNotice { key_id: Some("nobody".into()), ..about(&payment) }, "KEY_UNKNOWN"),
        (DirectNotice { body: Some("{\"pay_no\":".into()), ..about(&payment) }, "NOTICE_MALFORMED"),
    ] {
        let answers = stack.simulator.notice(&notice).await;
        assert!(statuses(&answers).iter().all(|status| (400..500).contains(status)), "{kind}: {answers:?}");
        wait_for(&format!("evidence of {kind}"), || async { anomalies(&stack, kind).await > 0 }).await;
    }
    assert_eq!(state(&stack, &payment).await, PaymentState::Processing);
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM callback_log").await, 0);
}

/// A nonce with another body is refused; the same notice again is a repeat. Fails when nonces are not remembered.
#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_used_for_another_body_is_refused() {
    let stack = Stack::start(Wish::default()).await;
    let payment = begun(&stack).await;
    let first =
        DirectNotice { nonce: Some(unique("nonce")), notify_id: Some("N1".into()), ..about(&payment) };
    let first = DirectNotice { occurred_at: Some("2026-01-01T12:00:05+08:00".into()), ..first };
    assert_eq!(statuses(&stack.simulator.notice(&first).await), [ACCEPTED]);
    assert_eq!(statuses(&stack.simulator.notice(&first).await), [ACCEPTED], "the same notice again");
    let other = DirectNotice { event: Some("payment.closed".into()), ..first };
    let answers = stack.simulator.notice(&other).await;
    assert!(statuses(&answers).iter().all(|status| (400..500).contains(status)), "{answers:?}");
    assert_eq!(anomalies(&stack, "NONCE_REUSED").await, 1);
    assert_eq!(state(&stack, &payment).await, PaymentState::Success);
}

/// Money of another amount goes to suspense, a person is told, the payment waits. When the channel then tells the right
/// amount for the same transaction, the money moves from suspense to the merchant. Fails when the amount is not compared.
#[tokio::test(flavor = "multi_thread")]
async fn another_amount_never_pays_and_never_counts_twice() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let payment = begun(&stack).await;
    let wrong = DirectNotice { channel_txn_id: Some("T1".into()), amount: Some(1), ..about(&payment) };
    for _ in 0..2 {
        assert_eq!(
            statuses(&stack.simulator.notice(&wrong).await),
            [ACCEPTED],
            "after the evidence is committed"
        );
    }
    assert_eq!(state(&stack, &payment).await, PaymentState::Processing);
    assert_eq!(anomalies(&stack, "AMOUNT_MISMATCH").await, 1);
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM unexpected_receipt").await, 1);
    stack.wait_booked().await;
    assert_eq!(balance(&stack, "suspense:").await, 1);
    let right = DirectNotice { channel_txn_id: Some("T1".into()), amount: Some(1999), ..about(&payment) };
    assert_eq!(statuses(&stack.simulator.notice(&right).await), [ACCEPTED]);
    assert_eq!(state(&stack, &payment).await, PaymentState::Success);
    stack.wait_booked().await;
    assert_eq!(balance(&stack, "suspense:").await, 0);
    assert_eq!(balance(&stack, "payable:").await, 1999);
    assert_eq!(audit::audit(stack.payments(), stack.books()).await.unwrap(), []);
}

async fn balance(stack: &Stack, prefix: &str) -> i64 {
    sqlx::query_scalar(
        "SELECT COALESCE(SUM(credit - debit), 0)::BIGINT FROM account_balance WHERE account_code LIKE $1 || '%'",
    )
    .bind(prefix)
    .fetch_one(stack.books())
    .await
    .unwrap()
}

/// A second transaction for a paid order, and money for a closed one: booked to suspense once, and sent back once, so that
/// suspense is empty again. Fails when a late success is answered and forgotten, or when its refund is not written with it.
#[tokio::test(flavor = "multi_thread")]
async fn money_that_nobody_wanted_is_booked_once() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let payment = begun(&stack).await;
    stack.simulator.pay(&payment.pay_no, &PayOptions::default()).await;
    wait_for("the payment to be paid", || async { state(&stack, &payment).await == PaymentState::Success })
        .await;
    let silent = PayOptions { silent: true, ..Default::default() };
    stack.simulator.pay_again(&payment.pay_no, &silent).await;
    let second = DirectNotice {
        channel_txn_id: stack.simulator.order(&payment.pay_no).await.channel_txn_ids.pop(),
        repeats: Some(5),
        parallel: Some(5),
        ..about(&payment)
    };
    assert_eq!(statuses(&stack.simulator.notice(&second).await), [ACCEPTED; 5]);
    let other = stack.caller().pay(&request(merchant().as_str(), "O2", &unique("key"))).await;
    let closed = DirectNotice { event: Some("payment.closed".into()), ..about(&other) };
    assert_eq!(statuses(&stack.simulator.notice(&closed).await), [ACCEPTED]);
    assert_eq!(state(&stack, &other).await, PaymentState::Closed);
    stack.simulator.pay(&other.pay_no, &silent).await;
    let late = DirectNotice {
        channel_txn_id: stack.simulator.order(&other.pay_no).await.channel_txn_id,
        ..about(&other)
    };
    assert_eq!(statuses(&stack.simulator.notice(&late).await), [ACCEPTED]);
    assert_eq!(state(&stack, &other).await, PaymentState::Closed, "a terminal state is never left");
    let reasons: Vec<String> = sqlx::query_scalar("SELECT reason FROM unexpected_receipt ORDER BY reason")
        .fetch_all(stack.payments())
        .await
        .unwrap();
    assert_eq!(reasons, ["LATE_SUCCESS", "SECOND_TRANSACTION"]);
    stack.wait_booked().await;
    assert_eq!(count(stack.books(), "SELECT COUNT(*) FROM entry WHERE kind = 'RECEIPT_UNEXPECTED'").await, 2);
    assert_eq!((balance(&stack, "suspense:").await, balance(&stack, "transit:").await), (0, 0));
    assert_eq!(statuses(&stack.simulator.notice(&second).await), [ACCEPTED; 5], "after its money went back");
    stack.wait_booked().await;
    let book = stack.simulator.book().await;
    assert_eq!((book.totals.refunds, book.totals.refunded["CNY"]), (2, 2 * 1999));
    assert!(book.orders.iter().all(|order| order.refunds == 1 && order.refunded == 1999), "{book:?}");
    assert_eq!(audit::audit(stack.payments(), stack.books()).await.unwrap(), []);
}

/// A late *closed* after *paid* changes nothing; the channel hears success. Fails when a late word is judged as a move: then the
/// compare-and-set passes it, and `tr_terminal_state` refuses it. (Words at one instant: `settle_test.rs`.)
#[tokio::test(flavor = "multi_thread")]
async fn a_late_closed_never_undoes_paid() {
    let stack = Stack::start(Wish::default()).await;
    let payment = begun(&stack).await;
    assert_eq!(statuses(&stack.simulator.notice(&about(&payment)).await), [ACCEPTED]);
    let version = stack.caller().get(&payment.merchant_id, &payment.pay_no).await.version;
    for event in ["payment.closed", "payment.failed"] {
        let late = DirectNotice { event: Some(event.into()), ..about(&payment) };
        assert_eq!(statuses(&stack.simulator.notice(&late).await), [ACCEPTED]);
    }
    let after = stack.caller().get(&payment.merchant_id, &payment.pay_no).await;
    assert_eq!((after.state(), after.version), (PaymentState::Success, version));
}

/// A notice for an unknown number is refused and kept. Fails when orphans are answered with success or forgotten. (That they
/// are applied later: `jobs.rs`.)
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_for_nobody_is_refused_and_kept() {
    let stack = Stack::start(Wish::default()).await;
    let payment = begun(&stack).await;
    let mut unknown = payment.pay_no.clone();
    unknown.replace_range(5..8, "000");
    let notice = DirectNotice {
        pay_no: Some(unknown),
        merchant_id: Some("M".into()),
        amount: Some(1999),
        currency: Some("CNY".into()),
        ..about(&payment)
    };
    for _ in 0..3 {
        let answers = stack.simulator.notice(&notice).await;
        assert!(statuses(&answers).iter().all(|status| (400..500).contains(status)), "{answers:?}");
    }
    let kept = "SELECT COALESCE(SUM(seen_count), 0)::BIGINT FROM orphan_notice WHERE state = 'WAITING'";
    assert_eq!(count(stack.payments(), kept).await, 3);
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM orphan_notice").await, 1);
}

/// The notice of one account for a payment of another: no change, an anomaly, refused. Fails when only the signature is
/// checked.
#[tokio::test(flavor = "multi_thread")]
async fn another_accounts_notice_changes_nothing() {
    let stack = Stack::start(Wish::default()).await;
    let payment = begun(&stack).await;
    let foreign = DirectNotice {
        account: Some("second".into()),
        url: Some(stack.notify_url("second")),
        ..about(&payment)
    };
    let answers = stack.simulator.notice(&foreign).await;
    assert!(statuses(&answers).iter().all(|status| (400..500).contains(status)), "{answers:?}");
    assert_eq!(anomalies(&stack, "CROSS_ACCOUNT").await, 1);
    assert_eq!(state(&stack, &payment).await, PaymentState::Processing);
}

/// The notice never comes; the query job asks and settles by the same path. Fails when the job is removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_notice_is_found_by_asking() {
    let stack = Stack::start(Wish { first_look_s: 1, ..Wish::default() }).await;
    let payment = begun(&stack).await;
    stack.simulator.pay(&payment.pay_no, &PayOptions { silent: true, ..Default::default() }).await;
    wait_for("the query job to settle", || async { state(&stack, &payment).await == PaymentState::Success })
        .await;
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM callback_log WHERE source = 'QUERY'").await, 1);
}
