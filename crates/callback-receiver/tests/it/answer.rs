//! What is passed on, and whose word the answer is.

use std::time::{Duration, Instant};

use contract::common::Money;
use contract::core::{ChannelAnswer, ChannelFact, ResultOutcome, ResultSource};
use sha2::{Digest as _, Sha256};
use tonic::Code;

use crate::world::{BODY, Draft, Given, Reply, noon, world, world_given};

/// Blanks, escapes, the order of keys, unknown fields, and a claim to be compressed: the core gets the very bytes that were
/// signed. Fails when anything on the way reads the body and writes it anew, or decodes it.
#[tokio::test(flavor = "multi_thread")]
async fn the_raw_body_passes_byte_for_byte() {
    let world = world().await;
    let body = format!(" {}\r\n", BODY.replacen('{', "{\t\"subject\" : \"caf\\u00e9 + \\/ \u{8336}\",", 1));
    let draft = Draft {
        body: body.clone(),
        headers: vec![("content-encoding", "gzip".to_owned())],
        ..Draft::default()
    };
    assert_eq!(world.send(&draft).await, (204, String::new()));
    let [request] = &world.results()[..] else { panic!("one call") };
    assert_eq!(request.raw, body.as_bytes());
    let nonce = request.nonce.clone().unwrap();
    assert_eq!(nonce.body_sha256, Sha256::digest(&body).to_vec());
    assert_eq!(
        (nonce.key_id.as_str(), nonce.nonce.as_str(), nonce.notify_id.as_str()),
        ("k1", "nonce-0001", "N1")
    );
    assert_eq!((request.channel.as_str(), request.channel_account.as_str()), ("generic", "main"));
    assert_eq!((request.source(), request.fact()), (ResultSource::Notice, ChannelFact::PaySucceeded));
    assert_eq!((request.pay_no.as_str(), request.channel_txn_id.as_str()), ("P2026010100000001", "T1"));
    assert_eq!(request.amount, Some(Money { amount: 1000, currency: "CNY".to_owned() }));
    assert_eq!(request.occurred_at.unwrap().seconds, 1_767_240_005);
    let deadlines = world.core.deadlines.lock().unwrap().clone();
    assert!(deadlines[0].is_some(), "the core is told how long it has");
}

/// Fails when the edge decides by itself, or answers before the core has.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_is_the_cores_word() {
    let world = world().await;
    let refused = (409, "{\"code\":\"REFUSED\"}".to_owned());
    let unavailable = (503, "{\"code\":\"UNAVAILABLE\"}".to_owned());
    for (answer, outcome, expected) in [
        (ChannelAnswer::Accept, ResultOutcome::Duplicate, (204, String::new())),
        (ChannelAnswer::Accept, ResultOutcome::AmountMismatch, (204, String::new())),
        (ChannelAnswer::Refuse, ResultOutcome::Orphan, refused.clone()),
        (ChannelAnswer::Refuse, ResultOutcome::NonceReused, refused),
        (ChannelAnswer::Unspecified, ResultOutcome::Applied, unavailable.clone()),
    ] {
        world.say(answer, outcome);
        assert_eq!(world.send_good().await, expected, "{answer:?} {outcome:?}");
    }
    for code in [Code::Unavailable, Code::Internal, Code::DeadlineExceeded, Code::ResourceExhausted] {
        world.reply(Reply::Fail(code));
        assert_eq!(world.send_good().await, unavailable, "{code:?}");
    }
    assert!(world.refused().is_empty());
}

/// Every fact about a payment or a refund goes to the core; what moves neither is acknowledged and goes nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn only_facts_about_payments_and_refunds_reach_the_core() {
    let world = world().await;
    for (event, fact) in [
        ("payment.closed", ChannelFact::PayClosed),
        ("payment.failed", ChannelFact::PayFailed),
        ("payment.declined", ChannelFact::PayDeclined),
    ] {
        let draft = Draft { body: BODY.replace("payment.succeeded", event), ..Draft::default() };
        assert_eq!(world.send(&draft).await.0, 204);
        assert_eq!(world.results().last().unwrap().fact(), fact);
    }
    for (event, fact) in
        [("refund.succeeded", ChannelFact::RefundSucceeded), ("refund.failed", ChannelFact::RefundFailed)]
    {
        let body = BODY.replace("payment.succeeded", event);
        let draft = Draft { body: body.replacen('{', "{\"refund_no\":\"R1\",", 1), ..Draft::default() };
        assert_eq!(world.send(&draft).await.0, 204);
        let result = world.results().last().unwrap().clone();
        assert_eq!((result.fact(), result.refund_no.as_str()), (fact, "R1"));
        let unnamed = Draft { body, ..Draft::default() };
        assert_eq!(world.send(&unnamed).await.0, 400, "a refund without its number");
    }
    let draft = Draft { body: BODY.replace("payment.succeeded", "dispute.opened"), ..Draft::default() };
    assert_eq!(world.send(&draft).await.0, 204);
    assert_eq!(world.results().len(), 5);
}

/// Nothing was committed, so nothing is acknowledged. Fails when an error of the call is answered with anything but 503.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_is_down_is_503_and_the_repeat_succeeds() {
    let world = world_given(Given { core_is_up: false, ..Given::default() }).await;
    assert_eq!(world.send_good().await.0, 503);
    let ready = world.http.get(format!("{}/readyz", world.admin_url)).send().await.unwrap();
    assert_eq!(ready.status(), 503);
    assert!(ready.text().await.unwrap().contains("payment-core"));
    world.start_core().await;
    test_kit::wait_for("the repeat is taken", async || world.send_good().await.0 == 204).await;
    let ready = world.http.get(format!("{}/readyz", world.admin_url)).send().await.unwrap();
    assert_eq!(ready.status(), 200);
}

/// Fails when both limits are gone: the one that travels with the call and the one around it. Either alone holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_hangs_is_503_within_the_limit() {
    let world = world_given(Given { core_ms_max: 300, ..Given::default() }).await;
    world.reply(Reply::Hang);
    let begun = Instant::now();
    assert_eq!(world.send_good().await.0, 503);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// The edge dedupes nothing: all twenty reach the core, and each has the core's own answer.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_equal_notices_at_once_have_twenty_answers() {
    let world = world().await;
    let answers = futures::future::join_all((0..20).map(|_| world.send_good())).await;
    assert!(answers.iter().all(|answer| answer.0 == 204), "{answers:?}");
    let results = world.results();
    assert_eq!(results.len(), 20);
    assert!(results.iter().all(|result| result == &results[0]));
}

/// Both keys of an account verify while it changes them, and the core hears which one did.
#[tokio::test(flavor = "multi_thread")]
async fn both_keys_are_valid_during_a_rotation() {
    let world = world().await;
    for key_id in ["k0", "k1"] {
        let draft = Draft { key_id, ..Draft::default() };
        assert_eq!(world.send(&draft).await.0, 204, "{key_id}");
        assert_eq!(world.results().last().unwrap().nonce.as_ref().unwrap().key_id, key_id);
    }
}

/// Fails when an edge of the window moves, or when another clock than the service's own is looked at.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_window_is_300_seconds_by_the_services_clock() {
    let world = world().await;
    for (offset, status) in [(-301, 401), (-300, 204), (300, 204), (301, 401)] {
        let draft = Draft { at: noon() + time::Duration::seconds(offset), ..Draft::default() };
        assert_eq!(world.send(&draft).await.0, status, "{offset}");
    }
    world.clock.set(noon() + time::Duration::hours(1));
    assert_eq!(world.send_good().await.0, 401);
}

/// A notice in hand is finished at the end of the service. Fails when `run` does not wait for connections in work.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_finishes_the_notice_in_hand() {
    let mut world = world().await;
    world.reply(Reply::Hang);
    let sent = world.send_good();
    let end = async {
        test_kit::wait_for("the core is asked", async || world.results().len() == 1).await;
        world.stop.cancel();
        world.core.let_go.cancel();
    };
    let (answer, ()) = tokio::join!(sent, end);
    assert_eq!(answer.0, 204);
    let ended = tokio::time::timeout(Duration::from_secs(15), &mut world.running).await.unwrap();
    assert!(ended.unwrap().unwrap().is_ok());
}
