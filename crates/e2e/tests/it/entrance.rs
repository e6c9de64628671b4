//! The entrance while work is under way: who waits, who is refused, what a full house answers.

use std::time::{Duration, Instant};

use channel_simulator::{CreateFaults, DirectNotice, Plan};
use contract::common::Money;
use contract::key;
use contract::order::{CreatePaymentRequest, IfInProgress, PaymentState};
use contract::reason::{Reason, of_status};
use e2e::{Stack, Wish, count, request};
use futures::future::join_all;
use serde_json::json;
use test_kit::{merchant, wait_for};
use tonic::Request;

/// A channel that answers late, so that the first call is still running when the others come.
async fn slow_channel(stack: &Stack, milliseconds: u64) {
    let create = CreateFaults { delay_ms: [milliseconds, milliseconds], ..CreateFaults::default() };
    stack.simulator.plan(&Plan { create, ..Plan::default() }).await;
}

/// T1 is under way with a key; the same key with another amount is refused at once, in the same copy (flight) and in the
/// other (lease); the same body with FAIL hears *in progress* at once. Fails when *in progress* is told, or waited for,
/// before the bodies are compared.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_use_for_another_body_is_refused_before_in_progress() {
    let stack = Stack::start(Wish { order_apis: 2, ..Wish::default() }).await;
    slow_channel(&stack, 2_000).await;
    let first = request(merchant().as_str(), "O1", "k1");
    let running = {
        let (caller, first) = (stack.callers[0].clone(), first.clone());
        service_kit::task::spawn("first", async move { caller.create(first).await })
    };
    wait_for("the first call to reach the channel", || async {
        stack.simulator.book().await.totals.create_calls == 1
    })
    .await;
    let started = Instant::now();
    for caller in &stack.callers {
        let amount = Some(Money { amount: 5000, currency: "CNY".to_owned() });
        let other = CreatePaymentRequest { amount, ..first.clone() };
        let status = caller.create(other).await.unwrap_err();
        assert_eq!(of_status(&status), Some(Reason::IdempotencyKeyReused), "{status}");
        let same = CreatePaymentRequest { if_in_progress: IfInProgress::Fail.into(), ..first.clone() };
        let status = caller.create(same).await.unwrap_err();
        assert_eq!(of_status(&status), Some(Reason::InProgress), "{status}");
    }
    assert!(
        !running.is_finished(),
        "all were answered while the first call ran, after {:?}",
        started.elapsed()
    );
    let payment = running.await.unwrap().unwrap().unwrap().payment.unwrap();
    assert_eq!(stack.callers[1].pay(&first).await.pay_no, payment.pay_no);
}

/// Response metadata tells a repeat, when the key was first seen, and until when it is known. Fails when order-api does not
/// pass it on.
#[tokio::test(flavor = "multi_thread")]
async fn answers_tell_about_the_key() {
    let stack = Stack::start(Wish::default()).await;
    let request = request(merchant().as_str(), "O1", "k1");
    for replayed in ["false", "true"] {
        let answer = stack.caller().client().create_payment(Request::new(request.clone())).await.unwrap();
        let told = |name: &str| answer.metadata().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(told(key::REPLAYED).as_deref(), Some(replayed));
        let (first, until) = (told(key::FIRST_SEEN).unwrap(), told(key::EXPIRES_AT).unwrap());
        assert!(until > first, "{until} is after {first}");
    }
}

/// Keys of ended payments are forgotten after their time, those of payments in process never. Fails when the purge does
/// not ask for the state.
#[tokio::test(flavor = "multi_thread")]
async fn only_keys_of_ended_payments_are_forgotten() {
    let stack = Stack::start(Wish { core_settings: json!({ "keys_kept_days": 0 }), ..Wish::default() }).await;
    let merchant = merchant();
    let (open, paid) = (request(merchant.as_str(), "O1", "open"), request(merchant.as_str(), "O2", "paid"));
    let open = stack.caller().pay(&open).await;
    let paid = stack.caller().pay(&paid).await;
    let notice =
        DirectNotice { pay_no: Some(paid.pay_no), channel_txn_id: Some("T1".into()), ..Default::default() };
    stack.simulator.notice(&notice).await;
    wait_for("the ended payment's key to be forgotten", || async {
        count(stack.payments(), "SELECT COUNT(*) FROM idempotent_log").await == 1
    })
    .await;
    let kept: String =
        sqlx::query_scalar("SELECT result_no FROM idempotent_log").fetch_one(stack.payments()).await.unwrap();
    assert_eq!(kept, open.pay_no);
}

/// Five connections, a channel that hangs, fifty creates and fifty notices at once: notices commit in time, and every
/// create is answered, with its payment or with *send the same key again*. Fails when a connection is held during a
/// channel call.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_channel_holds_no_connection() {
    let pool = json!({ "pool": { "connections_max": 5 }, "dispatch_wait_ms_max": 1_000 });
    let stack = Stack::start(Wish { core_settings: pool, ..Wish::default() }).await;
    let merchant = merchant();
    let orders: Vec<String> = (0..50).map(|n| format!("paid-{n}")).collect();
    let begun = join_all(orders.iter().map(|order| {
        let (caller, request) = (stack.caller().clone(), request(merchant.as_str(), order, order));
        async move { caller.pay(&request).await }
    }))
    .await;
    let hang = CreateFaults { hang_after_commit_percent: 100, ..CreateFaults::default() };
    stack.simulator.plan(&Plan { create: hang, ..Plan::default() }).await;
    let creates = join_all((0..50).map(|n| {
        let order = format!("hang-{n}");
        let (caller, request) = (stack.caller().clone(), request(merchant.as_str(), &order, &order));
        async move { caller.create(request).await }
    }));
    let notices = join_all(begun.iter().enumerate().map(|(n, payment)| {
        let (simulator, pay_no) = (stack.simulator.clone(), payment.pay_no.clone());
        async move {
            let started = Instant::now();
            let channel_txn_id = Some(format!("T{n}"));
            let notice = DirectNotice { pay_no: Some(pay_no), channel_txn_id, ..Default::default() };
            (simulator.notice(&notice).await, started.elapsed())
        }
    }));
    let (created, noticed) = tokio::join!(creates, notices);
    for (answers, took) in noticed {
        assert_eq!(answers[0].status, Some(204), "{answers:?}");
        assert!(took < Duration::from_secs(5), "a notice took {took:?}");
    }
    for answer in created {
        match answer {
            Ok(response) => assert_eq!(response.payment.unwrap().state(), PaymentState::Processing),
            Err(status) => assert!(
                matches!(of_status(&status), Some(Reason::InProgress | Reason::Unavailable)),
                "{status}"
            ),
        }
    }
    let paid = "SELECT COUNT(*) FROM payment WHERE state = 'SUCCESS'";
    assert_eq!(count(stack.payments(), paid).await, 50);
}
