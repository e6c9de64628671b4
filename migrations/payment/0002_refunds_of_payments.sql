-- Refunds that merchants ask for: who asked, who agreed, and what came home again.

-- The channel's own number of the order, where later calls need it.
ALTER TABLE payment ADD COLUMN channel_order_no TEXT;
-- The highest running total of refunds that the channel told. Only a sum that grows is news.
ALTER TABLE payment ADD COLUMN channel_refunded BIGINT NOT NULL DEFAULT 0;

ALTER TABLE refund ADD COLUMN requested_by TEXT;
-- Above the limit a second person must agree before the channel is called.
ALTER TABLE refund ADD COLUMN approval TEXT NOT NULL DEFAULT 'NOT_NEEDED';
ALTER TABLE refund ADD COLUMN decided_by TEXT;
ALTER TABLE refund ADD COLUMN decision_note TEXT;
-- When the money of a refund that had succeeded came home. A new fact beside the state, which stays SUCCESS.
ALTER TABLE refund ADD COLUMN returned_at TIMESTAMPTZ;
ALTER TABLE refund ADD CONSTRAINT ck_refund_approval
    CHECK (approval IN ('NOT_NEEDED', 'WAITING', 'APPROVED', 'REJECTED'));
-- Nobody agrees to what they asked for themselves, and nothing is decided without a name and a reason.
ALTER TABLE refund ADD CONSTRAINT ck_refund_decision
    CHECK (approval IN ('NOT_NEEDED', 'WAITING')
           OR (decided_by IS NOT NULL AND decision_note IS NOT NULL AND decided_by <> requested_by));
-- What waits for a person was not sent.
ALTER TABLE refund ADD CONSTRAINT ck_refund_waits CHECK (approval <> 'WAITING' OR state = 'PENDING');
ALTER TABLE refund ADD CONSTRAINT ck_refund_requested CHECK (kind = 'RECEIPT' OR requested_by IS NOT NULL);
ALTER TABLE refund ADD CONSTRAINT ck_refund_returned CHECK (returned_at IS NULL OR state = 'SUCCESS');

-- A merchant's list, newest first (refund_no begins with the time).
CREATE INDEX ix_refund_merchant ON refund (merchant_id, refund_no);
-- The refunds of one payment.
CREATE INDEX ix_refund_pay_no ON refund (bucket, pay_no);

-- Money in another currency than the order's is told apart from a wrong amount.
ALTER TABLE unexpected_receipt DROP CONSTRAINT ck_receipt_reason;
ALTER TABLE unexpected_receipt ADD CONSTRAINT ck_receipt_reason
    CHECK (reason IN ('LATE_SUCCESS', 'SECOND_TRANSACTION', 'AMOUNT_MISMATCH', 'CURRENCY_MISMATCH'));
