//! What the payment database alone shows.

use crate::Step::{First, Payment};

crate::plants! {
    a_key_that_leads_to_no_payment_of_its_merchant_is_found: 1, "every idempotency key leads to a payment of its merchant",
        [Payment("INSERT INTO idempotent_log VALUES ('PAY:CREATE:M1:stray', '', 'P-none'), ('PAY:CREATE:M2:theirs', '', 'P1'),
                                                    ('PAY:CREATE:M_:like', '', 'P1')")]
        => ["PAY:CREATE:M1:stray", "PAY:CREATE:M2:theirs", "PAY:CREATE:M_:like"];

    a_key_that_leads_to_no_refund_of_its_merchant_is_found:
        1, "every idempotency key of a refund leads to a refund of a payment of its merchant",
        [Payment("INSERT INTO idempotent_log VALUES ('REFUND:CREATE:M1:stray', '', 'R-none'),
                     ('REFUND:CREATE:M2:theirs', '', 'R1'), ('REFUND:CREATE:M1:receipt', '', 'R9')")]
        => ["REFUND:CREATE:M1:receipt", "REFUND:CREATE:M1:stray", "REFUND:CREATE:M2:theirs"];

    an_order_paid_twice_is_found: 2, "an order has at most one payment in process or paid",
        [First("DROP INDEX uk_order_live;
                SELECT world_payment('P90', 'SUCCESS', 1000);
                UPDATE payment SET order_no = 'O-P1', attempt_no = 2 WHERE pay_no = 'P90'")]
        => ["M1:O-P1"];

    a_payment_that_left_its_end_is_found: 3, "a payment ends at most once, in the state that its event says",
        [Payment("ALTER TABLE payment DISABLE TRIGGER tr_terminal_state;
                  UPDATE payment SET state = 'CLOSED' WHERE pay_no = 'P12';
                  UPDATE callback_log SET action = 'PAY_CLOSED' WHERE pay_no = 'P12';
                  SELECT world_event('P14', 'PAY_FAILED', 'P14', 'PROCESSING', 'FAIL', 1000)")]
        => ["P12", "P14"];

    a_payment_that_ended_without_the_channels_word_is_found: 5, "an ended payment has the channel's word for it",
        [Payment("DELETE FROM callback_log WHERE pay_no = 'P12';
                  UPDATE callback_log SET outcome = 'IGNORED' WHERE pay_no = 'P14'")]
        => ["P12", "P14"];

    a_refund_that_ended_without_the_channels_word_is_found:
        5, "a refund that ended, or came home, has the channel's word for it, unless it was turned down",
        [Payment("DELETE FROM callback_log WHERE action = 'REFUND_SUCCEEDED:R1';
                  UPDATE callback_log SET outcome = 'AMOUNT_MISMATCH' WHERE action = 'REFUND_FAILED:R10';
                  UPDATE callback_log SET action = 'REFUND_RETURNED:R4' WHERE action = 'REFUND_RETURNED:R3'")]
        => ["R1", "R10", "R3"];

    a_refund_that_nobody_looks_at_again_is_found:
        5, "a live refund is looked at again, unless it waits for a second person",
        [Payment("UPDATE refund SET next_try_at = 'infinity' WHERE refund_no IN ('R7', 'R12', 'R1');
                  UPDATE refund SET next_try_at = now() WHERE refund_no = 'R6'")]
        => ["R12", "R6", "R7"];

    a_payment_without_its_events_is_found:
        6, "every payment has one PAY_CREATED, and an event for its end if it has ended",
        [Payment("ALTER TABLE payment_event DISABLE TRIGGER tr_append_only;
                  DELETE FROM payment_event WHERE msg_key IN ('PAY_CREATED:P12', 'PAY_CLOSED:P14')")]
        => ["P12", "P14"];

    an_event_of_no_payment_is_found: 6, "every event belongs to a payment",
        [Payment("SELECT world_event('P-none', 'PAY_CREATED', 'P-none', NULL, 'PROCESSING', 1)")]
        => ["PAY_CREATED:P-none"];

    a_queued_event_that_does_not_exist_is_found: 6, "every queued event exists",
        [Payment("INSERT INTO outbox VALUES (5, 999999, 0)")]
        => ["999999"];

    // Steps without money, so that the books have nothing to say; the others are tried among the arms.
    a_refund_without_its_events_is_found: 6, "a refund has the events that its state says, once each",
        [Payment("ALTER TABLE payment_event DISABLE TRIGGER tr_append_only;
                  DELETE FROM payment_event WHERE msg_key IN ('REFUND_CREATED:R1', 'REFUND_REJECTED:R4', 'REFUND_ACCEPTED:R5');
                  SELECT world_step('R6', 'REFUND_ACCEPTED', FALSE), world_step('R13', 'REFUND_CREATED', FALSE)")]
        => ["R1", "R13", "R4", "R5", "R6"];

    an_event_of_another_refund_is_found:
        6, "every event of a refund names a refund, and says its payment, its kind and its amount",
        [Payment("ALTER TABLE payment_event DISABLE TRIGGER tr_append_only;
                  SELECT world_event('P1', 'REFUND_ACCEPTED', 'R-none', NULL, NULL, 5, '{\"refundNo\": \"R-none\"}');
                  UPDATE payment_event SET aggregate_id = 'P2' WHERE msg_key = 'REFUND_CREATED:R2';
                  UPDATE payment_event SET payload = REPLACE(payload, '\"PAYMENT\"', '\"RECEIPT\"')
                   WHERE msg_key = 'REFUND_CREATED:R3';
                  UPDATE payment_event SET payload = REPLACE(payload, '\"100\"', '\"101\"')
                   WHERE msg_key = 'REFUND_CREATED:R1';
                  UPDATE payment_event SET payload = REPLACE(payload, '\"refundNo\": \"R6\"', '\"refundNo\": \"R7\"')
                   WHERE msg_key = 'REFUND_CREATED:R6';
                  UPDATE payment_event SET payload = REPLACE(payload, 'CNY', 'JPY') WHERE msg_key = 'REFUND_CREATED:R5'")]
        => ["REFUND_ACCEPTED:R-none", "REFUND_CREATED:R1", "REFUND_CREATED:R2", "REFUND_CREATED:R3",
            "REFUND_CREATED:R5", "REFUND_CREATED:R6"];

    more_refunded_than_was_paid_is_found: 9, "refunded is within reserved, reserved within paid",
        [First("ALTER TABLE payment DROP CONSTRAINT ck_refund_within_paid;
                SELECT world_refund('R90', 'PAYMENT', 'P12', 1001, 'NOT_NEEDED', '{SUBMITTED}')")]
        => ["P12"];

    sums_that_are_not_those_of_the_refunds_are_found:
        9, "reserved is what a payment's refunds took and did not bring home, refunded what of it is with the payer",
        [Payment("UPDATE payment SET refund_reserved = refund_reserved + 1 WHERE pay_no IN ('P1', 'P12');
                  UPDATE payment SET refunded = refunded - 1 WHERE pay_no = 'P4';
                  UPDATE payment SET refund_reserved = 0 WHERE pay_no = 'P2'")]
        => ["P1", "P12", "P2", "P4"];

    two_refunds_in_flight_are_found: 9, "a payment has at most one refund in flight",
        [First("DROP INDEX uk_refund_live; SELECT world_refund('R90', 'PAYMENT', 'P3', 10, 'NOT_NEEDED', '{SUBMITTED}')")]
        => ["P3"];

    one_request_refunded_twice_is_found: 9, "one request to refund a payment is one refund",
        [First("ALTER TABLE refund DROP CONSTRAINT uk_refund_request;
                SELECT world_refund('R90', 'PAYMENT', 'P1', 100, 'NOT_NEEDED', '{SUBMITTED,SUCCEEDED}');
                UPDATE refund SET refund_request_no = 'req-R1' WHERE refund_no = 'R90'")]
        => ["P1:req-R1"];

    a_refund_of_other_money_is_found: 9, "a payment's refund gives back money of that payment, which was paid",
        [First("SELECT world_refund('R90', 'PAYMENT', 'P14', 1000, 'NOT_NEEDED', '{SUBMITTED,SUCCEEDED}')"),
         Payment("UPDATE refund SET channel_txn_id = 'T-other' WHERE refund_no = 'R1';
                  UPDATE refund SET channel_account = 'other' WHERE refund_no = 'R8'")]
        => ["R1", "R8", "R90"];

    a_refund_that_passed_its_second_person_is_found:
        9, "no refund leaves past a second person, who is another one and says why",
        [Payment("ALTER TABLE refund DROP CONSTRAINT ck_refund_decision, DROP CONSTRAINT ck_refund_waits,
                                     DISABLE TRIGGER tr_refund_terminal_state;
                  UPDATE refund SET decided_by = requested_by WHERE refund_no = 'R5';
                  UPDATE refund SET decision_note = NULL WHERE refund_no = 'R4';
                  UPDATE refund SET approval = 'APPROVED' WHERE refund_no = 'R1';
                  UPDATE refund SET approval = 'WAITING', next_try_at = 'infinity' WHERE refund_no = 'R7';
                  UPDATE refund SET decided_by = 'bob' WHERE refund_no = 'R2'")]
        => ["R1", "R2", "R4", "R5", "R7"];

    a_receipt_without_its_event_is_found: 10, "every unexpected receipt has its event",
        [Payment("INSERT INTO unexpected_receipt (bucket, channel, channel_account, channel_txn_id, pay_no, amount, currency,
                                                  reason, state)
                  VALUES (5, 'generic', 'main', 'T-silent', 'P12', 5, 'CNY', 'AMOUNT_MISMATCH', 'WITHDRAWN')")]
        => ["generic:T-silent"];

    one_transaction_booked_as_two_receipts_is_found:
        10, "one transaction of a channel is booked once: as a payment or as an unexpected receipt",
        [First("SELECT world_receipt('P12', 'T-P12', 1000, 'AMOUNT_MISMATCH', 'OPEN', NULL)")]
        => ["P12"];

    a_receipt_without_its_refund_is_found:
        10, "an unwanted receipt has exactly one refund, and one of a wrong amount has none",
        [First("ALTER TABLE unexpected_receipt DROP CONSTRAINT ck_receipt_reason;
                SELECT world_receipt('P14', 'L-P14', 10, 'LATE_SUCCESS', 'OPEN', NULL);
                UPDATE unexpected_receipt SET refund_no = 'R10' WHERE pay_no = 'P7';
                UPDATE unexpected_receipt SET reason = 'CURRENCY_MISMATCH' WHERE pay_no = 'P6'")]
        => ["generic:L-P14", "generic:L-P6", "generic:L-P7"];

    a_receipts_refund_of_another_amount_is_found:
        10, "a receipt's refund gives back what was received, and the receipt is in the state that it says",
        [Payment("UPDATE unexpected_receipt SET amount = amount + 1 WHERE pay_no = 'P5'")]
        => ["R9"];

    an_amount_of_nothing_is_found: 11, "amounts are positive integers of an ISO 4217 currency",
        [Payment("ALTER TABLE payment DROP CONSTRAINT ck_amount_positive;
                  UPDATE payment SET amount = 0 WHERE pay_no = 'P13';
                  UPDATE payment SET currency = 'cny' WHERE pay_no = 'P14';
                  UPDATE unexpected_receipt SET currency = '$' WHERE pay_no = 'P11'")]
        => ["P13", "P14", "T-P11"];
}
