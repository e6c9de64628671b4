//! What the core's jobs finish, and what they leave alone.

use channel_simulator::{CreateFaults, DirectNotice, PayOptions, Plan, Status};
use contract::order::{Payment, PaymentState};
use e2e::{Stack, Wish, count, request};
use test_kit::{merchant, unique, wait_for};

async fn begun(stack: &Stack) -> Payment {
    let payment = stack.caller().pay(&request(merchant().as_str(), "O1", &unique("key"))).await;
    wait_for("the order to stand at the channel", || async {
        stack.simulator.book().await.totals.orders == 1
    })
    .await;
    payment
}

async fn state(stack: &Stack, payment: &Payment) -> PaymentState {
    stack.caller().get(&payment.merchant_id, &payment.pay_no).await.state()
}

/// Its time is over here; at the channel it could still be paid.
async fn expire(stack: &Stack) {
    sqlx::query("UPDATE payment SET expire_at = now() - INTERVAL '1 second', next_query_at = now()")
        .execute(stack.payments())
        .await
        .unwrap();
}

/// At its expiry a payment is closed at the channel, and here only by the channel's confirmation. Fails when the job
/// closes locally: the payer could still pay.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_payment_is_closed_at_the_channel_first() {
    let stack = Stack::start(Wish::default()).await;
    let payment = begun(&stack).await;
    expire(&stack).await;
    wait_for("the payment to be closed", || async { state(&stack, &payment).await == PaymentState::Closed })
        .await;
    assert_eq!(stack.simulator.order(&payment.pay_no).await.status, Status::Closed);
    assert_eq!(
        count(stack.payments(), "SELECT COUNT(*) FROM callback_log WHERE action = 'PAY_CLOSED'").await,
        1
    );
}

/// *Already paid* in answer to the close makes the payment paid. Fails when the job takes its own close for the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_paid_before_its_close_is_paid() {
    let stack = Stack::start(Wish::default()).await;
    let payment = begun(&stack).await;
    stack.simulator.pay(&payment.pay_no, &PayOptions { silent: true, ..Default::default() }).await;
    expire(&stack).await;
    wait_for("the payment to be paid", || async { state(&stack, &payment).await == PaymentState::Success })
        .await;
}

/// *Not paid yet* is no word: however often it is heard, the payment stays. Fails when a query without a word ends it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unpaid_answer_never_ends_a_payment() {
    let stack = Stack::start(Wish { first_look_s: 1, ..Wish::default() }).await;
    let payment = begun(&stack).await;
    wait_for("three queries", || async {
        sqlx::query("UPDATE payment SET next_query_at = now()").execute(stack.payments()).await.unwrap();
        stack.simulator.order(&payment.pay_no).await.query_calls >= 3
    })
    .await;
    assert_eq!(state(&stack, &payment).await, PaymentState::Processing);
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM payment_event").await, 1);
}

/// *Does not exist* is no word either: some channels make an order only when the payer scans. The payment stays in process, and
/// is paid when the payer does scan (bugs.md D1). Fails when an unknown number ends a payment, or counts as closed.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_the_channel_does_not_know_yet_ends_nothing() {
    let stack = Stack::start(Wish { first_look_s: 1, ..Wish::default() }).await;
    let create = CreateFaults { error_before_commit_percent: 100, ..CreateFaults::default() };
    stack.simulator.plan(&Plan { create, ..Plan::default() }).await;
    let payment = stack.caller().pay(&request(merchant().as_str(), "O1", &unique("key"))).await;
    // For us the order was made; the channel has never heard of its number.
    sqlx::query("UPDATE payment SET dispatched_at = now()").execute(stack.payments()).await.unwrap();
    let asked = "SELECT query_count::BIGINT FROM payment";
    let before = count(stack.payments(), asked).await;
    wait_for("three queries", || async {
        sqlx::query("UPDATE payment SET next_query_at = now()").execute(stack.payments()).await.unwrap();
        count(stack.payments(), asked).await >= before + 3
    })
    .await;
    assert_eq!(state(&stack, &payment).await, PaymentState::Processing);
    assert_eq!(stack.simulator.book().await.totals.orders, 0);
    let scanned = DirectNotice {
        account: Some("main".into()),
        url: Some(stack.notify_url("main")),
        pay_no: Some(payment.pay_no.clone()),
        merchant_id: Some(payment.merchant_id.clone()),
        channel_txn_id: Some("T1".into()),
        amount: Some(1999),
        currency: Some("CNY".into()),
        ..Default::default()
    };
    assert_eq!(stack.simulator.notice(&scanned).await[0].status, Some(204));
    assert_eq!(state(&stack, &payment).await, PaymentState::Success);
}

/// A notice that came before its payment is applied once the payment is there, without a person. Fails when orphans are
/// not tried again.
#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_is_applied_when_its_payment_appears() {
    let stack = Stack::start(Wish::default()).await;
    let payment = begun(&stack).await;
    let mut early = payment.pay_no.clone();
    early.replace_range(5..8, "000");
    let notice = DirectNotice {
        pay_no: Some(early.clone()),
        merchant_id: Some(payment.merchant_id.clone()),
        channel_txn_id: Some("T1".into()),
        amount: Some(1999),
        currency: Some("CNY".into()),
        ..Default::default()
    };
    stack.simulator.notice(&notice).await;
    assert_eq!(
        count(stack.payments(), "SELECT COUNT(*) FROM orphan_notice WHERE state = 'WAITING'").await,
        1
    );
    sqlx::query(
        "INSERT INTO payment (bucket, pay_no, merchant_id, order_no, attempt_no, amount, currency, channel,
                              channel_account, subject, expire_at, next_query_at)
         SELECT bucket, $1, merchant_id, 'O2', 1, amount, currency, channel, channel_account, subject, expire_at,
                now() + INTERVAL '1 hour' FROM payment",
    )
    .bind(&early)
    .execute(stack.payments())
    .await
    .unwrap();
    sqlx::query("UPDATE orphan_notice SET next_try_at = now()").execute(stack.payments()).await.unwrap();
    wait_for("the orphan to be applied", || async {
        count(stack.payments(), "SELECT COUNT(*) FROM orphan_notice WHERE state = 'APPLIED'").await == 1
    })
    .await;
    assert_eq!(stack.caller().get(&payment.merchant_id, &early).await.state(), PaymentState::Success);
}
