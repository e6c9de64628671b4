//! Rules with many arms: each arm by the one query, since most of them are money, which the books find too.

use audit::INVARIANTS;

use crate::World;

const UNLOCK: &str = "ALTER TABLE payment_event DISABLE TRIGGER tr_append_only;
    ALTER TABLE refund DISABLE TRIGGER tr_refund_terminal_state, DROP CONSTRAINT ck_refund_returned";

/// Rows that one rule finds after a statement, which is taken back.
async fn found_by(world: &World, rule: &str, statement: &str) -> Vec<String> {
    let query = INVARIANTS.iter().find(|invariant| invariant.rule == rule).unwrap().query;
    let mut tx = world.payment.pool().begin().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("{UNLOCK}; {statement}"))).execute(&mut *tx).await.unwrap();
    let rows = sqlx::query_scalar(query).fetch_all(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap();
    rows
}

/// Fails when an arm of the rule is left out, or looks at the state alone where the approval or the return counts too.
#[tokio::test]
async fn each_step_of_a_refund_that_is_missing_or_too_much_is_found() {
    let world = World::with(&[]).await;
    let rule = "a refund has the events that its state says, once each";
    let missing = [
        "CREATED:R6",
        "SUBMITTED:R1",
        "SUBMITTED:R2",
        "SUBMITTED:R3",
        "SUBMITTED:R5",
        "SUBMITTED:R7",
        "SUBMITTED:R13",
        "ACCEPTED:R5",
        "SUCCEEDED:R1",
        "SUCCEEDED:R3",
        "SUCCEEDED:R9",
        "FAILED:R2",
        "FAILED:R10",
        "REJECTED:R4",
        "RETURNED:R3",
        "RETURNED:R11",
    ];
    for key in missing {
        let statement = format!("DELETE FROM payment_event WHERE msg_key = 'REFUND_{key}'");
        let (_, refund_no) = key.split_once(':').unwrap();
        assert_eq!(found_by(&world, rule, &statement).await, [refund_no], "without {key}");
    }
    let too_much = [
        "CREATED:R9",
        "SUBMITTED:R4",
        "SUBMITTED:R6",
        "SUBMITTED:R12",
        "ACCEPTED:R4",
        "ACCEPTED:R6",
        "ACCEPTED:R7",
        "SUCCEEDED:R2",
        "SUCCEEDED:R4",
        "SUCCEEDED:R5",
        "FAILED:R1",
        "FAILED:R4",
        "FAILED:R7",
        "REJECTED:R2",
        "REJECTED:R6",
        "RETURNED:R1",
        "RETURNED:R2",
        "RETURNED:R9",
    ];
    for key in too_much {
        let (kind, refund_no) = key.split_once(':').unwrap();
        let statement = format!("SELECT world_step('{refund_no}', 'REFUND_{kind}', FALSE)");
        assert_eq!(found_by(&world, rule, &statement).await, [refund_no], "with {key}");
    }
    let twice = "ALTER TABLE payment_event DROP CONSTRAINT uk_event_msg_key;
                 SELECT world_step('R1', 'REFUND_SUCCEEDED', FALSE)";
    assert_eq!(found_by(&world, rule, twice).await, ["R1"], "told twice");
    // Passing through PROCESSING is no duty.
    let passed =
        "SELECT world_step('R2', 'REFUND_ACCEPTED', FALSE), world_step('R8', 'REFUND_ACCEPTED', FALSE)";
    assert_eq!(found_by(&world, rule, passed).await, [""; 0]);
}

/// Fails when a receipt's state is not looked at, or a return is taken for a refund.
#[tokio::test]
async fn each_state_of_a_receipt_that_its_refund_does_not_say_is_found() {
    let world = World::with(&[]).await;
    let rule =
        "a receipt's refund gives back what was received, and the receipt is in the state that it says";
    let of =
        [("P5", "R9", "REFUNDED"), ("P6", "R10", "OPEN"), ("P7", "R11", "OPEN"), ("P8", "R12", "REFUNDING")];
    for (pay_no, refund_no, right) in of {
        for state in
            ["OPEN", "WITHDRAWN", "REFUNDING", "REFUNDED"].into_iter().filter(|state| *state != right)
        {
            let statement =
                format!("UPDATE unexpected_receipt SET state = '{state}' WHERE pay_no = '{pay_no}'");
            assert_eq!(found_by(&world, rule, &statement).await, [refund_no], "{refund_no} {state}");
        }
    }
    let gone = "DELETE FROM unexpected_receipt WHERE pay_no = 'P9'";
    assert_eq!(found_by(&world, rule, gone).await, ["R13"]);
}

/// Fails when a refund that came home, failed or was turned down still counts, or one that is on its way does not.
#[tokio::test]
async fn each_refund_counts_in_the_sums_as_its_state_says() {
    let world = World::with(&[]).await;
    let rule = "reserved is what a payment's refunds took and did not bring home, refunded what of it is with the payer";
    for statement in [
        "UPDATE refund SET returned_at = NULL WHERE refund_no = 'R3'",
        "UPDATE refund SET returned_at = now() WHERE refund_no = 'R1'",
        "UPDATE refund SET state = 'FAIL' WHERE refund_no = 'R5'",
        "UPDATE refund SET state = 'SUCCESS' WHERE refund_no = 'R5'",
        "UPDATE refund SET state = 'SUBMITTED' WHERE refund_no = 'R1'",
        "UPDATE refund SET state = 'SUCCESS' WHERE refund_no = 'R2'",
        "UPDATE refund SET amount = amount + 1 WHERE refund_no = 'R1'",
    ] {
        let statement = format!("DROP INDEX uk_refund_live; {statement}");
        assert_eq!(found_by(&world, rule, &statement).await, ["P1"], "{statement}");
    }
    // A receipt's refund is not the payment's money.
    let receipt = "SELECT world_receipt('P4', 'L-P4', 900, 'SECOND_TRANSACTION', 'REFUNDED', 'R90');
                   SELECT world_refund('R90', 'RECEIPT', 'P4', 900, 'NOT_NEEDED', '{SUBMITTED,SUCCEEDED}')";
    assert_eq!(found_by(&world, rule, receipt).await, [""; 0]);
}
