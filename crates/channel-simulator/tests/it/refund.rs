//! Refunds, through the port that the services use.

use channel::{CreateRefund, Fact, Outcome, RefundTold, StatedAmount};
use pay_types::{Currency, Money, PayNo, RefundNo, RefundWord};
use serde_json::json;
use service_kit::Clock;

use crate::world::{World, world};

fn asked(world: &World, pay_no: &PayNo, txn: &str, minor: i64) -> CreateRefund {
    CreateRefund {
        refund_no: RefundNo::new(Clock::system().now_ms(), rand::random(), pay_no.bucket()),
        pay_no: pay_no.clone(),
        channel_txn_id: txn.parse().unwrap(),
        paid: Money::try_new(minor, Currency::from_code("CNY").unwrap()).unwrap(),
        amount: Money::try_new(minor, Currency::from_code("CNY").unwrap()).unwrap(),
        reason: "LATE_SUCCESS".to_owned(),
        notify_url: world.notify_url.clone(),
    }
}

/// A paid order and its transaction.
async fn paid(world: &World) -> (PayNo, String) {
    let pay_no = world.created().await;
    world.control(&format!("orders/{pay_no}/pay"), json!({ "silent": true })).await;
    let txn = world.shown(&pay_no).await.channel_txn_id.unwrap();
    (pay_no, txn)
}

fn word(outcome: Outcome<RefundTold>) -> Option<RefundWord> {
    let Outcome::Accepted(told) = outcome else { panic!("{outcome:?}") };
    told.word
}

/// One number is one refund, whoever repeats it and however often, and its notice is ours to read. Fails when
/// `Refunds::make` does not look the number up under the book's lock.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_equal_refunds_at_once_are_one_refund() {
    let world = world().await;
    world.plan(json!({ "notice_repeats": 3 })).await;
    let (pay_no, txn) = paid(&world).await;
    let refund = asked(&world, &pay_no, &txn, 1000);
    let Outcome::Accepted(told) = world.client.query_refund(&refund.find()).await else { panic!() };
    assert_eq!(told, RefundTold::not_known(), "before it is made");
    for outcome in futures::future::join_all((0..20).map(|_| world.client.refund(&refund))).await {
        let Outcome::Accepted(told) = outcome else { panic!("{outcome:?}") };
        assert_eq!(told.word, Some(RefundWord::Succeeded));
        assert_eq!(told.amount, Some(StatedAmount { minor: 1000, currency: "CNY".to_owned() }));
    }
    let totals = world.quiet().await;
    assert_eq!((totals.refunds, totals.refund_calls, totals.refunded["CNY"]), (1, 20, 1000));
    assert_eq!(totals.refund_notices_sent, 3);
    let notice = world.got()[0].read.clone().unwrap();
    assert_eq!(
        (notice.fact, notice.refund_no.as_deref()),
        (Fact::RefundSucceeded, Some(refund.refund_no.as_str()))
    );
    assert_eq!(
        (notice.pay_no.as_str(), notice.channel_txn_id.unwrap().as_str()),
        (pay_no.as_str(), txn.as_str())
    );

    // The same number on other terms may have moved money: no refusal. More than was taken: surely refused.
    let other =
        CreateRefund { amount: Money::try_new(1, refund.amount.currency()).unwrap(), ..refund.clone() };
    assert_eq!(world.client.refund(&other).await.label(), "unknown");
    for (more, code) in [
        (asked(&world, &pay_no, &txn, 1), "REFUND_EXCEEDS_TRANSACTION"),
        (asked(&world, &pay_no, "T0", 1), "TRANSACTION_NOT_FOUND"),
    ] {
        let outcome = world.client.refund(&more).await;
        assert!(matches!(&outcome, Outcome::Rejected { code: told, .. } if told == code), "{outcome:?}");
    }
}

/// Whatever goes wrong with the first call, asking tells the truth, and the same refund under the same number makes no second.
#[tokio::test]
async fn a_refund_that_went_wrong_is_unknown_and_its_repeat_makes_no_second() {
    let world = world().await;
    for (fault, made) in [
        ("error_before_commit_percent", 0),
        ("error_after_commit_percent", 1),
        ("drop_after_commit_percent", 1),
        ("hang_after_commit_percent", 1),
    ] {
        let (pay_no, txn) = paid(&world).await;
        world.plan(json!({ "refund": { fault: 100 } })).await;
        let before = world.book().await.totals.refunds;
        let refund = asked(&world, &pay_no, &txn, 1000);
        let outcome = world.client.refund(&refund).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{fault}: {outcome:?}");
        assert_eq!(world.book().await.totals.refunds - before, made, "{fault}");
        world.plan(json!({})).await;
        let Outcome::Accepted(told) = world.client.query_refund(&refund.find()).await else { panic!() };
        assert_eq!(told.known, made == 1, "{fault}");
        assert_eq!(word(world.client.refund(&refund).await), Some(RefundWord::Succeeded), "{fault}");
        assert_eq!(world.book().await.totals.refunds - before, 1, "{fault}");
    }
}

#[tokio::test]
async fn a_refund_may_take_time_and_may_fail() {
    let world = world().await;
    world.plan(json!({ "refund": { "done_ms": [300, 300], "fail_percent": 100 } })).await;
    let (pay_no, txn) = paid(&world).await;
    let refund = asked(&world, &pay_no, &txn, 1000);
    assert_eq!(word(world.client.refund(&refund).await), Some(RefundWord::Taken));
    let totals = world.quiet().await;
    assert_eq!((totals.refunds, totals.refunded.get("CNY")), (1, None));
    assert_eq!(word(world.client.query_refund(&refund.find()).await), Some(RefundWord::Failed));
    assert_eq!(world.got()[0].read.clone().unwrap().fact, Fact::RefundFailed);
    world.plan(json!({})).await;
    let again = asked(&world, &pay_no, &txn, 1000);
    assert_eq!(
        word(world.client.refund(&again).await),
        Some(RefundWord::Succeeded),
        "its money was free again"
    );
}
