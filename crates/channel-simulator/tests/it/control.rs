//! Control calls: direct notices, second transactions, the pay page, the end of the service.

use std::time::Duration;

use channel::NoticeReason;
use serde_json::{Value, json};

use crate::world::{World, world};

/// Sends direct notices and gives the statuses that came back.
async fn sent(world: &World, notice: Value) -> Vec<u64> {
    let answers = world.control("notices", notice).await;
    answers["answers"].as_array().unwrap().iter().map(|answer| answer["status"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_notice_is_filled_from_the_order_and_sent_in_parallel() {
    let world = world().await;
    let pay_no = world.created().await;
    let statuses = sent(&world, json!({ "pay_no": pay_no.as_str(), "repeats": 20, "parallel": 20 })).await;
    assert_eq!(statuses, vec![204; 20]);
    let got = world.got();
    assert!(got.iter().all(|one| one.body == got[0].body));
    let notice = got[0].read.clone().unwrap();
    assert_eq!((notice.pay_no.as_str(), notice.amount.unwrap().minor), (pay_no.as_str(), 1000));
    assert!(got.iter().all(|one| one.read.as_ref().unwrap().nonce == notice.nonce));
    assert_eq!(world.book().await.totals.charges, 0, "a direct notice charges nobody");

    sent(&world, json!({ "pay_no": pay_no.as_str(), "repeats": 2, "fresh_nonces": true })).await;
    let fresh: Vec<_> = world.got().split_off(20).into_iter().map(|one| one.read.unwrap().nonce).collect();
    assert_ne!(fresh[0], fresh[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_about_a_direct_notice_can_be_set_wrong() {
    let world = world().await;
    for (notice, reason) in [
        (json!({ "pay_no": "P1", "signature": "WRONG" }), NoticeReason::SignatureInvalid),
        (json!({ "pay_no": "P1", "signature": "MISSING" }), NoticeReason::SignatureInvalid),
        (json!({ "pay_no": "P1", "signed_path": "/elsewhere" }), NoticeReason::SignatureInvalid),
        (
            json!({ "pay_no": "P1", "account": "second", "url": world.notify_url }),
            NoticeReason::SignatureInvalid,
        ),
        (json!({ "pay_no": "P1", "key_id": "k9" }), NoticeReason::KeyUnknown),
        (json!({ "pay_no": "P1", "timestamp_offset_s": -400 }), NoticeReason::TimestampOutsideWindow),
        (json!({ "pay_no": "P1", "timestamp": 1 }), NoticeReason::TimestampOutsideWindow),
        (json!({ "body": "{\"a\":1,\"a\":2}" }), NoticeReason::NoticeMalformed),
        (json!({ "pay_no": "P1", "nonce": "a b" }), NoticeReason::NoticeMalformed),
    ] {
        assert_eq!(sent(&world, notice.clone()).await, [401], "{notice}");
        assert_eq!(world.got().last().unwrap().read.clone().unwrap_err().reason, reason, "{notice}");
    }
    let (status, _) = world.try_control("notices", json!({ "account": "nobody" })).await;
    assert_eq!(status, 422);
    let (status, _) = world.try_control("notices", json!({ "typo": 1 })).await;
    assert_eq!(status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_transaction_is_another_charge_with_its_own_notice() {
    let world = world().await;
    let pay_no = world.created().await;
    world.control(&format!("orders/{pay_no}/pay"), json!({ "silent": true })).await;
    assert!(world.quiet().await.notices_sent == 0, "silent");
    let shown = world.control(&format!("orders/{pay_no}/second-transaction"), json!({})).await;
    assert_eq!(shown["charges"], 2);
    world.quiet().await;
    let notice = world.got()[0].read.clone().unwrap();
    assert_eq!(notice.channel_txn_id.unwrap().as_str(), shown["channel_txn_ids"][1].as_str().unwrap());
    let (status, _) = world.try_control("orders/nobody/pay", json!({})).await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pay_page_pays_once() {
    let world = world().await;
    let pay_no = world.created().await;
    let url = format!("{}/pay/{pay_no}", world.url);
    let page = world.http.get(&url).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("10.00 CNY") && page.contains("tea 茶") && page.contains("支付"), "{page}");
    for _ in 0..2 {
        let page = world.http.post(&url).send().await.unwrap().text().await.unwrap();
        assert!(page.contains("已支付"), "{page}");
    }
    let totals = world.quiet().await;
    assert_eq!((totals.charges, totals.notices_acked), (1, 1));
}

/// Fails when a call that hangs on purpose is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_waits_for_no_hanging_call() {
    let world = world().await;
    world.plan(json!({ "create": { "hang_after_commit_percent": 100 } })).await;
    let order = world.order(1000);
    let patient = world.patient_client();
    let hanging = patient.create(&order);
    let stop = async {
        test_kit::wait_for("the order is made", async || world.book().await.totals.orders == 1).await;
        world.stop.cancel();
    };
    // Half of what the service would wait at most.
    let limit = Duration::from_secs(10);
    let (outcome, ()) = tokio::time::timeout(limit, async { tokio::join!(hanging, stop) }).await.unwrap();
    assert_eq!(outcome.label(), "unknown");
    let ended = tokio::time::timeout(limit, world.running).await.unwrap().unwrap();
    assert!(ended.unwrap().is_ok());
}
