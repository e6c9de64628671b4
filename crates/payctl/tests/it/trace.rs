//! `payctl trace` of a payment that went back.

use crate::{World, run};

/// Each refund stands with its key, events and entries, found by the payment's number, the refund's number and the
/// refund's key. Fails when a refund's steps stand elsewhere, or an event that names no known refund is not shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_shows_each_refund_with_its_key_events_and_entries() {
    let world = World::new().await;
    run(
        world.payment.pool(),
        "SELECT world_event('P1', 'REFUND_ACCEPTED', 'R-stray', NULL, NULL, 5);
         INSERT INTO anomaly (kind, subject, detail) VALUES ('REFUND_STUCK', 'R5', '{\"words\": \"slow\"}')",
    )
    .await;
    run(
        world.ledger.pool(),
        "SELECT world_entry('PAY_SUCCEEDED:P1', 'PAY_SUCCEEDED', 'P1', NULL, 1000, 'clearing:generic:main:CNY', 'payable:M1:CNY'),
                world_entry('REFUND_SUBMITTED:R1', 'REFUND_SUBMITTED', 'P1', 'R1', 100, 'payable:M1:CNY', 'transit:generic:main:CNY')",
    )
    .await;
    let mut screens = Vec::new();
    for what in ["P1", "O-P1", "R1", "key-R5"] {
        let (done, text) = world.payctl("http://127.0.0.1:1", &["trace", what]).await;
        assert!(done, "{what}: {text}");
        screens.push(text);
    }
    assert!(screens.iter().all(|screen| *screen == screens[0]), "{screens:#?}");
    let (payment, refunds) = screens[0].split_once("G10 refunds · 退款\n").unwrap();
    for part in [
        "PAY:CREATE:M1:key-P1",
        "PAY_CREATED",
        "PAY_SUCCEEDED",
        "REFUND_ACCEPTED",
        "D clearing:generic:main:CNY 1000",
    ] {
        assert!(payment.contains(part), "{part} is missing:\n{payment}");
    }
    assert!(!payment.contains("REFUND_CREATED") && !payment.contains("REFUND:CREATE:"), "{payment}");
    let of = |number: &str, next: &str| {
        let (_, rest) = refunds.split_once(&format!("{number}  PAYMENT")).unwrap();
        rest.split_once(next).unwrap().0.to_owned()
    };
    let first = of("R1", "R2  PAYMENT");
    for part in [
        "SUCCESS",
        "1.00",
        "req-R1",
        "ann",
        "REFUND:CREATE:M1:key-R1",
        "REFUND_CREATED",
        "REFUND_SUBMITTED",
        "REFUND_ACCEPTED",
        "REFUND_SUCCEEDED",
        "C transit:generic:main:CNY 100",
    ] {
        assert!(first.contains(part), "{part} is missing:\n{first}");
    }
    assert!(of("R3", "R4  PAYMENT").contains("came home · 退回"));
    let turned_down = of("R4", "R5  PAYMENT");
    for part in ["approval · 审批  REJECTED by bob: looked at it", "REFUND_REJECTED"] {
        assert!(turned_down.contains(part), "{part} is missing:\n{turned_down}");
    }
    assert!(refunds.contains("REFUND_STUCK  R5"), "{refunds}");
    let (done, text) = world.payctl("http://127.0.0.1:1", &["trace", "P5"]).await;
    assert!(done && text.contains("R9  RECEIPT  SUCCESS") && text.contains("RECEIPT LATE_SUCCESS"), "{text}");
}
