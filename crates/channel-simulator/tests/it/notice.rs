//! Notices: sent until acknowledged, and everything that a plan does to them.

use std::collections::BTreeMap;

use channel::{Fact, NoticeReason};
use serde_json::json;

use crate::world::{World, world, world_that};

async fn created_many(world: &World, count: usize) {
    for _ in 0..count {
        world.created().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paid_order_is_told_once_and_verifies() {
    let world = world().await;
    let pay_no = world.created().await;
    let shown = world.control(&format!("orders/{pay_no}/pay"), json!({})).await;
    let totals = world.quiet().await;
    assert_eq!((totals.charges, totals.notices_sent, totals.notices_acked), (1, 1, 1));
    let notice = world.got()[0].read.clone().unwrap();
    assert_eq!((notice.fact, notice.pay_no.as_str()), (Fact::PaySucceeded, pay_no.as_str()));
    assert_eq!(notice.channel_txn_id.unwrap().as_str(), shown["channel_txn_id"].as_str().unwrap());
    // Paying again takes nothing and tells nothing.
    world.control(&format!("orders/{pay_no}/pay"), json!({})).await;
    assert_eq!(world.quiet().await.charges, 1);
    assert_eq!(world.got().len(), 1);
}

/// Fails when a notice without 2xx is given up, or when a repeat keeps the old timestamp and nonce.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_sent_again_until_it_is_acknowledged() {
    let world = world_that(|before, _| [500, 409, 503].get(before).copied().unwrap_or(200)).await;
    let pay_no = world.created().await;
    world.control(&format!("orders/{pay_no}/pay"), json!({})).await;
    let totals = world.quiet().await;
    assert_eq!((totals.notices_sent, totals.notices_acked, totals.given_up), (4, 1, 0));
    let notices: Vec<_> = world.got().into_iter().map(|got| got.read.unwrap()).collect();
    assert!(
        notices.windows(2).all(|two| two[0].notify_id == two[1].notify_id && two[0].nonce != two[1].nonce)
    );
    let shown = world.shown(&pay_no).await;
    assert_eq!((shown.notices_sent, shown.notices_acked), (4, 1));
}

/// Copies are the same bytes under the same nonce; a lost notice comes later, never not at all.
#[tokio::test(flavor = "multi_thread")]
async fn copies_and_lost_notices_follow_the_plan() {
    let world = world().await;
    world.plan(json!({ "seed": 1, "auto_pay": { "delay_ms": [0, 20] }, "notice_repeats": 3, "lose_percent": 50 })).await;
    created_many(&world, 30).await;
    let totals = test_kit::wait_for("all orders have paid themselves", async || {
        Some(world.quiet().await).filter(|totals| totals.orders_paid == 30)
    })
    .await;
    assert_eq!((totals.charges, totals.charged["CNY"]), (30, 30_000));
    assert_eq!((totals.notices_sent, totals.notices_acked), (90, 90));
    assert!((5..=25).contains(&totals.notices_lost_first), "{}", totals.notices_lost_first);
    let mut by_id: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for got in world.got() {
        let notice = got.read.unwrap();
        by_id.entry(notice.notify_id).or_default().push(notice.nonce);
    }
    assert_eq!(by_id.len(), 30);
    assert!(by_id.values().all(|nonces| nonces.len() == 3 && nonces.iter().all(|nonce| *nonce == nonces[0])));
}

/// Fails when the late `payment.closed` is sent beside the success instead of after its acknowledgement.
#[tokio::test(flavor = "multi_thread")]
async fn a_reordered_close_comes_after_the_acknowledged_success() {
    let world = world().await;
    world.plan(json!({ "reorder_percent": 100 })).await;
    let pay_no = world.created().await;
    world.control(&format!("orders/{pay_no}/pay"), json!({})).await;
    assert_eq!(world.quiet().await.closed_after_paid_sent, 1);
    let notices: Vec<_> = world.got().into_iter().map(|got| got.read.unwrap()).collect();
    assert_eq!(notices.iter().map(|n| n.fact).collect::<Vec<_>>(), [Fact::PaySucceeded, Fact::PayClosed]);
    assert!(notices[1].occurred_at < notices[0].occurred_at);
    assert_eq!(world.shown(&pay_no).await.notices_sent, 1, "the reordered one is counted apart");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lie_is_what_it_says_and_is_counted() {
    let world = world().await;
    world
        .plan(json!({ "lies": {
            "wrong_amount_percent": 100, "unknown_pay_no_percent": 100,
            "bad_signature_percent": 100, "stale_timestamp_percent": 100 } }))
        .await;
    let pay_no = world.created().await;
    world.control(&format!("orders/{pay_no}/pay"), json!({})).await;
    let totals = world.quiet().await;
    let lies = totals.lies;
    assert_eq!(
        (lies.wrong_amount, lies.unknown_pay_no, lies.bad_signature, lies.stale_timestamp),
        (1, 1, 1, 1)
    );
    assert_eq!(
        (totals.charges, totals.notices_sent),
        (1, 1),
        "lies are no genuine notices and charge nobody"
    );
    let got = world.got();
    assert_eq!(got.len(), 5);
    let reasons: Vec<_> = got.iter().filter_map(|got| got.read.as_ref().err()).map(|e| e.reason).collect();
    assert!(reasons.contains(&NoticeReason::SignatureInvalid), "{reasons:?}");
    assert!(reasons.contains(&NoticeReason::TimestampOutsideWindow), "{reasons:?}");
    let read: Vec<_> = got.into_iter().filter_map(|got| got.read.ok()).collect();
    let own = |n: &channel::Notice| n.channel_txn_id.as_ref().unwrap().as_str().starts_with('X');
    let wrong = read.iter().find(|n| n.pay_no == pay_no.as_str() && own(n)).unwrap();
    assert_eq!(wrong.amount.as_ref().unwrap().minor, 1001);
    let unknown = read.iter().find(|n| n.pay_no != pay_no.as_str()).unwrap();
    assert!(own(unknown) && unknown.pay_no.parse::<pay_types::PayNo>().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_seed_does_the_same_to_two_channels() {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let world = world().await;
        let plan = json!({ "seed": 42, "auto_pay": { "percent": 60 }, "reorder_percent": 40, "lose_percent": 30,
            "lies": { "wrong_amount_percent": 25, "bad_signature_percent": 25 } });
        world.plan(plan).await;
        created_many(&world, 40).await;
        let totals = world.quiet().await;
        let paid: Vec<_> = world.book().await.orders.iter().map(|order| order.charges).collect();
        seen.push((paid, totals.lies, totals.closed_after_paid_sent, totals.notices_lost_first));
    }
    assert_eq!(seen[0], seen[1]);
}
