//! Many calls for one purchase: one row, one order at the channel, one answer.

use contract::core::payment_core_client::PaymentCoreClient;
use contract::order::{CreatePaymentRequest, CreatePaymentResponse};
use contract::reason::{Reason, of_status};
use e2e::{Stack, Wish, count, request};
use futures::future::join_all;
use pay_types::Gate;
use test_kit::{PrivateRedis, merchant, unique};
use tonic::Status;

/// Fifty calls at once, spread over the copies; each answer must be the one payment, or *in progress*.
async fn storm(stack: &Stack, requests: &[CreatePaymentRequest]) -> String {
    let calls = (0..50).map(|n| {
        let caller = stack.callers[n % stack.callers.len()].clone();
        let request = requests[n % requests.len()].clone();
        async move { caller.create(request).await }
    });
    let answers: Vec<Result<CreatePaymentResponse, Status>> = join_all(calls).await;
    let mut numbers: Vec<String> = Vec::new();
    for answer in answers {
        match answer {
            Ok(response) => numbers.push(response.payment.unwrap().pay_no),
            Err(status) => assert_eq!(of_status(&status), Some(Reason::InProgress), "{status}"),
        }
    }
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 1, "all answers are the one payment");
    for request in requests {
        assert_eq!(stack.caller().pay(request).await.pay_no, numbers[0], "every key leads to it");
    }
    numbers.remove(0)
}

async fn charged_once(stack: &Stack, pay_no: &str) {
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM payment").await, 1);
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM payment_event").await, 1);
    let book = stack.simulator.book().await;
    assert_eq!(book.totals.orders, 1, "one order at the channel");
    assert_eq!(book.orders[0].pay_no, pay_no);
}

/// Fails without G4 and G5 together, when neither keys nor orders are unique; G2 and G3 only make it quiet.
#[tokio::test(flavor = "multi_thread")]
async fn identical_calls_over_two_copies_make_one_payment() {
    let stack = Stack::start(Wish { order_apis: 2, ..Wish::default() }).await;
    let request = request(merchant().as_str(), "O1", &unique("key"));
    let pay_no = storm(&stack, &[request]).await;
    charged_once(&stack, &pay_no).await;
}

/// Two devices, each with a key of its own. Fails without `uk_order_attempt` and `uk_order_live` together; either alone holds.
#[tokio::test(flavor = "multi_thread")]
async fn two_devices_with_two_keys_make_one_payment() {
    let stack = Stack::start(Wish { order_apis: 2, ..Wish::default() }).await;
    let merchant = merchant();
    let requests = [request(merchant.as_str(), "O1", "phone"), request(merchant.as_str(), "O1", "laptop")];
    let pay_no = storm(&stack, &requests).await;
    charged_once(&stack, &pay_no).await;
}

/// Redis is killed before the calls. Fails when Redis is made truth: when its error refuses a call or skips a gate.
#[tokio::test(flavor = "multi_thread")]
async fn without_redis_nothing_changes() {
    let mut redis = PrivateRedis::start().await;
    let stack = Stack::start(Wish { order_apis: 2, redis_url: Some(redis.url()), ..Wish::default() }).await;
    redis.kill();
    let request = request(merchant().as_str(), "O1", &unique("key"));
    let pay_no = storm(&stack, &[request]).await;
    charged_once(&stack, &pay_no).await;
}

/// The lease says yes to everyone. Fails when the core relies on it, that is, without G4 and G5.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_always_says_yes_changes_nothing() {
    let wish = Wish { order_apis: 2, gates_off: vec![Gate::G3], ..Wish::default() };
    let stack = Stack::start(wish).await;
    let request = request(merchant().as_str(), "O1", &unique("key"));
    let pay_no = storm(&stack, &[request]).await;
    charged_once(&stack, &pay_no).await;
}

/// Key, flight and lease all open, two devices: the database alone. Fails without G5, that is, without `uk_order_attempt` and
/// `uk_order_live`.
#[tokio::test(flavor = "multi_thread")]
async fn the_database_alone_still_makes_one_payment() {
    let wish = Wish { order_apis: 2, gates_off: vec![Gate::G1, Gate::G2, Gate::G3], ..Wish::default() };
    let stack = Stack::start(wish).await;
    let merchant = merchant();
    let requests = [request(merchant.as_str(), "O1", "phone"), request(merchant.as_str(), "O1", "laptop")];
    let pay_no = storm(&stack, &requests).await;
    charged_once(&stack, &pay_no).await;
}

/// Attempt 1 on one device and attempt 2 on the other, at the same instant. Fails without `uk_order_live`.
#[tokio::test(flavor = "multi_thread")]
async fn two_attempts_of_one_order_never_live_together() {
    let stack = Stack::start(Wish { order_apis: 2, ..Wish::default() }).await;
    let merchant = merchant();
    for round in 0..10 {
        let order = format!("O{round}");
        let calls = [1, 2].into_iter().zip(&stack.callers).map(|(attempt, caller)| {
            let mut request = request(merchant.as_str(), &order, &format!("{order}-{attempt}"));
            request.attempt_no = attempt;
            let caller = caller.clone();
            async move { caller.create(request).await }
        });
        let answers = join_all(calls).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
        let refusal = answers.iter().find_map(|answer| answer.as_ref().err()).unwrap();
        assert_eq!(of_status(refusal), Some(Reason::OrderHasLivePayment), "{refusal}");
    }
    assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM payment").await, 10);
}

/// Callers of order-api and of the core whose deadline is over before the channel answers: the work goes on, and the same key
/// finds one payment. No job helps, since none looks within ten minutes. Fails when the dispatch is tied to the core's caller;
/// the flight of order-api alone would save its own callers.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_leaves_one_whole_payment() {
    let stack = Stack::start(Wish { first_look_s: 600, ..Wish::default() }).await;
    let plan = channel_simulator::Plan {
        create: channel_simulator::CreateFaults { delay_ms: [300, 300], ..Default::default() },
        ..Default::default()
    };
    stack.simulator.plan(&plan).await;
    let core = service_kit::grpc::channel(&stack.core_url()).unwrap();
    let (merchant, mut core) = (merchant(), PaymentCoreClient::new(core));
    for (orders, order) in [(1, "by-order-api"), (2, "by-the-core")] {
        let request = request(merchant.as_str(), order, &unique("key"));
        let mut hasty = tonic::Request::new(request.clone());
        hasty.set_timeout(std::time::Duration::from_millis(60));
        let told = match orders {
            1 => stack.caller().client().create_payment(hasty).await,
            _ => core.create_payment(hasty).await,
        };
        if let Ok(response) = &told {
            assert!(response.get_ref().payment.as_ref().unwrap().credential.is_none());
        }
        let payment = stack.caller().pay(&request).await;
        test_kit::wait_for("the channel's answer to be stored", || async {
            stack.caller().get(&payment.merchant_id, &payment.pay_no).await.credential.is_some()
        })
        .await;
        assert_eq!(count(stack.payments(), "SELECT COUNT(*) FROM payment").await, orders);
        assert_eq!(stack.simulator.book().await.totals.orders, u64::try_from(orders).unwrap());
    }
}
