//! `payctl refund`.

use std::sync::Arc;

use contract::core::DecideRefundRequest;
use contract::reason::{Reason, Refusal};

use crate::core::{self, Told};
use crate::{World, line, run};

const REFUND_NO: &str = "R0000000000000000000000000000";

fn words<'a>(verb: &'a str, number: &'a str, by: &'a str, reason: &'a str) -> [&'a str; 7] {
    ["refund", verb, number, "--by", by, "--reason", reason]
}

/// Name and reason reach the core, which decides; both names are shown. Fails when `approve` and `reject` are mixed up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_goes_to_the_core_with_its_name_and_reason() {
    let (world, told) = (World::new().await, Arc::new(Told::default()));
    let core = core::start(&told).await;
    for (verb, approve, shown) in
        [("approve", true, "approved · 已批准"), ("reject", false, "turned down · 已拒绝")]
    {
        let (done, text) = world.payctl(&core, &words(verb, REFUND_NO, "bob", "looked at it")).await;
        assert!(done, "{text}");
        for part in [REFUND_NO, shown, "900.00", "ann", "bob", if approve { "PENDING" } else { "FAIL" }] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        let asked = DecideRefundRequest {
            refund_no: REFUND_NO.into(),
            decided_by: "bob".into(),
            note: "looked at it".into(),
            approve,
        };
        assert_eq!(told.decisions.lock().unwrap().pop(), Some(asked));
    }
}

/// What the core refuses is told with its runbook, and ends with a status that is no success. What is no name, no reason
/// and no number is not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_is_refused_says_why() {
    let (world, told) = (World::new().await, Arc::new(Told::default()));
    let core = core::start(&told).await;
    *told.refusal.lock().unwrap() =
        Some(Refusal::new(Reason::RefundNotDecidable, "ann asked for it; another person must decide"));
    let (done, text) = world.payctl(&core, &words("approve", REFUND_NO, "ann", "mine")).await;
    assert!(
        !done && text.contains("another person must decide (docs/runbooks/REFUND_NOT_DECIDABLE.md)"),
        "{text}"
    );
    told.decisions.lock().unwrap().clear();
    for (number, by, reason, fault) in [
        ("R1", "bob", "fine", "refund_no"),
        (REFUND_NO, "bob the builder", "fine", "--by"),
        (REFUND_NO, "", "fine", "--by"),
        (REFUND_NO, "bob", "  ", "--reason"),
    ] {
        let (done, text) = world.payctl(&core, &words("approve", number, by, reason)).await;
        assert!(!done && text.contains(fault), "{fault} is not named:\n{text}");
    }
    let (done, _) = world.payctl(&core, &["refund", "approve", REFUND_NO, "--by", "bob"]).await;
    assert!(!done, "a reason is a must");
    assert_eq!(*told.decisions.lock().unwrap(), []);
    // Nobody answers: it is not said that nothing was decided.
    let (done, text) = world.payctl("http://127.0.0.1:1", &words("reject", REFUND_NO, "bob", "no")).await;
    assert!(!done && text.contains("may not have heard it"), "{text}");
}

/// Each thing that waits, how long, and nothing that is settled. Fails when a state is left out, or settled money shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_or_lingers_is_shown_with_its_age() {
    let world = World::new().await;
    run(
        world.payment.pool(),
        "UPDATE refund SET created_at = now() - INTERVAL '3 days 4 hours 9 minutes', updated_at = now() - INTERVAL '62 minutes',
                           tries = 12, last_error = 'the channel did not answer' WHERE refund_no = 'R7';
         UPDATE unexpected_receipt SET created_at = now() - INTERVAL '26 hours' WHERE pay_no = 'P10'",
    )
    .await;
    // Of P3 something is left, of P1 not any more; the second account is even.
    run(
        world.ledger.pool(),
        "SELECT world_entry('REFUND_SUBMITTED:R7', 'REFUND_SUBMITTED', 'P3', 'R7', 10, 'payable:M1:CNY', 'transit:generic:main:CNY'),
                world_entry('REFUND_SUBMITTED:R1', 'REFUND_SUBMITTED', 'P1', 'R1', 100, 'payable:M1:CNY', 'transit:generic:main:CNY'),
                world_entry('REFUND_SUCCEEDED:R1', 'REFUND_SUCCEEDED', 'P1', 'R1', 100, 'transit:generic:main:CNY', 'clearing:generic:main:CNY'),
                world_entry('RECEIPT_UNEXPECTED:x', 'RECEIPT_UNEXPECTED', 'P10', NULL, 999, 'clearing:generic:main:CNY', 'suspense:generic:main:CNY'),
                world_entry('RECEIPT_UNEXPECTED:y', 'RECEIPT_UNEXPECTED', 'P5', NULL, 300, 'clearing:generic:b:CNY', 'suspense:generic:b:CNY'),
                world_entry('RECEIPT_WITHDRAWN:y', 'RECEIPT_WITHDRAWN', 'P5', NULL, 300, 'suspense:generic:b:CNY', 'clearing:generic:b:CNY')",
    )
    .await;
    let (done, text) = world.payctl("http://127.0.0.1:1", &["refund", "open"]).await;
    assert!(done, "{text}");
    let refund = line(&text, "R7 ");
    for part in
        ["PAYMENT", "SUBMITTED", "NOT_NEEDED", "age 3d04h", "unchanged 1h02m", "tries 12", "0.10", "P3"]
    {
        assert!(refund.contains(part), "{part} is missing: {refund}");
    }
    assert!(text.contains("the channel did not answer"));
    assert!(line(&text, "R6 ").contains("WAITING"));
    assert!(line(&text, "R5 ").contains("PROCESSING"));
    for (number, kind) in [("R12", "PENDING"), ("R13", "SUBMITTED")] {
        assert!(line(&text, &format!("{number} ")).contains(kind));
    }
    assert!(text.starts_with("5 refunds that have not ended · 未完结退款\n"), "{text}");
    assert!(text.contains("5 receipts that no payment wanted · 未处理的意外收款\n"), "{text}");
    let receipt = text.lines().find(|line| line.contains("generic/main/L-P10")).unwrap();
    for part in ["OPEN", "AMOUNT_MISMATCH", "age 1d02h", "9.99", "refund -"] {
        assert!(receipt.contains(part), "{part} is missing: {receipt}");
    }
    assert!(text.contains("2 balances that are not zero yet · 未清零余额\n"), "{text}");
    let transit = line(&text, "transit:generic:main:CNY");
    assert!(transit.contains("0.10") && transit.contains("of 1 payments"), "{transit}");
    assert!(line(&text, "suspense:generic:main:CNY").contains("9.99"));
    // Settled: gone back, failed, turned down; given back, withdrawn.
    for settled in ["R1 ", "R2 ", "R3 ", "R4 ", "R8 ", "R9 ", "L-P5", "T-P11", "generic:b"] {
        assert!(!text.contains(settled), "{settled} is settled:\n{text}");
    }
}
