//! What is not believed: refused, kept as evidence before the answer, and never shown to the settle path.

use std::sync::atomic::Ordering;

use sha2::{Digest as _, Sha256};
use tonic::Code;

use crate::world::{BODY, Draft, PATH, Reply, World, noon, world};

/// The one piece of evidence of a refusal, checked to be there when the answer comes.
async fn refused(world: &World, draft: &Draft, status: u16, reason: &str) {
    let before = world.refused().len();
    assert_eq!(world.send(draft).await, (status, format!("{{\"code\":\"{reason}\"}}")), "{draft:?}");
    let evidence = world.refused();
    assert_eq!(evidence.len().checked_sub(before), Some(1), "committed before the answer: {draft:?}");
    let piece = evidence.last().unwrap();
    assert_eq!(piece.reason, reason);
    assert_eq!(
        (piece.channel.as_str(), piece.channel_account.as_str()),
        ("generic", draft.path.rsplit('/').next().unwrap().split('?').next().unwrap())
    );
    assert_eq!(piece.body_sha256, Sha256::digest(&draft.body).to_vec());
    assert!(draft.body.as_bytes().starts_with(&piece.raw_prefix) && piece.raw_prefix.len() <= 4096);
    assert!(!piece.detail.is_empty() && piece.detail.len() <= 500);
    assert!(world.results().is_empty(), "nothing unverified reaches the settle path: {draft:?}");
}

/// Fails when a check is left out of the reader, or when evidence is sent after the answer.
#[tokio::test(flavor = "multi_thread")]
async fn each_reason_has_its_answer_and_its_evidence() {
    let world = world().await;
    let good = Draft::default;
    let zero = format!("v1={}", "0".repeat(64));
    for (draft, status, reason) in [
        (Draft { headers: vec![("x-channel-signature", zero)], ..good() }, 401, "SIGNATURE_INVALID"),
        (Draft { headers: vec![("x-channel-key-id", "k9".to_owned())], ..good() }, 401, "KEY_UNKNOWN"),
        (Draft { headers: vec![("x-channel-key-id", "k0".to_owned())], ..good() }, 401, "SIGNATURE_INVALID"),
        (
            Draft { headers: vec![("x-channel-nonce", "another-1".to_owned())], ..good() },
            401,
            "SIGNATURE_INVALID",
        ),
        (
            Draft { headers: vec![("x-channel-timestamp", "NaN".to_owned())], ..good() },
            400,
            "NOTICE_MALFORMED",
        ),
        (Draft { at: noon() - time::Duration::hours(1), ..good() }, 401, "TIMESTAMP_OUTSIDE_WINDOW"),
        (Draft { at: noon() + time::Duration::hours(1), ..good() }, 401, "TIMESTAMP_OUTSIDE_WINDOW"),
        (Draft { body: "{}".to_owned(), ..good() }, 400, "NOTICE_MALFORMED"),
        (Draft { body: String::new(), ..good() }, 400, "NOTICE_MALFORMED"),
        (Draft { body: format!("{BODY}{BODY}"), ..good() }, 400, "NOTICE_MALFORMED"),
        (Draft { body: BODY.replacen('{', "{\"amount\":1,", 1), ..good() }, 400, "NOTICE_MALFORMED"),
        (
            Draft { body: format!("{}{BODY}", " ".repeat(60_000)).replace("1000", "1e3"), ..good() },
            400,
            "NOTICE_MALFORMED",
        ),
    ] {
        refused(&world, &draft, status, reason).await;
    }
}

/// While the core writes the evidence, the sender waits. Fails when the answer does not wait for the commit (`WAIT_MAX`).
#[tokio::test(flavor = "multi_thread")]
async fn the_evidence_is_committed_before_the_answer() {
    let world = world().await;
    *world.core.evidence_hangs.lock().unwrap() = true;
    let forged = Draft { body: "{}".to_owned(), ..Draft::default() };
    let mut refusal = std::pin::pin!(world.send(&forged));
    let meanwhile = async {
        test_kit::wait_for("the core has the evidence", async || {
            world.core.evidence_calls.load(Ordering::SeqCst) == 1
        })
        .await;
        // As long as an answer takes on its way.
        assert_eq!(world.send_good().await.0, 204);
    };
    tokio::select! {
        biased;
        answer = &mut refusal => panic!("answered before the commit: {answer:?}"),
        () = meanwhile => {}
    }
    world.core.let_go.cancel();
    assert_eq!(refusal.await.0, 400);
}

/// A genuine notice sent to another address is refused there. Fails when the path is not signed, or when all accounts' keys
/// are tried.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_moved_to_another_address_is_refused() {
    let world = world().await;
    for path in ["/v1/callbacks/generic/second", "/v1/callbacks/generic/main?retry=1"] {
        refused(&world, &Draft { path: path.to_owned(), ..Draft::default() }, 401, "SIGNATURE_INVALID").await;
    }
    // Signed for the second account's address, but by the first one's key of the same id.
    let second = "/v1/callbacks/generic/second".to_owned();
    let draft = Draft { path: second.clone(), signed_path: second.clone(), ..Draft::default() };
    refused(&world, &draft, 401, "SIGNATURE_INVALID").await;
    let draft = Draft { account: "second", ..draft };
    assert_eq!(world.send(&draft).await.0, 204, "by its own key it is genuine");
    assert_eq!(world.results()[0].channel_account, "second");
    // A query that is signed is part of the address.
    let query = format!("{PATH}?a=%2B");
    let draft = Draft { path: query.clone(), signed_path: query, ..Draft::default() };
    assert_eq!(world.send(&draft).await.0, 204);
}

/// Addresses of no account cost nothing: no evidence, no call.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_no_account_is_404() {
    let world = world().await;
    for path in [
        "/v1/callbacks/generic/nobody",
        "/v1/callbacks/paypal/main",
        "/v1/callbacks/alipay/main",
        "/v1/callbacks/generic/%FF",
    ] {
        let draft = Draft { path: path.to_owned(), signed_path: path.to_owned(), ..Draft::default() };
        let status = world.send(&draft).await.0;
        assert!(matches!(status, 404 | 400), "{path}: {status}");
    }
    let get = world.http.get(format!("{}{PATH}", world.url)).send().await.unwrap();
    assert_eq!(get.status(), 405);
    assert!(world.results().is_empty() && world.refused().is_empty());
}

/// A notice that verifies and that the core cannot read is no endless 503: it is kept as evidence and refused.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_core_cannot_read_is_malformed() {
    let world = world().await;
    world.reply(Reply::Fail(Code::InvalidArgument));
    assert_eq!(world.send_good().await.0, 400);
    assert_eq!(world.refused()[0].reason, "NOTICE_MALFORMED");
}

/// A thousand notices of two accounts in turn, each by its own key. Fails when keys are found by id alone.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_two_accounts_are_never_mixed_up() {
    let world = world().await;
    let second = "/v1/callbacks/generic/second".to_owned();
    let drafts = [
        Draft::default(),
        Draft { path: second.clone(), signed_path: second, account: "second", ..Draft::default() },
    ];
    for _ in 0..50 {
        let sent = (0..20).map(|n| world.send(&drafts[n % 2]));
        let answers = futures::future::join_all(sent).await;
        assert!(answers.iter().all(|answer| answer.0 == 204), "{answers:?}");
    }
}
