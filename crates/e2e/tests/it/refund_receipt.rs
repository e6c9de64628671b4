//! Money that nobody wanted goes back by itself: once, under one number, whatever repeats, is lost, or dies on the way.

use channel_simulator::{DirectNotice, PayOptions, Plan, Received, RefundFaults, RefundStatus};
use contract::order::{Payment, PaymentState};
use e2e::{Stack, Wish, count, request};
use futures::{StreamExt as _, stream};
use test_kit::{merchant, unique, wait_for};

/// A payment that was closed, and whose order was then paid at the channel, which tells of it by `options`.
async fn paid_late(stack: &Stack, options: &PayOptions) -> Payment {
    let payment = stack.caller().pay(&request(merchant().as_str(), "O1", &unique("key"))).await;
    stack.simulator.close(&payment.pay_no).await;
    wait_for("the payment to be closed", || async {
        stack.caller().get(&payment.merchant_id, &payment.pay_no).await.state() == PaymentState::Closed
    })
    .await;
    stack.simulator.pay_again(&payment.pay_no, options).await;
    payment
}

/// The notice of the late payment, to be sent by the test.
async fn late(stack: &Stack, payment: &Payment) -> DirectNotice {
    DirectNotice {
        pay_no: Some(payment.pay_no.clone()),
        channel_txn_id: stack.simulator.order(&payment.pay_no).await.channel_txn_id,
        ..Default::default()
    }
}

fn silent() -> PayOptions {
    PayOptions { silent: true, ..Default::default() }
}

fn accepted(answers: &[Received]) -> bool {
    answers.iter().all(|answer| answer.status == Some(204))
}

/// Sends all copies at once, and again while one of them is told to come again, as it may be on a busy machine.
async fn tell(stack: &Stack, notice: &DirectNotice) {
    wait_for("every copy to be taken", || async {
        let answers = stack.simulator.notice(notice).await;
        assert!(answers.iter().all(|answer| matches!(answer.status, Some(204 | 503))), "{answers:?}");
        accepted(&answers)
    })
    .await;
}

async fn refund_state(stack: &Stack) -> Option<String> {
    sqlx::query_scalar("SELECT state FROM refund").fetch_optional(stack.payments()).await.unwrap()
}

async fn wait_refund(stack: &Stack, state: &str, told: &str) {
    wait_for(&format!("the refund to be {state} ({told})"), || async {
        refund_state(stack).await.as_deref() == Some(state)
    })
    .await;
}

/// One refund everywhere: our row, the channel's book, one entry for its leaving and one for its end.
async fn went_back_once(stack: &Stack, told: &str) {
    let rows = "SELECT COUNT(*) FROM refund WHERE state = 'SUCCESS'";
    assert_eq!(count(stack.payments(), rows).await, 1, "{told}");
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM refund").await, 1, "{told}");
    let receipts =
        "SELECT COUNT(*) FROM unexpected_receipt WHERE state = 'REFUNDED' AND refund_no IS NOT NULL";
    assert_eq!(count(stack.payments(), receipts).await, 1, "{told}");
    let book = stack.simulator.book().await;
    assert_eq!((book.totals.refunds, book.totals.refunded["CNY"]), (1, 1999), "{told}");
    stack.wait_booked().await;
    let entries: Vec<(String, bool)> =
        sqlx::query_as("SELECT kind, refund_no IS NOT NULL FROM entry ORDER BY kind")
            .fetch_all(stack.books())
            .await
            .unwrap();
    let entries: Vec<_> = entries.iter().map(|(kind, numbered)| (kind.as_str(), *numbered)).collect();
    assert_eq!(
        entries,
        [("RECEIPT_UNEXPECTED", false), ("REFUND_SUBMITTED", true), ("REFUND_SUCCEEDED", true)],
        "{told}"
    );
    let left = "SELECT COUNT(*) FROM (SELECT 1 FROM account_balance GROUP BY account_code
                                      HAVING SUM(debit) <> SUM(credit)) AS open";
    assert_eq!(count(stack.books(), left).await, 0, "nothing is left in any account: {told}");
    assert_eq!(audit::audit(stack.payments(), stack.books()).await.unwrap(), [], "{told}");
}

/// The notice of a late success twenty times at once, and again after the money went back; the refund's own notice five
/// times. Fails without `uk_receipt` on the receipt (the refund is written only with a new one), and when a refund's notice
/// is taken for the payment's.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_success_is_sent_back_once_however_often_it_is_told() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    stack.simulator.plan(&Plan { notice_repeats: 5, ..Plan::default() }).await;
    let payment = paid_late(&stack, &silent()).await;
    let notice = DirectNotice {
        repeats: Some(20),
        parallel: Some(20),
        fresh_nonces: true,
        ..late(&stack, &payment).await
    };
    tell(&stack, &notice).await;
    wait_refund(&stack, "SUCCESS", "told twenty times").await;
    // After the money went back.
    tell(&stack, &notice).await;
    wait_for("the refund's own notices", || async {
        stack.simulator.book().await.totals.refund_notices_sent == 5
    })
    .await;
    went_back_once(&stack, "told forty times").await;
    let after = stack.caller().get(&payment.merchant_id, &payment.pay_no).await;
    assert_eq!((after.state(), after.refunded), (PaymentState::Closed, 0), "the payment is not touched");
    assert_eq!(stack.simulator.book().await.refunds[0].calls, 1);
}

/// The channel gives the money back and says 500, or nothing: the refund is found by asking, and not sent again. Fails when
/// no answer counts as a failure, or when the job sends again without asking.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_whose_answer_is_lost_is_found_by_asking() {
    for fault in ["error", "drop", "hang"] {
        let stack = Stack::start(Wish { books: true, first_look_s: 1, ..Wish::default() }).await;
        let percent = |is: &str| if fault == is { 100 } else { 0 };
        let refund = RefundFaults {
            silent_percent: 100,
            error_after_commit_percent: percent("error"),
            drop_after_commit_percent: percent("drop"),
            hang_after_commit_percent: percent("hang"),
            ..RefundFaults::default()
        };
        stack.simulator.plan(&Plan { refund, ..Plan::default() }).await;
        paid_late(&stack, &PayOptions::default()).await;
        wait_refund(&stack, "SUCCESS", fault).await;
        went_back_once(&stack, fault).await;
        let book = stack.simulator.book().await;
        assert_eq!((book.totals.refund_calls, book.refunds[0].calls), (1, 1), "{fault}");
        assert!(book.refunds[0].query_calls >= 1, "{fault}");
    }
}

/// The channel says 500 and did nothing: the same refund is sent again under the same number. Fails when the job only asks,
/// or makes a new number.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_the_channel_does_not_know_is_sent_again_under_its_number() {
    let stack = Stack::start(Wish { books: true, first_look_s: 1, ..Wish::default() }).await;
    let refund = RefundFaults { error_before_commit_percent: 100, ..RefundFaults::default() };
    stack.simulator.plan(&Plan { refund, ..Plan::default() }).await;
    paid_late(&stack, &PayOptions::default()).await;
    wait_for("the first call", || async { stack.simulator.book().await.totals.refund_calls >= 1 }).await;
    assert_eq!(stack.simulator.book().await.totals.refunds, 0);
    stack.simulator.plan(&Plan::default()).await;
    wait_refund(&stack, "SUCCESS", "sent again").await;
    went_back_once(&stack, "sent again").await;
    let ours: String =
        sqlx::query_scalar("SELECT refund_no FROM refund").fetch_one(stack.payments()).await.unwrap();
    assert_eq!(stack.simulator.book().await.refunds[0].refund_no, ours);
}

/// Taken first and done later: `PROCESSING`, then the notice ends it. Fails when *taken* counts as done.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_takes_time_ends_by_its_notice() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let refund = RefundFaults { done_ms: [1_500, 1_500], ..RefundFaults::default() };
    stack.simulator.plan(&Plan { refund, ..Plan::default() }).await;
    paid_late(&stack, &PayOptions::default()).await;
    wait_refund(&stack, "PROCESSING", "taken").await;
    assert_eq!(stack.simulator.book().await.refunds[0].status, RefundStatus::Accepted);
    let ended = "SELECT COUNT(*) FROM payment_event WHERE type = 'REFUND_SUCCEEDED'";
    assert_eq!(count(stack.payments(), ended).await, 0, "it is not done yet");
    wait_refund(&stack, "SUCCESS", "done").await;
    went_back_once(&stack, "done").await;
}

/// Money that the channel will not give back stays in suspense, once, and a person is told. Fails when a refused refund is
/// tried for ever, or its failure is not booked.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_fails_leaves_the_money_in_suspense_and_tells_a_person() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    // A transaction that the channel tells of and does not have.
    let payment = stack.caller().pay(&request(merchant().as_str(), "O1", &unique("key"))).await;
    stack.simulator.pay(&payment.pay_no, &PayOptions::default()).await;
    wait_for("the payment to be paid", || async {
        stack.caller().get(&payment.merchant_id, &payment.pay_no).await.state() == PaymentState::Success
    })
    .await;
    let unknown = DirectNotice {
        pay_no: Some(payment.pay_no.clone()),
        channel_txn_id: Some("T0".into()),
        ..Default::default()
    };
    assert!(accepted(&stack.simulator.notice(&unknown).await));
    wait_refund(&stack, "FAIL", "no such transaction").await;
    stack.wait_booked().await;
    let open = "SELECT COUNT(*) FROM unexpected_receipt WHERE state = 'OPEN' AND refund_no IS NOT NULL";
    assert_eq!(count(stack.payments(), open).await, 1);
    let told = "SELECT COUNT(*) FROM anomaly WHERE kind = 'REFUND_FAILED' AND state = 'OPEN'";
    assert_eq!(count(stack.payments(), told).await, 1);
    let suspense =
        "SELECT SUM(credit - debit)::BIGINT FROM account_balance WHERE account_code LIKE 'suspense:%'";
    assert_eq!(count(stack.books(), suspense).await, 1999);
    let transit =
        "SELECT SUM(credit - debit)::BIGINT FROM account_balance WHERE account_code LIKE 'transit:%'";
    assert_eq!(count(stack.books(), transit).await, 0);
    assert_eq!(stack.simulator.book().await.totals.refunds, 0);
    assert_eq!(audit::audit(stack.payments(), stack.books()).await.unwrap(), []);
}

/// Where a core may die on a refund's way, in order.
const POINTS: [&str; 13] = [
    "after_receipt",
    "after_insert",
    "after_take",
    "after_submit",
    "after_submit_event",
    "before_submit_commit",
    "after_submit_commit",
    "before_call",
    "after_call",
    "after_result_read",
    "after_result_cas",
    "after_result_receipt",
    "after_result",
];

/// Dies at every point of a refund's way in turn. Fails when receipt and refund part, or when a refund is sent under a new
/// number. (A call before `SUBMITTED` is committed would be repeated under the one number, which makes no second refund.)
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_dies_anywhere_sends_the_money_back_once() {
    stream::iter(POINTS).for_each_concurrent(4, dies_at).await;
}

async fn dies_at(point: &str) {
    let variable = ("ONCEPAY_KILL_POINT".to_owned(), format!("payment_core.refund.{point}"));
    let wish = Wish { books: true, core_process: Some(vec![variable]), first_look_s: 1, ..Wish::default() };
    let mut stack = Stack::start(wish).await;
    paid_late(&stack, &PayOptions::default()).await;
    stack.core.as_mut().unwrap().wait_exit().await;
    stack.restart_core_process().await;
    wait_refund(&stack, "SUCCESS", point).await;
    went_back_once(&stack, point).await;
    // Databases are dropped by waiting: not on a thread that the other points need.
    tokio::task::spawn_blocking(move || drop(stack)).await.unwrap();
}
