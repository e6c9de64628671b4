//! Kafka away: payments go on, nothing is lost, all is booked when it is back.

use channel_simulator::PayOptions;
use contract::order::PaymentState;
use e2e::{Stack, Wish, count, request};
use test_kit::{Proxy, merchant, proxy, wait_for};

/// The line to the broker is cut for the middle third. Fails when a payment waits for the broker, or when the relay deletes
/// what was not acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn payments_go_on_without_the_broker_and_all_is_booked_afterwards() {
    let line = Proxy::kafka().await;
    let brokers = Some(proxy::kafka_proxied_brokers());
    let stack = Stack::start(Wish { books: true, brokers, ..Wish::default() }).await;
    let merchant = merchant();
    for third in 0..3 {
        match third {
            1 => line.cut().await,
            2 => line.restore().await,
            _ => {}
        }
        for n in 0..10 {
            let order = format!("O{third}-{n}");
            let payment = stack.caller().pay(&request(merchant.as_str(), &order, &order)).await;
            stack.simulator.pay(&payment.pay_no, &PayOptions::default()).await;
            wait_for("the payment to be paid", || async {
                stack.caller().get(merchant.as_str(), &payment.pay_no).await.state() == PaymentState::Success
            })
            .await;
        }
        if third == 1 {
            assert!(count(stack.payments(), "SELECT COUNT(*) FROM outbox").await >= 20, "events wait");
        }
    }
    stack.wait_booked().await;
    assert_eq!(count(stack.books(), "SELECT COUNT(*) FROM entry").await, 30);
    assert_eq!(audit::audit(stack.payments(), stack.books()).await.unwrap(), []);
}
