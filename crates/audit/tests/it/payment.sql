-- A small world in the database `payment`: payments, receipts and refunds in every state, with the rows and events that
-- payment-core writes for them. Tests call the same functions to plant more.

CREATE FUNCTION world_event(
    pay TEXT, kind TEXT, rest TEXT, was TEXT, becomes TEXT, sum BIGINT, more JSONB DEFAULT '{}'
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO payment_event (bucket, msg_key, aggregate_type, aggregate_id, type, from_state, to_state, version, cause,
                               partition_key, payload)
    VALUES (5, kind || ':' || rest, 'payment', pay, kind, was, becomes, 1, 'TEST', 'M1:O-' || pay,
            (jsonb_build_object('msgKey', kind || ':' || rest, 'type', kind, 'payNo', pay, 'amount', sum::TEXT,
                                'currency', 'CNY') || more)::TEXT)
$$;

CREATE FUNCTION world_word(pay TEXT, txn TEXT, fact TEXT) RETURNS void LANGUAGE sql AS $$
    INSERT INTO callback_log (bucket, channel, channel_txn_id, action, pay_no, source, outcome, raw)
    VALUES (5, 'generic', txn, fact, pay, 'NOTICE', 'APPLIED', '')
$$;

CREATE FUNCTION world_payment(pay TEXT, ends TEXT, sum BIGINT) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind TEXT := CASE ends WHEN 'SUCCESS' THEN 'PAY_SUCCEEDED' WHEN 'FAIL' THEN 'PAY_FAILED' ELSE 'PAY_CLOSED' END;
    txn TEXT := CASE ends WHEN 'SUCCESS' THEN 'T-' || pay END;
BEGIN
    INSERT INTO payment (bucket, pay_no, merchant_id, order_no, attempt_no, amount, currency, channel, channel_account,
                         subject, state, channel_txn_id, paid_at, expire_at, next_query_at)
    VALUES (5, pay, 'M1', 'O-' || pay, 1, sum, 'CNY', 'generic', 'main', 'tea', ends, txn, now(), now(), now());
    INSERT INTO idempotent_log VALUES ('PAY:CREATE:M1:key-' || pay, '', pay);
    PERFORM world_event(pay, 'PAY_CREATED', pay, NULL, 'PROCESSING', sum);
    IF ends <> 'PROCESSING' THEN
        PERFORM world_event(pay, kind, pay, 'PROCESSING', ends, sum);
        PERFORM world_word(pay, COALESCE(txn, pay), kind);
    END IF;
END $$;

CREATE FUNCTION world_receipt(pay TEXT, txn TEXT, sum BIGINT, why TEXT, now_is TEXT, refund TEXT)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unexpected_receipt (bucket, channel, channel_account, channel_txn_id, pay_no, amount, currency, reason, state,
                                    refund_no)
    VALUES (5, 'generic', 'main', txn, pay, sum, 'CNY', why, now_is, refund);
    PERFORM world_event(pay, 'RECEIPT_UNEXPECTED', 'generic:' || txn, NULL, NULL, sum);
    IF now_is = 'WITHDRAWN' THEN
        PERFORM world_event(pay, 'RECEIPT_WITHDRAWN', 'generic:' || txn, NULL, NULL, sum);
    END IF;
END $$;

-- One step of a refund: its event, and the channel's word where it has one.
CREATE FUNCTION world_step(num TEXT, kind TEXT, word BOOLEAN) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    f RECORD;
BEGIN
    SELECT * INTO f FROM refund WHERE refund_no = num;
    PERFORM world_event(f.pay_no, kind, num, NULL, NULL, f.amount,
                        jsonb_build_object('refundNo', num, 'refundKind', f.kind));
    IF word THEN
        PERFORM world_word(f.pay_no, f.channel_txn_id, kind || ':' || num);
    END IF;
END $$;

-- `way`: the steps after its creation, in words.
CREATE FUNCTION world_refund(refund TEXT, of_kind TEXT, pay TEXT, sum BIGINT, agreed TEXT, way TEXT[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    step TEXT;
    ends TEXT := CASE WHEN 'SUCCEEDED' = ANY(way) THEN 'SUCCESS' WHEN 'FAILED' = ANY(way) OR agreed = 'REJECTED' THEN 'FAIL'
                      WHEN 'ACCEPTED' = ANY(way) THEN 'PROCESSING' WHEN 'SUBMITTED' = ANY(way) THEN 'SUBMITTED'
                      ELSE 'PENDING' END;
    home BOOLEAN := 'RETURNED' = ANY(way);
    asked BOOLEAN := of_kind = 'PAYMENT';
    decided BOOLEAN := agreed IN ('APPROVED', 'REJECTED');
BEGIN
    INSERT INTO refund (bucket, refund_no, kind, pay_no, merchant_id, refund_request_no, amount, currency, reason, channel,
                        channel_account, channel_txn_id, state, next_try_at, requested_by, approval, decided_by,
                        decision_note, returned_at)
    VALUES (5, refund, of_kind, pay, 'M1', CASE WHEN asked THEN 'req-' || refund END, sum, 'CNY', 'broken', 'generic', 'main',
            CASE WHEN asked THEN 'T-' || pay ELSE 'L-' || pay END, ends,
            CASE WHEN agreed = 'WAITING' THEN 'infinity'::TIMESTAMPTZ ELSE now() END,
            CASE WHEN asked THEN 'ann' END, agreed, CASE WHEN decided THEN 'bob' END,
            CASE WHEN decided THEN 'looked at it' END, CASE WHEN home THEN now() END);
    IF asked THEN
        INSERT INTO idempotent_log VALUES ('REFUND:CREATE:M1:key-' || refund, '', refund);
        PERFORM world_step(refund, 'REFUND_CREATED', FALSE);
        UPDATE payment
        SET refund_reserved = refund_reserved + CASE WHEN ends = 'FAIL' OR home THEN 0 ELSE sum END,
            refunded = refunded + CASE WHEN ends = 'SUCCESS' AND NOT home THEN sum ELSE 0 END
        WHERE pay_no = pay;
    END IF;
    FOREACH step IN ARRAY way LOOP
        PERFORM world_step(refund, 'REFUND_' || step, step IN ('SUCCEEDED', 'FAILED', 'RETURNED'));
    END LOOP;
END $$;

-- Partly refunded: done, failed, come home, turned down, and one on its way.
SELECT world_payment('P1', 'SUCCESS', 1000);
SELECT world_refund('R1', 'PAYMENT', 'P1', 100, 'NOT_NEEDED', '{SUBMITTED,ACCEPTED,SUCCEEDED}');
SELECT world_refund('R2', 'PAYMENT', 'P1', 50, 'NOT_NEEDED', '{SUBMITTED,FAILED}');
SELECT world_refund('R3', 'PAYMENT', 'P1', 70, 'NOT_NEEDED', '{SUBMITTED,SUCCEEDED,RETURNED}');
SELECT world_refund('R4', 'PAYMENT', 'P1', 60, 'REJECTED', '{REJECTED}');
SELECT world_refund('R5', 'PAYMENT', 'P1', 40, 'APPROVED', '{SUBMITTED,ACCEPTED}');
-- One that waits for a person, one that was sent, one for the whole.
SELECT world_payment('P2', 'SUCCESS', 1000);
SELECT world_refund('R6', 'PAYMENT', 'P2', 900, 'WAITING', '{}');
SELECT world_payment('P3', 'SUCCESS', 1000);
SELECT world_refund('R7', 'PAYMENT', 'P3', 10, 'NOT_NEEDED', '{SUBMITTED}');
SELECT world_payment('P4', 'SUCCESS', 500);
SELECT world_refund('R8', 'PAYMENT', 'P4', 500, 'NOT_NEEDED', '{SUBMITTED,SUCCEEDED}');
-- Money that came late: gone back, refused, come home, about to leave, on its way.
SELECT world_payment('P5', 'CLOSED', 300);
SELECT world_receipt('P5', 'L-P5', 300, 'LATE_SUCCESS', 'REFUNDED', 'R9');
SELECT world_refund('R9', 'RECEIPT', 'P5', 300, 'NOT_NEEDED', '{SUBMITTED,ACCEPTED,SUCCEEDED}');
SELECT world_payment('P6', 'FAIL', 310);
SELECT world_receipt('P6', 'L-P6', 310, 'LATE_SUCCESS', 'OPEN', 'R10');
SELECT world_refund('R10', 'RECEIPT', 'P6', 310, 'NOT_NEEDED', '{SUBMITTED,FAILED}');
SELECT world_payment('P7', 'CLOSED', 320);
SELECT world_receipt('P7', 'L-P7', 320, 'LATE_SUCCESS', 'OPEN', 'R11');
SELECT world_refund('R11', 'RECEIPT', 'P7', 320, 'NOT_NEEDED', '{SUBMITTED,SUCCEEDED,RETURNED}');
SELECT world_payment('P8', 'SUCCESS', 330);
SELECT world_receipt('P8', 'L-P8', 330, 'SECOND_TRANSACTION', 'REFUNDING', 'R12');
SELECT world_refund('R12', 'RECEIPT', 'P8', 330, 'NOT_NEEDED', '{}');
SELECT world_payment('P9', 'CLOSED', 340);
SELECT world_receipt('P9', 'L-P9', 340, 'LATE_SUCCESS', 'REFUNDING', 'R13');
SELECT world_refund('R13', 'RECEIPT', 'P9', 340, 'NOT_NEEDED', '{SUBMITTED}');
-- Told wrongly: one for a person, one that the channel corrected.
SELECT world_payment('P10', 'PROCESSING', 1000);
SELECT world_receipt('P10', 'L-P10', 999, 'AMOUNT_MISMATCH', 'OPEN', NULL);
SELECT world_payment('P11', 'SUCCESS', 1000);
SELECT world_receipt('P11', 'T-P11', 1, 'AMOUNT_MISMATCH', 'WITHDRAWN', NULL);
-- Plain ones.
SELECT world_payment('P12', 'SUCCESS', 1000);
SELECT world_payment('P13', 'PROCESSING', 1000);
SELECT world_payment('P14', 'CLOSED', 1000);
