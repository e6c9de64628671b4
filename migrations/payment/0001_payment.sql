-- Payments, their history and the queue of events. Everything that belongs to an order carries its bucket (0..1023).

CREATE TABLE payment (
    bucket          SMALLINT    NOT NULL,
    pay_no          TEXT        NOT NULL,
    merchant_id     TEXT        NOT NULL,
    order_no        TEXT        NOT NULL,
    attempt_no      SMALLINT    NOT NULL,
    amount          BIGINT      NOT NULL,
    currency        TEXT        NOT NULL,
    channel         TEXT        NOT NULL,
    channel_account TEXT        NOT NULL,
    subject         TEXT        NOT NULL,
    state           TEXT        NOT NULL DEFAULT 'PROCESSING',
    version         BIGINT      NOT NULL DEFAULT 1,
    channel_txn_id  TEXT,
    paid_at         TIMESTAMPTZ,
    credential      JSONB,
    last_error      TEXT,
    refund_reserved BIGINT      NOT NULL DEFAULT 0,
    refunded        BIGINT      NOT NULL DEFAULT 0,
    expire_at       TIMESTAMPTZ NOT NULL,
    -- When a job should next look at a payment in process: send it if it was never sent, ask the channel otherwise.
    next_query_at   TIMESTAMPTZ NOT NULL,
    query_count     INTEGER     NOT NULL DEFAULT 0,
    -- When the channel's answer to the create call was stored; NULL: not known to have been sent.
    dispatched_at   TIMESTAMPTZ,
    metadata        JSONB       NOT NULL DEFAULT '{}',
    -- Trace context of the creating call: every later step of this payment continues that one trace.
    traceparent     TEXT,
    created_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_payment PRIMARY KEY (bucket, pay_no),
    -- G5: two requests for one attempt race here, and the second finds the first one's row.
    CONSTRAINT uk_order_attempt UNIQUE (bucket, merchant_id, order_no, attempt_no),
    CONSTRAINT ck_bucket CHECK (bucket BETWEEN 0 AND 1023),
    CONSTRAINT ck_amount_positive CHECK (amount > 0),
    CONSTRAINT ck_attempt_positive CHECK (attempt_no > 0),
    CONSTRAINT ck_payment_state CHECK (state IN ('PROCESSING', 'SUCCESS', 'FAIL', 'CLOSED')),
    CONSTRAINT ck_paid_facts CHECK (state <> 'SUCCESS' OR (channel_txn_id IS NOT NULL AND paid_at IS NOT NULL)),
    CONSTRAINT ck_refund_within_paid CHECK (0 <= refunded AND refunded <= refund_reserved AND refund_reserved <= amount)
) WITH (fillfactor = 80);

-- G5: one live payment for an order, whatever the attempt. Two devices paying attempt 1 and attempt 2 meet here.
CREATE UNIQUE INDEX uk_order_live ON payment (bucket, merchant_id, order_no) WHERE state IN ('PROCESSING', 'SUCCESS');
-- The jobs' list of work: only payments in process, by when to look at them.
CREATE INDEX ix_payment_due ON payment (next_query_at) WHERE state = 'PROCESSING';
-- A merchant's list, newest first (pay_no begins with the time).
CREATE INDEX ix_payment_merchant ON payment (merchant_id, pay_no);

-- G6, the last line: a terminal state is never left, and a version never goes back, whoever asks.
CREATE FUNCTION refuse_leaving_terminal_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'PROCESSING' AND NEW.state <> OLD.state THEN
        RAISE EXCEPTION 'payment % is %, and a terminal state is never left', OLD.pay_no, OLD.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_terminal_state';
    END IF;
    IF NEW.version <= OLD.version AND NEW.state <> OLD.state THEN
        RAISE EXCEPTION 'payment % changes state without a new version', OLD.pay_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_terminal_state';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER tr_terminal_state BEFORE UPDATE OF state, version ON payment
    FOR EACH ROW EXECUTE FUNCTION refuse_leaving_terminal_state();

-- G4: what became of a key. Distributed by its own key, since a key used again for another order must be seen.
CREATE TABLE idempotent_log (
    biz_key      TEXT        NOT NULL,
    -- Version, digest and four bytes a field; see pay-types/src/fingerprint.rs.
    request_hash BYTEA       NOT NULL,
    result_no    TEXT        NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_idempotent_log PRIMARY KEY (biz_key)
);

-- For the purge of old keys. BRIN: rows come in the order of time, and it costs the hot path nearly nothing.
CREATE INDEX ix_idempotent_created ON idempotent_log USING brin (created_at);

-- History and event body in one, append only. Columns carry the meaning that an outbox event router expects
-- (aggregate type and id, type, payload), so that change data capture can take the relay's place.
CREATE TABLE payment_event (
    bucket         SMALLINT    NOT NULL,
    event_id       BIGINT      GENERATED ALWAYS AS IDENTITY,
    msg_key        TEXT        NOT NULL,
    aggregate_type TEXT        NOT NULL,
    aggregate_id   TEXT        NOT NULL,
    type           TEXT        NOT NULL,
    from_state     TEXT,
    to_state       TEXT,
    version        BIGINT      NOT NULL,
    -- Which call, notice, query or statement line brought it about.
    cause          TEXT        NOT NULL,
    partition_key  TEXT        NOT NULL,
    -- Encoded once, sent as it stands.
    payload        TEXT        NOT NULL,
    traceparent    TEXT,
    created_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_payment_event PRIMARY KEY (bucket, event_id),
    -- One event for one fact.
    CONSTRAINT uk_event_msg_key UNIQUE (bucket, msg_key)
);

-- One payment's history, in order.
CREATE INDEX ix_event_aggregate ON payment_event (bucket, aggregate_id);

CREATE FUNCTION refuse_rewriting_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append only', TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_append_only';
END $$;

CREATE TRIGGER tr_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting_history();

-- The queue: tiny rows, deleted when the broker has acknowledged. Never read by a cursor over event_id: rows commit out
-- of order, and a cursor would skip the late ones. shard = bucket / 64.
CREATE TABLE outbox (
    bucket   SMALLINT NOT NULL,
    event_id BIGINT   NOT NULL,
    shard    SMALLINT NOT NULL,
    CONSTRAINT pk_outbox PRIMARY KEY (shard, event_id, bucket)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);

-- Events that the broker refuses for their own sake, moved here from outbox so that all others flow. Later events of
-- the same key stay in outbox and wait, until a person has moved the parked one back or removed it.
CREATE TABLE outbox_parked (
    bucket        SMALLINT    NOT NULL,
    event_id      BIGINT      NOT NULL,
    shard         SMALLINT    NOT NULL,
    partition_key TEXT        NOT NULL,
    error         TEXT        NOT NULL,
    tries         INTEGER     NOT NULL,
    parked_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_outbox_parked PRIMARY KEY (bucket, event_id)
);

-- The relay asks for each event whether an earlier one of its key is parked.
CREATE INDEX ix_outbox_parked_key ON outbox_parked (bucket, partition_key);

-- G7, the second line: one row for one fact that a channel told, kept as evidence.
CREATE TABLE callback_log (
    bucket         SMALLINT    NOT NULL,
    channel        TEXT        NOT NULL,
    -- The channel's number of the transaction; our pay_no where the channel has none (an unpaid close).
    channel_txn_id TEXT        NOT NULL,
    -- The fact: PAY_SUCCEEDED, PAY_CLOSED …; one transaction carries several.
    action         TEXT        NOT NULL,
    pay_no         TEXT        NOT NULL,
    amount         BIGINT,
    currency       TEXT,
    source         TEXT        NOT NULL,
    outcome        TEXT        NOT NULL,
    occurred_at    TIMESTAMPTZ,
    received_at    TIMESTAMPTZ NOT NULL DEFAULT now(),
    raw            BYTEA       NOT NULL,
    CONSTRAINT uk_cb PRIMARY KEY (bucket, channel, channel_txn_id, action)
);

CREATE INDEX ix_callback_pay_no ON callback_log (bucket, pay_no);

-- G7: nonces of notices, remembered past the time window. The same nonce with another body is refused.
CREATE TABLE notice_nonce (
    channel         TEXT        NOT NULL,
    channel_account TEXT        NOT NULL,
    key_id          TEXT        NOT NULL,
    nonce           TEXT        NOT NULL,
    notify_id       TEXT        NOT NULL,
    body_sha256     BYTEA       NOT NULL,
    seen_at         TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_notice_nonce PRIMARY KEY (channel, channel_account, key_id, nonce)
);

-- For the purge.
CREATE INDEX ix_nonce_seen ON notice_nonce (seen_at);

-- Genuine money that no payment wanted.
CREATE TABLE unexpected_receipt (
    bucket          SMALLINT    NOT NULL,
    channel         TEXT        NOT NULL,
    channel_account TEXT        NOT NULL,
    channel_txn_id  TEXT        NOT NULL,
    pay_no          TEXT        NOT NULL,
    amount          BIGINT      NOT NULL,
    currency        TEXT        NOT NULL,
    reason          TEXT        NOT NULL,
    state           TEXT        NOT NULL DEFAULT 'OPEN',
    refund_no       TEXT,
    created_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT uk_receipt PRIMARY KEY (bucket, channel, channel_txn_id),
    CONSTRAINT ck_receipt_amount_positive CHECK (amount > 0),
    CONSTRAINT ck_receipt_reason CHECK (reason IN ('LATE_SUCCESS', 'SECOND_TRANSACTION', 'AMOUNT_MISMATCH')),
    -- OPEN: in suspense, for a person to decide; after a refund that failed it names that refund.
    CONSTRAINT ck_receipt_state CHECK (state IN ('OPEN', 'WITHDRAWN', 'REFUNDING', 'REFUNDED')),
    CONSTRAINT ck_receipt_refund CHECK (state NOT IN ('REFUNDING', 'REFUNDED') OR refund_no IS NOT NULL)
);

-- Money on its way back to a payer, under a number of its own that the channel knows it by.
CREATE TABLE refund (
    bucket            SMALLINT    NOT NULL,
    refund_no         TEXT        NOT NULL,
    -- RECEIPT: money that no payment wanted, sent back by ourselves. PAYMENT: asked for by the merchant.
    kind              TEXT        NOT NULL,
    pay_no            TEXT        NOT NULL,
    merchant_id       TEXT        NOT NULL,
    -- The merchant's number of its request; NULL for RECEIPT, which nobody asked for.
    refund_request_no TEXT,
    amount            BIGINT      NOT NULL,
    currency          TEXT        NOT NULL,
    reason            TEXT        NOT NULL,
    channel           TEXT        NOT NULL,
    channel_account   TEXT        NOT NULL,
    -- The channel's number of the transaction whose money goes back.
    channel_txn_id    TEXT        NOT NULL,
    -- The channel's own number of the refund, once it has told one.
    channel_refund_no TEXT,
    state             TEXT        NOT NULL DEFAULT 'PENDING',
    version           BIGINT      NOT NULL DEFAULT 1,
    last_error        TEXT,
    -- When a job should next look at a live refund, and how often jobs have.
    next_try_at       TIMESTAMPTZ NOT NULL,
    tries             INTEGER     NOT NULL DEFAULT 0,
    traceparent       TEXT,
    created_at        TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at        TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_refund PRIMARY KEY (bucket, refund_no),
    -- G10: a request that comes twice finds the first one's refund.
    CONSTRAINT uk_refund_request UNIQUE (bucket, pay_no, refund_request_no),
    CONSTRAINT ck_refund_amount_positive CHECK (amount > 0),
    CONSTRAINT ck_refund_kind CHECK (kind IN ('RECEIPT', 'PAYMENT')),
    CONSTRAINT ck_refund_request CHECK ((kind = 'PAYMENT') = (refund_request_no IS NOT NULL)),
    CONSTRAINT ck_refund_state CHECK (state IN ('PENDING', 'SUBMITTED', 'PROCESSING', 'SUCCESS', 'FAIL'))
) WITH (fillfactor = 80);

-- G10: an unwanted receipt is sent back once, whatever repeats.
CREATE UNIQUE INDEX uk_refund_receipt ON refund (bucket, channel, channel_txn_id) WHERE kind = 'RECEIPT';
-- G10: one refund of a payment in flight. A receipt's refund does not count: it is not the payment's money.
CREATE UNIQUE INDEX uk_refund_live ON refund (bucket, pay_no)
    WHERE kind = 'PAYMENT' AND state IN ('PENDING', 'SUBMITTED', 'PROCESSING');
-- The job's list of work: live refunds, by when to look at them.
CREATE INDEX ix_refund_due ON refund (next_try_at) WHERE state IN ('PENDING', 'SUBMITTED', 'PROCESSING');

-- A refund ends once, and never goes back a step, whoever asks.
CREATE FUNCTION refuse_leaving_terminal_refund() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> OLD.state
       AND (OLD.state IN ('SUCCESS', 'FAIL') OR NEW.state = 'PENDING'
            OR (OLD.state = 'PROCESSING' AND NEW.state = 'SUBMITTED') OR NEW.version <= OLD.version) THEN
        RAISE EXCEPTION 'refund % is %, and does not become %', OLD.refund_no, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_refund_terminal_state';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER tr_refund_terminal_state BEFORE UPDATE OF state, version ON refund
    FOR EACH ROW EXECUTE FUNCTION refuse_leaving_terminal_refund();

-- Words about payments that we do not know (yet): tried again by a job, then shown to a person.
CREATE TABLE orphan_notice (
    bucket          SMALLINT    NOT NULL,
    channel         TEXT        NOT NULL,
    channel_account TEXT        NOT NULL,
    channel_txn_id  TEXT        NOT NULL,
    action          TEXT        NOT NULL,
    pay_no          TEXT        NOT NULL,
    amount          BIGINT,
    currency        TEXT,
    source          TEXT        NOT NULL,
    occurred_at     TIMESTAMPTZ,
    raw             BYTEA       NOT NULL,
    seen_count      INTEGER     NOT NULL DEFAULT 1,
    tries           INTEGER     NOT NULL DEFAULT 0,
    next_try_at     TIMESTAMPTZ NOT NULL,
    state           TEXT        NOT NULL DEFAULT 'WAITING',
    first_seen_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_orphan_notice PRIMARY KEY (bucket, channel, channel_txn_id, action, pay_no),
    CONSTRAINT ck_orphan_state CHECK (state IN ('WAITING', 'APPLIED', 'GIVEN_UP'))
);

CREATE INDEX ix_orphan_due ON orphan_notice (next_try_at) WHERE state = 'WAITING';

-- What a person must see. One open row for one subject; repeats are counted.
CREATE TABLE anomaly (
    anomaly_id  BIGINT      GENERATED ALWAYS AS IDENTITY,
    kind        TEXT        NOT NULL,
    subject     TEXT        NOT NULL,
    detail      JSONB       NOT NULL,
    -- Beginning of the message that it was seen in.
    raw         BYTEA,
    state       TEXT        NOT NULL DEFAULT 'OPEN',
    seen_count  INTEGER     NOT NULL DEFAULT 1,
    opened_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    seen_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
    resolved_by TEXT,
    resolved_at TIMESTAMPTZ,
    note        TEXT,
    CONSTRAINT pk_anomaly PRIMARY KEY (anomaly_id),
    CONSTRAINT ck_anomaly_state CHECK (state IN ('OPEN', 'RESOLVED')),
    CONSTRAINT ck_anomaly_resolution CHECK (state = 'OPEN' OR (resolved_by IS NOT NULL AND note IS NOT NULL))
);

CREATE UNIQUE INDEX uk_anomaly_open ON anomaly (kind, subject) WHERE state = 'OPEN';

-- One role for one service, and no more than it needs. Only payment-core writes; the relay reads, deletes and parks
-- outbox rows.
GRANT SELECT, INSERT, UPDATE ON payment, orphan_notice, anomaly, unexpected_receipt, refund, callback_log TO payment_core;
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotent_log TO payment_core;
GRANT SELECT, INSERT ON payment_event, outbox TO payment_core;
GRANT SELECT, INSERT, DELETE ON notice_nonce TO payment_core;
GRANT SELECT ON payment_event TO outbox_relay;
GRANT SELECT, DELETE ON outbox TO outbox_relay;
GRANT SELECT, INSERT ON outbox_parked TO outbox_relay;
