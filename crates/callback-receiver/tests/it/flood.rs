//! Floods: what is too much is told to come again or dropped, and never holds back what verifies.

use std::time::{Duration, Instant};

use crate::world::{Draft, Given, Reply, world, world_given};

fn forged(n: usize) -> Draft {
    let signature = format!("v1={n:064x}");
    Draft {
        body: format!("{{\"forged\":{n}}}"),
        headers: vec![("x-channel-signature", signature)],
        ..Draft::default()
    }
}

/// Fails without the places in `notify::take`: the third would wait for the core too.
#[tokio::test(flavor = "multi_thread")]
async fn notices_beyond_the_places_are_told_to_come_again() {
    let world = world_given(Given { in_hand_max: 2, ..Given::default() }).await;
    world.reply(Reply::Hang);
    let held = async { futures::future::join_all([world.send_good(), world.send_good()]).await };
    let more = async {
        test_kit::wait_for("both places are taken", async || world.results().len() == 2).await;
        assert_eq!(world.send_good().await.0, 503);
        world.core.let_go.cancel();
    };
    let (held, ()) = tokio::join!(held, more);
    assert!(held.iter().all(|answer| answer.0 == 204), "{held:?}");
}

/// A thousand forgeries leave a bounded number of pieces in the database, all are refused, and a genuine notice passes
/// meanwhile. Fails without the rate in `Evidence::keep`.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_forgeries_leaves_bounded_evidence() {
    let world = world().await;
    let begun = Instant::now();
    for batch in 0..20 {
        let sent: Vec<_> = (0..50).map(|n| forged(batch * 50 + n)).collect();
        let answers = futures::future::join_all(sent.iter().map(|draft| world.send(draft))).await;
        assert!(answers.iter().all(|answer| answer.0 == 401), "{answers:?}");
        assert_eq!(world.send_good().await.0, 204, "a genuine notice passes");
    }
    // A burst of 100, and one more each 50 ms.
    let allowed = 101 + usize::try_from(begun.elapsed().as_millis() / 50).unwrap();
    let kept = world.refused().len();
    assert!((100..=allowed).contains(&kept), "{kept} of at most {allowed}");
}

/// The evidence's way may be stuck: refusals are answered all the same, after a bounded wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_does_not_wait_for_ever_for_its_evidence() {
    let world = world().await;
    *world.core.evidence_hangs.lock().unwrap() = true;
    let begun = Instant::now();
    assert_eq!(world.send(&forged(1)).await.0, 401);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(world.send_good().await.0, 204);
    // Once the core is back, the piece that waited is written.
    world.core.let_go.cancel();
    test_kit::wait_for("the evidence is written", async || !world.refused().is_empty()).await;
}

/// Without a core there is nowhere to keep evidence, and a forgery is still no 503 that would invite a repeat.
#[tokio::test(flavor = "multi_thread")]
async fn a_forgery_is_refused_although_the_core_is_down() {
    let world = world_given(Given { core_is_up: false, ..Given::default() }).await;
    assert_eq!(world.send(&forged(1)).await.0, 401);
}
