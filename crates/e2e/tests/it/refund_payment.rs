//! Refunds that merchants ask for: once, never more than was paid, whatever is repeated, raced, lost, or dies on the way.

use channel_simulator::{DirectNotice, PayOptions, Plan, RefundFaults};
use contract::core::DecideRefundRequest;
use contract::core::payment_core_client::PaymentCoreClient;
use contract::order::{
    CreateRefundRequest, CreateRefundResponse, Disposition, Payment, PaymentState, Refund, RefundApproval,
    RefundState,
};
use contract::reason::{Reason, of_status};
use e2e::{Stack, Wish, count, refund_request, request};
use futures::future::join_all;
use futures::{StreamExt as _, stream};
use serde_json::json;
use test_kit::{merchant, unique, wait_for};
use tonic::Status;

/// A paid payment of 19.99 yuan.
async fn paid(stack: &Stack, order: &str) -> Payment {
    paid_of(stack, order, 1_999).await
}

async fn paid_of(stack: &Stack, order: &str, minor: i64) -> Payment {
    let mut order = request(merchant().as_str(), order, &unique("key"));
    order.amount = Some(contract::common::Money { amount: minor, currency: "CNY".into() });
    let payment = stack.caller().pay(&order).await;
    stack.simulator.pay(&payment.pay_no, &PayOptions::default()).await;
    wait_for("the payment to be paid", || async {
        stack.caller().get(&payment.merchant_id, &payment.pay_no).await.state() == PaymentState::Success
    })
    .await;
    payment
}

async fn wait_state(stack: &Stack, refund: &Refund, state: RefundState) {
    wait_for(&format!("the refund to be {state:?}"), || async {
        stack.caller().get_refund(&refund.merchant_id, &refund.refund_no).await.state() == state
    })
    .await;
}

/// Reserved and refunded.
async fn sums(stack: &Stack, payment: &Payment) -> (i64, i64) {
    let now = stack.caller().get(&payment.merchant_id, &payment.pay_no).await;
    (now.refund_reserved, now.refunded)
}

/// The books hold what was given back, nothing is on its way any more, and every invariant holds.
async fn booked(stack: &Stack, given_back: i64, told: &str) {
    stack.wait_booked().await;
    let net = |accounts: &str| {
        format!(
            "SELECT COALESCE(SUM(credit - debit), 0)::BIGINT FROM account_balance WHERE account_code LIKE '{accounts}%'"
        )
    };
    for (accounts, left) in [("transit:", 0), ("suspense:", 0)] {
        let sum: i64 =
            sqlx::query_scalar(sqlx::AssertSqlSafe(net(accounts))).fetch_one(stack.books()).await.unwrap();
        assert_eq!(sum, left, "{accounts} {told}");
    }
    let paid = "SELECT COALESCE(SUM(amount), 0)::BIGINT FROM payment WHERE state = 'SUCCESS'";
    let paid = count(stack.payments(), paid).await;
    let payable: i64 =
        sqlx::query_scalar(sqlx::AssertSqlSafe(net("payable:"))).fetch_one(stack.books()).await.unwrap();
    assert_eq!(payable, paid - given_back, "{told}");
    assert_eq!(audit::audit(stack.payments(), stack.books()).await.unwrap(), [], "{told}");
}

/// 6000 and 6000 of 10000 at the same moment over two copies, two hundred times: exactly one goes back each time, the other
/// caller is told which is in flight, or that too much would go back (bugs.md E1). Fails when the amount is not reserved before
/// the channel is called.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_refunds_at_once_exactly_one_goes_back() {
    const ROUNDS: u32 = 200;
    let stack = Stack::start(Wish { books: true, order_apis: 2, ..Wish::default() }).await;
    let rounds = (0..ROUNDS).map(|round| two_at_once(&stack, round));
    stream::iter(rounds).buffer_unordered(8).collect::<Vec<()>>().await;
    wait_for("all refunds to end", || async {
        count(stack.payments(), "SELECT COUNT(*) FROM refund WHERE state = 'SUCCESS'").await
            == i64::from(ROUNDS)
    })
    .await;
    let book = stack.simulator.book().await;
    let given_back = 6_000 * i64::from(ROUNDS);
    assert_eq!((book.totals.refunds, book.totals.refunded["CNY"]), (ROUNDS.into(), given_back));
    booked(&stack, given_back, "rounds").await;
}

async fn two_at_once(stack: &Stack, round: u32) {
    let payment = paid_of(stack, &format!("O{round}"), 10_000).await;
    let calls = stack.callers.iter().map(|caller| {
        let request = refund_request(&payment, 6_000, &unique("refund"));
        async move { caller.refund(request).await }
    });
    let answers = join_all(calls).await;
    let created = |a: &&Result<CreateRefundResponse, Status>| {
        a.as_ref().is_ok_and(|told| told.disposition() == Disposition::Created)
    };
    assert_eq!(answers.iter().filter(created).count(), 1, "round {round}: {answers:?}");
    for answer in &answers {
        match answer {
            Ok(told) => {
                let disposition = told.disposition();
                assert!(matches!(disposition, Disposition::Created | Disposition::InFlight), "{told:?}");
            }
            Err(status) => assert_eq!(of_status(status), Some(Reason::RefundExceedsPaid), "{status}"),
        }
    }
}

/// The case of the sources: two requests within milliseconds for one payment. With one request number, under two keys and over
/// two copies, it is one refund; a storm of repeats changes nothing. Fails without `uk_refund_request` and the look before it.
#[tokio::test(flavor = "multi_thread")]
async fn one_request_number_is_one_refund_whoever_repeats_it() {
    let stack = Stack::start(Wish { books: true, order_apis: 2, ..Wish::default() }).await;
    let payment = paid(&stack, "O1").await;
    let first = refund_request(&payment, 1_999, &unique("refund"));
    let second = CreateRefundRequest { idempotency_key: unique("other"), ..first.clone() };
    let calls = (0..40).map(|n| {
        let (caller, request) =
            (stack.callers[n % 2].clone(), if n % 4 < 2 { &first } else { &second }.clone());
        async move { caller.give_back(&request).await }
    });
    let mut numbers: Vec<String> = join_all(calls).await.into_iter().map(|refund| refund.refund_no).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), 1, "{numbers:?}");
    let refund = stack.caller().give_back(&first).await;
    wait_state(&stack, &refund, RefundState::Success).await;
    let again = stack.caller().refund(first.clone()).await.unwrap();
    assert_eq!(again.disposition(), Disposition::Replayed);
    assert_eq!(again.refund.unwrap().state(), RefundState::Success, "in its current state");
    let other = CreateRefundRequest {
        amount: Some(contract::common::Money { amount: 5, currency: "CNY".into() }),
        ..first
    };
    let reused = stack.caller().refund(other.clone()).await.unwrap_err();
    assert_eq!(of_status(&reused), Some(Reason::IdempotencyKeyReused));
    let taken = CreateRefundRequest { idempotency_key: unique("third"), ..other };
    assert_eq!(of_status(&stack.caller().refund(taken).await.unwrap_err()), Some(Reason::RefundRequestTaken));
    let book = stack.simulator.book().await;
    assert_eq!((book.totals.refunds, book.totals.refund_calls), (1, 1));
    booked(&stack, 1_999, "one request").await;
}

/// A hundred refunds of a hundredth, one after another, reach exactly what was paid; one more is refused. Fails when the sum is
/// checked against what went back instead of what was reserved, or is read before it is held.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_parts_reach_exactly_what_was_paid() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let payment = paid_of(&stack, "O1", 10_000).await;
    for part in 1..=100 {
        let mut ask = refund_request(&payment, 100, &format!("part-{part}"));
        ask.expected_refunded_total = Some(part * 100);
        let refund = stack.caller().give_back(&ask).await;
        wait_state(&stack, &refund, RefundState::Success).await;
    }
    assert_eq!(sums(&stack, &payment).await, (10_000, 10_000));
    let beyond = stack.caller().refund(refund_request(&payment, 1, "part-101")).await.unwrap_err();
    assert_eq!(of_status(&beyond), Some(Reason::RefundExceedsPaid));
    assert_eq!(stack.simulator.book().await.totals.refunded["CNY"], 10_000);
    booked(&stack, 10_000, "a hundred parts").await;
}

/// What cannot be refunded is refused with its reason, and writes nothing (bugs.md E2). Fails when a check is left out.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_go_back_is_refused_and_writes_nothing() {
    let stack = Stack::start(Wish::default()).await;
    let payment = paid(&stack, "O1").await;
    let unpaid = stack.caller().pay(&request(&payment.merchant_id, "O2", &unique("key"))).await;
    let closed = stack.caller().pay(&request(&payment.merchant_id, "O3", &unique("key"))).await;
    wait_for("the order at the channel", || async { stack.simulator.book().await.totals.orders == 3 }).await;
    stack.simulator.close(&closed.pay_no).await;
    wait_for("the payment to be closed", || async {
        stack.caller().get(&closed.merchant_id, &closed.pay_no).await.state() == PaymentState::Closed
    })
    .await;
    let good = || refund_request(&payment, 100, &unique("refund"));
    let of = |payment: &Payment| refund_request(payment, 100, &unique("refund"));
    let amount = |minor: i64, currency: &str| CreateRefundRequest {
        amount: Some(contract::common::Money { amount: minor, currency: currency.into() }),
        ..good()
    };
    let unknown = Payment { pay_no: unpaid.pay_no.replace(&unpaid.pay_no[5..9], "0000"), ..unpaid.clone() };
    let cases = [
        (of(&unpaid), Reason::PaymentNotRefundable),
        (of(&closed), Reason::PaymentNotRefundable),
        (of(&unknown), Reason::PaymentNotFound),
        (CreateRefundRequest { merchant_id: "another".into(), ..good() }, Reason::PaymentNotFound),
        (amount(100, "USD"), Reason::FieldInvalid),
        (amount(0, "CNY"), Reason::FieldInvalid),
        (amount(-1, "CNY"), Reason::FieldInvalid),
        (amount(i64::MAX, "CNY"), Reason::FieldInvalid),
        (amount(2_000, "CNY"), Reason::RefundExceedsPaid),
        (CreateRefundRequest { amount: None, ..good() }, Reason::FieldInvalid),
        (CreateRefundRequest { reason: "  ".into(), ..good() }, Reason::FieldInvalid),
        (CreateRefundRequest { requested_by: String::new(), ..good() }, Reason::FieldInvalid),
        (CreateRefundRequest { refund_request_no: "a b".into(), ..good() }, Reason::FieldInvalid),
        (CreateRefundRequest { idempotency_key: String::new(), ..good() }, Reason::IdempotencyKeyMissing),
        (CreateRefundRequest { expected_refunded_total: Some(99), ..good() }, Reason::RefundTotalUnexpected),
    ];
    for (request, reason) in cases {
        let told = stack.caller().refund(request.clone()).await.unwrap_err();
        assert_eq!(of_status(&told), Some(reason), "{request:?}: {told}");
    }
    let validated = CreateRefundRequest { validate_only: true, ..good() };
    let answer = stack.caller().refund(validated).await.unwrap();
    assert_eq!((answer.disposition(), answer.refund), (Disposition::Validated, None));
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM refund").await, 0);
    assert_eq!(
        count(stack.payments(), "SELECT COUNT(*) FROM idempotent_log WHERE biz_key LIKE 'REFUND%'").await,
        0
    );
    assert_eq!(sums(&stack, &payment).await, (0, 0));
}

/// A refund in flight is what another request is told of; its own key is free, and works when the first has ended. Fails when
/// the key of the other request points to the refund in flight.
#[tokio::test(flavor = "multi_thread")]
async fn another_request_is_told_of_the_refund_in_flight_and_may_come_again() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let refund = RefundFaults { done_ms: [3_000, 3_000], ..RefundFaults::default() };
    stack.simulator.plan(&Plan { refund, ..Plan::default() }).await;
    let payment = paid(&stack, "O1").await;
    let first = stack.caller().give_back(&refund_request(&payment, 1_000, "first")).await;
    let second = refund_request(&payment, 999, "second");
    let told = stack.caller().refund(second.clone()).await.unwrap();
    assert_eq!(told.disposition(), Disposition::InFlight);
    assert_eq!(told.refund.unwrap().refund_no, first.refund_no);
    wait_state(&stack, &first, RefundState::Success).await;
    let then = stack.caller().refund(second).await.unwrap();
    assert_eq!(then.disposition(), Disposition::Created);
    wait_state(&stack, &then.refund.unwrap(), RefundState::Success).await;
    booked(&stack, 1_999, "one after the other").await;
}

/// The channel answers the call with 500, drops it or hangs, having given the money back; or fails before: one refund at the
/// channel under one number (bugs.md E6). Fails when no answer counts as failure, or a new number is used.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_makes_no_second_refund() {
    for fault in ["error", "drop", "before"] {
        let stack = Stack::start(Wish { books: true, first_look_s: 1, ..Wish::default() }).await;
        let percent = |is: &str| if fault == is { 100 } else { 0 };
        let refund = RefundFaults {
            silent_percent: 100,
            error_before_commit_percent: percent("before"),
            error_after_commit_percent: percent("error"),
            drop_after_commit_percent: percent("drop"),
            ..RefundFaults::default()
        };
        stack.simulator.plan(&Plan { refund, ..Plan::default() }).await;
        let payment = paid(&stack, "O1").await;
        let refund = stack.caller().give_back(&refund_request(&payment, 1_999, &unique("refund"))).await;
        wait_for("the first call", || async { stack.simulator.book().await.totals.refund_calls >= 1 }).await;
        stack.simulator.plan(&Plan::default()).await;
        wait_state(&stack, &refund, RefundState::Success).await;
        let book = stack.simulator.book().await;
        assert_eq!(
            (book.totals.refunds, book.refunds[0].refund_no.as_str()),
            (1, refund.refund_no.as_str()),
            "{fault}"
        );
        booked(&stack, 1_999, fault).await;
    }
}

/// A refund that the channel refuses gives its part back once; it may be asked for anew under another number. Fails when the
/// reservation stays, or is given back twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_refund_gives_its_part_back() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let refund = RefundFaults { fail_percent: 100, ..RefundFaults::default() };
    stack.simulator.plan(&Plan { refund, notice_repeats: 3, ..Plan::default() }).await;
    let payment = paid(&stack, "O1").await;
    let failed = stack.caller().give_back(&refund_request(&payment, 1_999, "first")).await;
    wait_state(&stack, &failed, RefundState::Fail).await;
    assert_eq!(sums(&stack, &payment).await, (0, 0));
    stack.simulator.plan(&Plan::default()).await;
    let second = stack.caller().give_back(&refund_request(&payment, 1_999, "second")).await;
    wait_state(&stack, &second, RefundState::Success).await;
    assert_eq!(sums(&stack, &payment).await, (1_999, 1_999));
    booked(&stack, 1_999, "failed, then done").await;
}

/// The money bounces after success: a new fact with its own reversing entry, once, and what went back may go back again
/// (bugs.md E4). Fails when the refund's state goes back, or when a repeat of the notice books again.
#[tokio::test(flavor = "multi_thread")]
async fn money_that_bounces_is_booked_back_once() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let payment = paid(&stack, "O1").await;
    let refund = stack.caller().give_back(&refund_request(&payment, 1_000, "first")).await;
    wait_state(&stack, &refund, RefundState::Success).await;
    let bounced = DirectNotice {
        event: Some("refund.failed".into()),
        pay_no: Some(payment.pay_no.clone()),
        refund_no: Some(refund.refund_no.clone()),
        amount: Some(1_000),
        repeats: Some(5),
        parallel: Some(5),
        fresh_nonces: true,
        ..Default::default()
    };
    wait_for("every copy to be taken", || async {
        stack.simulator.notice(&bounced).await.iter().all(|answer| answer.status == Some(204))
    })
    .await;
    let after = stack.caller().get_refund(&refund.merchant_id, &refund.refund_no).await;
    assert_eq!((after.state(), after.returned_at.is_some()), (RefundState::Success, true));
    assert_eq!(sums(&stack, &payment).await, (0, 0));
    let told = "SELECT COUNT(*) FROM anomaly WHERE kind = 'REFUND_RETURNED' AND state = 'OPEN'";
    assert_eq!(count(stack.payments(), told).await, 1, "a person is told");
    stack.wait_booked().await;
    let entries = "SELECT COUNT(*) FROM entry WHERE kind = 'REFUND_RETURNED'";
    assert_eq!(count(stack.books(), entries).await, 1);
    booked(&stack, 0, "bounced").await;
}

/// Two equal orders of one buyer, both refunded in full at the same moment: two refunds (bugs.md E7). Fails when a number is
/// made of amount, buyer and time.
#[tokio::test(flavor = "multi_thread")]
async fn two_equal_orders_are_refunded_twice() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let first = paid(&stack, "O1").await;
    let mut second = request(&first.merchant_id, "O2", &unique("key"));
    second.amount.clone_from(&first.amount);
    let second = stack.caller().pay(&second).await;
    stack.simulator.pay(&second.pay_no, &PayOptions::default()).await;
    wait_for("the second to be paid", || async {
        stack.caller().get(&second.merchant_id, &second.pay_no).await.state() == PaymentState::Success
    })
    .await;
    let key = unique("refund");
    let asks = [
        refund_request(&first, 1_999, &key),
        CreateRefundRequest { idempotency_key: unique("other"), ..refund_request(&second, 1_999, &key) },
    ];
    let refunds = join_all(asks.iter().map(|ask| stack.caller().give_back(ask))).await;
    assert_ne!(refunds[0].refund_no, refunds[1].refund_no);
    for refund in &refunds {
        wait_state(&stack, refund, RefundState::Success).await;
    }
    assert_eq!(stack.simulator.book().await.totals.refunds, 2);
    booked(&stack, 3_998, "two orders").await;
}

/// Above the limit nothing reaches the channel before another person agrees. Fails when the limit is looked at after the call,
/// or when the one who asked may agree.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_above_the_limit_is_not_sent_before_another_person_agrees() {
    let settings = json!({ "refund_approval_above": { "CNY": 1_000 } });
    let stack = Stack::start(Wish { books: true, core_settings: settings, ..Wish::default() }).await;
    let payment = paid(&stack, "O1").await;
    let below = stack.caller().give_back(&refund_request(&payment, 900, "below")).await;
    wait_state(&stack, &below, RefundState::Success).await;
    let above = stack.caller().give_back(&refund_request(&payment, 1_099, "above")).await;
    assert_eq!((above.state(), above.approval()), (RefundState::Pending, RefundApproval::Waiting));
    let mut core = PaymentCoreClient::connect(stack.core_url()).await.unwrap();
    let decision = |by: &str| DecideRefundRequest {
        refund_no: above.refund_no.clone(),
        decided_by: by.to_owned(),
        note: "checked with the shop".to_owned(),
        approve: true,
    };
    let own = core.decide_refund(decision("anna")).await.unwrap_err();
    assert_eq!(of_status(&own), Some(Reason::RefundNotDecidable));
    assert_eq!(stack.simulator.book().await.totals.refunds, 1, "only the small one");
    core.decide_refund(decision("bert")).await.unwrap();
    wait_state(&stack, &above, RefundState::Success).await;
    let kept: (String, String, String) =
        sqlx::query_as("SELECT requested_by, decided_by, decision_note FROM refund WHERE refund_no = $1")
            .bind(&above.refund_no)
            .fetch_one(stack.payments())
            .await
            .unwrap();
    assert_eq!(kept, ("anna".into(), "bert".into(), "checked with the shop".into()));
    booked(&stack, 1_999, "approved").await;
}

/// A refund that waits long for its channel is shown to a person, while payments go on. Fails when nobody is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_waits_long_is_shown_to_a_person() {
    let stack = Stack::start(Wish { first_look_s: 1, ..Wish::default() }).await;
    let refund = RefundFaults { error_before_commit_percent: 100, ..RefundFaults::default() };
    stack.simulator.plan(&Plan { refund, ..Plan::default() }).await;
    let payment = paid(&stack, "O1").await;
    let refund = stack.caller().give_back(&refund_request(&payment, 1_999, "first")).await;
    wait_for("a person to be told", || async {
        sqlx::query("UPDATE refund SET next_try_at = now(), tries = GREATEST(tries, 9)")
            .execute(stack.payments())
            .await
            .unwrap();
        let told = "SELECT COUNT(*) FROM anomaly WHERE kind = 'REFUND_STUCK' AND state = 'OPEN'";
        count(stack.payments(), told).await == 1
    })
    .await;
    let waiting = stack.caller().get_refund(&refund.merchant_id, &refund.refund_no).await;
    assert_eq!(waiting.state(), RefundState::Submitted);
    assert!(!waiting.last_error.is_empty());
    assert_eq!(sums(&stack, &payment).await, (1_999, 0), "its part stays reserved");
}

/// Where a core may die on the way of a merchant's refund, in order.
const POINTS: [&str; 19] = [
    "refund_create.after_claim",
    "refund_create.after_lock",
    "refund_create.after_insert",
    "refund_create.after_reserve",
    "refund_create.after_event",
    "refund_create.before_commit",
    "refund_create.after_commit",
    "refund.after_submit",
    "refund.after_submit_event",
    "refund.before_submit_commit",
    "refund.after_submit_commit",
    "refund.before_call",
    "refund.after_call",
    "refund.after_result_read",
    "refund.after_result_cas",
    "refund.after_result_sums",
    "settle.after_event",
    "settle.before_commit",
    "refund.after_result",
];

/// Dies at every point in turn; the caller repeats its call. One refund at the channel, one pair of entries, the reservation
/// right. Fails when reservation, refund and event part, or when the channel is called before the commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_dies_anywhere_refunds_once() {
    stream::iter(POINTS).for_each_concurrent(4, dies_at).await;
}

async fn dies_at(point: &str) {
    let wish = Wish { books: true, core_process: Some(Vec::new()), first_look_s: 1, ..Wish::default() };
    let mut stack = Stack::start(wish).await;
    let payment = paid(&stack, "O1").await;
    let variable = ("ONCEPAY_KILL_POINT".to_owned(), format!("payment_core.{point}"));
    stack.restart_core_process_with(vec![variable]).await;
    let ask = refund_request(&payment, 1_200, &unique("refund"));
    drop(stack.caller().refund(ask.clone()).await);
    stack.core.as_mut().unwrap().wait_exit().await;
    stack.restart_core_process().await;
    let refund = stack.caller().give_back(&ask).await;
    wait_state(&stack, &refund, RefundState::Success).await;
    assert_eq!(sums(&stack, &payment).await, (1_200, 1_200), "{point}");
    let book = stack.simulator.book().await;
    assert_eq!((book.totals.refunds, book.totals.refunded["CNY"]), (1, 1_200), "{point}");
    booked(&stack, 1_200, point).await;
    // Databases are dropped by waiting: not on a thread that the other points need.
    tokio::task::spawn_blocking(move || drop(stack)).await.unwrap();
}
