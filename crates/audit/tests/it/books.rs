//! What the ledger shows, alone and beside the payments.

use crate::Step::{First, Ledger, Payment};
use crate::World;

crate::plants! {
    an_entry_without_its_mark_is_found: 7, "every entry has its dedupe mark, and every mark of money its entry",
        [Ledger("DELETE FROM idempotent_log WHERE biz_key = 'CONSUME:REFUND_RETURNED:R3';
                 INSERT INTO idempotent_log VALUES ('CONSUME:REFUND_SUBMITTED:R-none', '', 'P1')")]
        => ["CONSUME:REFUND_SUBMITTED:R-none", "REFUND_RETURNED:R3"];

    an_entry_under_another_name_is_found: 8, "an entry's key is of its kind, and a refund's entry names the refund",
        [Ledger("SELECT world_unlock();
                 UPDATE entry SET refund_no = NULL WHERE msg_key = 'REFUND_SUCCEEDED:R1';
                 UPDATE entry SET refund_no = 'R1' WHERE msg_key IN ('REFUND_FAILED:R2', 'PAY_SUCCEEDED:P1');
                 UPDATE entry SET kind = 'PAY_SUCCEEDED' WHERE msg_key = 'RECEIPT_UNEXPECTED:generic:L-P5'")]
        => ["PAY_SUCCEEDED:P1", "RECEIPT_UNEXPECTED:generic:L-P5", "REFUND_FAILED:R2", "REFUND_SUCCEEDED:R1"];

    // Two that are off by the same, so that every sum over entries is right.
    an_entry_that_does_not_balance_is_found: 8, "every entry balances in each currency",
        [Ledger("SELECT world_unlock();
                 UPDATE posting SET amount = amount + CASE e.msg_key WHEN 'PAY_SUCCEEDED:P1' THEN 5 ELSE -5 END FROM entry e
                 WHERE e.entry_id = posting.entry_id AND side = 'C' AND e.msg_key IN ('PAY_SUCCEEDED:P1', 'PAY_SUCCEEDED:P2')")]
        => ["PAY_SUCCEEDED:P1", "PAY_SUCCEEDED:P2"];

    a_running_total_that_is_no_sum_is_found: 8, "running totals are the sums of the postings",
        [Ledger("UPDATE account_balance SET credit = credit + 1 WHERE account_code = 'payable:M1:CNY';
                 INSERT INTO account VALUES ('bank:generic:main:CNY', 'ASSET', 'CNY', 'D');
                 INSERT INTO account_balance VALUES ('bank:generic:main:CNY', 3, 7, 7)")]
        => ["bank:generic:main:CNY", "payable:M1:CNY"];

    a_parked_message_is_found: 12, "nothing is parked",
        [Ledger("INSERT INTO parked_message (topic, partition_no, offset_no, headers, error)
                 VALUES ('t', 1, 7, '[]', 'UNDECODABLE'), ('t', 2, 7, '[]', 'UNDECODABLE');
                 UPDATE parked_message SET state = 'POSTED' WHERE partition_no = 2")]
        => ["t/1/7"];

    a_fact_that_is_not_booked_in_its_amount_is_found: 10, "every fact that books money is booked, in its amount",
        [Ledger("SELECT world_unlock();
                 UPDATE posting SET amount = amount - 1 FROM entry e
                  WHERE e.entry_id = posting.entry_id AND e.msg_key = 'PAY_SUCCEEDED:P12';
                 UPDATE account_balance SET debit = debit - 1 WHERE account_code = 'clearing:generic:main:CNY';
                 UPDATE account_balance SET credit = credit - 1 WHERE account_code = 'payable:M1:CNY'"),
         Payment("ALTER TABLE payment_event DISABLE TRIGGER tr_append_only;
                  UPDATE payment_event SET payload = REPLACE(payload, 'CNY', 'JPY') WHERE msg_key = 'PAY_SUCCEEDED:P11'")]
        => ["PAY_SUCCEEDED:P11", "PAY_SUCCEEDED:P12"];

    an_entry_of_no_fact_is_found: 8, "every entry comes from a fact",
        [Ledger("SELECT world_entry('PAY_SUCCEEDED:P-none', 'PAY_SUCCEEDED', 'P-none', NULL, 5, 'clearing:generic:main:CNY',
                                    'payable:M1:CNY')")]
        => ["PAY_SUCCEEDED:P-none"];

    // Booked to accounts that are not the refund's own: a channel account, a merchant.
    a_refund_that_left_something_is_found:
        10, "a refund that ended leaves in the books what it gave back of a payment, and nothing else",
        [Ledger("SELECT world_unlock();
                 INSERT INTO account VALUES ('clearing:generic:other:CNY', 'ASSET', 'CNY', 'D'),
                                            ('payable:M2:CNY', 'LIABILITY', 'CNY', 'C');
                 INSERT INTO account_balance VALUES ('clearing:generic:other:CNY', 0, 0, 300), ('payable:M2:CNY', 0, 100, 70);
                 UPDATE posting SET account_code = 'clearing:generic:other:CNY' FROM entry e
                  WHERE e.entry_id = posting.entry_id AND e.msg_key = 'REFUND_SUCCEEDED:R9' AND side = 'C';
                 UPDATE account_balance SET credit = credit - 300 WHERE account_code = 'clearing:generic:main:CNY';
                 UPDATE posting SET account_code = 'payable:M2:CNY' FROM entry e
                  WHERE e.entry_id = posting.entry_id
                    AND (e.msg_key, side) IN (('REFUND_SUBMITTED:R1', 'D'), ('REFUND_RETURNED:R3', 'C'));
                 UPDATE account_balance SET debit = debit - 100, credit = credit - 70 WHERE account_code = 'payable:M1:CNY'")]
        => ["R1", "R3", "R9"];

    // A receipt that waits for a person, at another amount than was booked; the other accounts are still right.
    money_that_waits_and_is_not_held_is_found:
        10, "suspense and transit hold what waits and what is on its way, and no more",
        [Payment("UPDATE unexpected_receipt SET amount = amount + 1 WHERE pay_no = 'P10'")]
        => ["suspense:generic:main:CNY holds 1959 instead of 1960"];
}

/// Found with its entry, never alone: sums are off only where an entry is.
pub(crate) const CURRENCY_RULE: &str = "debits equal credits in each currency";

/// An unbalanced entry, all sums carried along: the entry and its currency are found.
#[tokio::test]
async fn a_currency_that_does_not_balance_is_found_with_its_entry() {
    let world = World::with(&[Ledger(
        "SELECT world_unlock();
         UPDATE posting SET amount = amount + 5 FROM entry e
          WHERE e.entry_id = posting.entry_id AND e.msg_key = 'PAY_SUCCEEDED:P1' AND side = 'C';
         UPDATE account_balance SET credit = credit + 5 WHERE account_code = 'payable:M1:CNY'",
    )])
    .await;
    let found = world.findings().await;
    let found: Vec<_> = found.iter().map(|f| (f.rule, f.rows.as_slice())).collect();
    let (entry, currency) = (["PAY_SUCCEEDED:P1".to_owned()], ["CNY".to_owned()]);
    assert_eq!(
        found,
        [("every entry balances in each currency", &entry[..]), (CURRENCY_RULE, &currency[..])]
    );
}

/// A step with money that its refund does not know of is seen from both sides: its events do not fit its state, and
/// something is left in the books.
#[tokio::test]
async fn a_refund_that_is_booked_beyond_its_state_is_found_from_both_sides() {
    let world = World::with(&[
        First("SELECT world_step('R2', 'REFUND_RETURNED', FALSE)"),
        // Told of as sent, and not sent by its row.
        First("SELECT world_step('R12', 'REFUND_SUBMITTED', FALSE)"),
    ])
    .await;
    let found: Vec<_> = world.findings().await.into_iter().map(|f| (f.rule, f.rows)).collect();
    let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        found,
        [
            ("a refund has the events that its state says, once each", rows(&["R12", "R2"])),
            (
                "a refund that ended leaves in the books what it gave back of a payment, and nothing else",
                rows(&["R2"])
            ),
            (
                "suspense and transit hold what waits and what is on its way, and no more",
                rows(&[
                    "suspense:generic:main:CNY holds 1629 instead of 1959",
                    "transit:generic:main:CNY holds 720 instead of 390"
                ])
            ),
        ]
    );
}
