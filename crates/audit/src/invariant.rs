//! The table of queries. Each gives one text column: the key of a row that breaks the rule.

/// Which database a query reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    Payment,
    Ledger,
}

/// One invariant as a query for the rows that break it.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// Number in `docs/ARCHITECTURE.md`.
    pub number: u8,
    pub rule: &'static str,
    pub database: Database,
    pub query: &'static str,
}

const fn payment(number: u8, rule: &'static str, query: &'static str) -> Invariant {
    Invariant { number, rule, database: Database::Payment, query }
}

const fn ledger(number: u8, rule: &'static str, query: &'static str) -> Invariant {
    Invariant { number, rule, database: Database::Ledger, query }
}

/// All of them. Queries stop after 100 rows.
pub const INVARIANTS: &[Invariant] = &[
    payment(
        1,
        "every idempotency key leads to a payment of its merchant",
        "SELECT l.biz_key FROM idempotent_log l
         WHERE l.biz_key LIKE 'PAY:CREATE:%'
           AND NOT EXISTS (SELECT 1 FROM payment p
                           WHERE p.pay_no = l.result_no
                             AND STARTS_WITH(l.biz_key, 'PAY:CREATE:' || p.merchant_id || ':'))
         LIMIT 100",
    ),
    payment(
        1,
        "every idempotency key of a refund leads to a refund of a payment of its merchant",
        "SELECT l.biz_key FROM idempotent_log l
         WHERE l.biz_key LIKE 'REFUND:CREATE:%'
           AND NOT EXISTS (SELECT 1 FROM refund f
                           WHERE f.refund_no = l.result_no AND f.kind = 'PAYMENT'
                             AND STARTS_WITH(l.biz_key, 'REFUND:CREATE:' || f.merchant_id || ':'))
         LIMIT 100",
    ),
    payment(
        2,
        "an order has at most one payment in process or paid",
        "SELECT merchant_id || ':' || order_no FROM payment WHERE state IN ('PROCESSING', 'SUCCESS')
         GROUP BY merchant_id, order_no HAVING COUNT(*) > 1 LIMIT 100",
    ),
    // By the type: events of refunds are about other states.
    payment(
        3,
        "a payment ends at most once, in the state that its event says",
        "SELECT p.pay_no FROM payment p
         JOIN payment_event e ON e.bucket = p.bucket AND e.aggregate_id = p.pay_no
                             AND e.type IN ('PAY_SUCCEEDED', 'PAY_FAILED', 'PAY_CLOSED')
         GROUP BY p.pay_no, p.state
         HAVING COUNT(*) > 1 OR MIN(e.from_state) <> 'PROCESSING' OR MIN(e.to_state) <> p.state
             OR MIN(e.type) <> CASE p.state WHEN 'SUCCESS' THEN 'PAY_SUCCEEDED' WHEN 'FAIL' THEN 'PAY_FAILED'
                                            WHEN 'CLOSED' THEN 'PAY_CLOSED' ELSE '' END
         LIMIT 100",
    ),
    payment(
        5,
        "an ended payment has the channel's word for it",
        "SELECT p.pay_no FROM payment p
         WHERE p.state <> 'PROCESSING'
           AND NOT EXISTS (SELECT 1 FROM callback_log c
                           WHERE c.bucket = p.bucket AND c.pay_no = p.pay_no AND c.outcome = 'APPLIED'
                             AND c.action = CASE p.state WHEN 'SUCCESS' THEN 'PAY_SUCCEEDED'
                                                         WHEN 'CLOSED' THEN 'PAY_CLOSED' ELSE 'PAY_FAILED' END)
         LIMIT 100",
    ),
    payment(
        5,
        "a refund that ended, or came home, has the channel's word for it, unless it was turned down",
        "SELECT f.refund_no FROM refund f
         CROSS JOIN LATERAL (VALUES (f.state = 'SUCCESS', 'REFUND_SUCCEEDED:'),
                                    (f.state = 'FAIL' AND f.approval <> 'REJECTED', 'REFUND_FAILED:'),
                                    (f.returned_at IS NOT NULL, 'REFUND_RETURNED:')) AS w (needed, action)
         WHERE w.needed
           AND NOT EXISTS (SELECT 1 FROM callback_log c
                           WHERE c.bucket = f.bucket AND c.pay_no = f.pay_no AND c.outcome = 'APPLIED'
                             AND c.action = w.action || f.refund_no)
         GROUP BY f.refund_no LIMIT 100",
    ),
    payment(
        5,
        "a live refund is looked at again, unless it waits for a second person",
        "SELECT refund_no FROM refund
         WHERE state IN ('PENDING', 'SUBMITTED', 'PROCESSING')
           AND (next_try_at = 'infinity') <> (approval = 'WAITING') LIMIT 100",
    ),
    payment(
        6,
        "every payment has one PAY_CREATED, and an event for its end if it has ended",
        "SELECT p.pay_no FROM payment p
         LEFT JOIN payment_event e ON e.bucket = p.bucket AND e.aggregate_id = p.pay_no
         GROUP BY p.pay_no, p.state
         HAVING COUNT(*) FILTER (WHERE e.type = 'PAY_CREATED') <> 1
             OR (COUNT(*) FILTER (WHERE e.type IN ('PAY_SUCCEEDED', 'PAY_FAILED', 'PAY_CLOSED')) = 0)
                <> (p.state = 'PROCESSING')
         LIMIT 100",
    ),
    payment(
        6,
        "every event belongs to a payment",
        "SELECT e.msg_key FROM payment_event e
         WHERE NOT EXISTS (SELECT 1 FROM payment p WHERE p.bucket = e.bucket AND p.pay_no = e.aggregate_id) LIMIT 100",
    ),
    payment(
        6,
        "every queued event exists",
        "SELECT o.event_id::TEXT FROM outbox o
         WHERE NOT EXISTS (SELECT 1 FROM payment_event e WHERE e.bucket = o.bucket AND e.event_id = o.event_id)
         LIMIT 100",
    ),
    payment(
        9,
        "refunded is within reserved, reserved within paid",
        "SELECT pay_no FROM payment
         WHERE NOT (0 <= refunded AND refunded <= refund_reserved AND refund_reserved <= amount) LIMIT 100",
    ),
    payment(
        9,
        "reserved is what a payment's refunds took and did not bring home, refunded what of it is with the payer",
        "SELECT p.pay_no FROM payment p
         LEFT JOIN (SELECT bucket, pay_no, SUM(amount) AS reserved,
                           COALESCE(SUM(amount) FILTER (WHERE state = 'SUCCESS'), 0) AS refunded
                    FROM refund WHERE kind = 'PAYMENT' AND state <> 'FAIL' AND returned_at IS NULL
                    GROUP BY bucket, pay_no) f ON f.bucket = p.bucket AND f.pay_no = p.pay_no
         WHERE p.refund_reserved <> COALESCE(f.reserved, 0) OR p.refunded <> COALESCE(f.refunded, 0) LIMIT 100",
    ),
    payment(
        9,
        "a payment has at most one refund in flight",
        "SELECT pay_no FROM refund WHERE kind = 'PAYMENT' AND state IN ('PENDING', 'SUBMITTED', 'PROCESSING')
         GROUP BY bucket, pay_no HAVING COUNT(*) > 1 LIMIT 100",
    ),
    payment(
        9,
        "one request to refund a payment is one refund",
        "SELECT pay_no || ':' || refund_request_no FROM refund WHERE kind = 'PAYMENT'
         GROUP BY bucket, pay_no, refund_request_no HAVING COUNT(*) > 1 LIMIT 100",
    ),
    payment(
        9,
        "a payment's refund gives back money of that payment, which was paid",
        "SELECT f.refund_no FROM refund f LEFT JOIN payment p ON p.bucket = f.bucket AND p.pay_no = f.pay_no
         WHERE f.kind = 'PAYMENT'
           AND (p.state IS DISTINCT FROM 'SUCCESS' OR f.merchant_id <> p.merchant_id OR f.currency <> p.currency
                OR f.channel <> p.channel OR f.channel_account <> p.channel_account
                OR f.channel_txn_id <> p.channel_txn_id)
         LIMIT 100",
    ),
    payment(
        9,
        "no refund leaves past a second person, who is another one and says why",
        "SELECT refund_no FROM refund
         WHERE (approval = 'WAITING' AND (state <> 'PENDING' OR decided_by IS NOT NULL))
            OR (approval = 'NOT_NEEDED' AND decided_by IS NOT NULL)
            OR (approval IN ('APPROVED', 'REJECTED')
                AND (decided_by IS NULL OR decision_note IS NULL OR decided_by IS NOT DISTINCT FROM requested_by))
            OR (approval = 'REJECTED' AND state <> 'FAIL')
         LIMIT 100",
    ),
    payment(
        10,
        "every unexpected receipt has its event",
        "SELECT r.channel || ':' || r.channel_txn_id FROM unexpected_receipt r
         WHERE NOT EXISTS (SELECT 1 FROM payment_event e
                           WHERE e.bucket = r.bucket
                             AND e.msg_key = 'RECEIPT_UNEXPECTED:' || r.channel || ':' || r.channel_txn_id)
         LIMIT 100",
    ),
    payment(
        10,
        "one transaction of a channel is booked once: as a payment or as an unexpected receipt",
        "SELECT p.pay_no FROM payment p
         JOIN unexpected_receipt r ON r.bucket = p.bucket AND r.channel = p.channel
                                  AND r.channel_txn_id = p.channel_txn_id
         WHERE p.state = 'SUCCESS' AND r.state <> 'WITHDRAWN' LIMIT 100",
    ),
    payment(
        10,
        "an unwanted receipt has exactly one refund, and one of a wrong amount has none",
        "SELECT r.channel || ':' || r.channel_txn_id FROM unexpected_receipt r
         LEFT JOIN refund f ON f.bucket = r.bucket AND f.channel = r.channel AND f.channel_txn_id = r.channel_txn_id
                           AND f.kind = 'RECEIPT'
         GROUP BY r.bucket, r.channel, r.channel_txn_id
         HAVING COUNT(f.refund_no) <> (r.reason NOT IN ('AMOUNT_MISMATCH', 'CURRENCY_MISMATCH'))::INTEGER
             OR MIN(f.refund_no) IS DISTINCT FROM r.refund_no
         LIMIT 100",
    ),
    payment(
        10,
        "a receipt's refund gives back what was received, and the receipt is in the state that it says",
        "SELECT f.refund_no FROM refund f
         LEFT JOIN unexpected_receipt r ON r.bucket = f.bucket AND r.channel = f.channel
                                       AND r.channel_txn_id = f.channel_txn_id
         WHERE f.kind = 'RECEIPT'
           AND (r.channel IS NULL OR r.pay_no <> f.pay_no OR r.amount <> f.amount OR r.currency <> f.currency
                OR r.state <> CASE WHEN f.state = 'FAIL' OR f.returned_at IS NOT NULL THEN 'OPEN'
                                   WHEN f.state = 'SUCCESS' THEN 'REFUNDED' ELSE 'REFUNDING' END)
         LIMIT 100",
    ),
    // A refund that was turned down never left; ACCEPTED is told only of one that passed through PROCESSING.
    payment(
        6,
        "a refund has the events that its state says, once each",
        "SELECT f.refund_no FROM refund f
         LEFT JOIN payment_event e ON e.bucket = f.bucket AND e.type LIKE 'REFUND%'
                                  AND SUBSTR(e.msg_key, STRPOS(e.msg_key, ':') + 1) = f.refund_no
         CROSS JOIN LATERAL (SELECT f.approval = 'REJECTED' AS rejected) AS a
         GROUP BY f.bucket, f.refund_no, a.rejected
         HAVING COUNT(*) FILTER (WHERE e.type = 'REFUND_CREATED') <> (f.kind = 'PAYMENT')::INTEGER
             OR COUNT(*) FILTER (WHERE e.type = 'REFUND_SUBMITTED')
                <> (f.state <> 'PENDING' AND NOT a.rejected)::INTEGER
             OR COUNT(*) FILTER (WHERE e.type = 'REFUND_ACCEPTED')
                NOT BETWEEN (f.state = 'PROCESSING')::INTEGER
                        AND (f.state IN ('PROCESSING', 'SUCCESS', 'FAIL') AND NOT a.rejected)::INTEGER
             OR COUNT(*) FILTER (WHERE e.type = 'REFUND_SUCCEEDED') <> (f.state = 'SUCCESS')::INTEGER
             OR COUNT(*) FILTER (WHERE e.type = 'REFUND_FAILED') <> (f.state = 'FAIL' AND NOT a.rejected)::INTEGER
             OR COUNT(*) FILTER (WHERE e.type = 'REFUND_REJECTED') <> a.rejected::INTEGER
             OR COUNT(*) FILTER (WHERE e.type = 'REFUND_RETURNED') <> (f.returned_at IS NOT NULL)::INTEGER
         LIMIT 100",
    ),
    payment(
        6,
        "every event of a refund names a refund, and says its payment, its kind and its amount",
        "SELECT e.msg_key FROM payment_event e
         LEFT JOIN refund f ON f.bucket = e.bucket
                           AND f.refund_no = SUBSTR(e.msg_key, STRPOS(e.msg_key, ':') + 1)
         WHERE e.type LIKE 'REFUND%'
           AND (f.refund_no IS NULL OR f.pay_no <> e.aggregate_id
                OR e.payload::JSON ->> 'refundNo' IS DISTINCT FROM f.refund_no
                OR e.payload::JSON ->> 'refundKind' IS DISTINCT FROM f.kind
                OR e.payload::JSON ->> 'amount' IS DISTINCT FROM f.amount::TEXT
                OR e.payload::JSON ->> 'currency' IS DISTINCT FROM f.currency)
         LIMIT 100",
    ),
    payment(
        11,
        "amounts are positive integers of an ISO 4217 currency",
        "SELECT pay_no FROM payment WHERE amount <= 0 OR currency !~ '^[A-Z]{3}$'
         UNION ALL SELECT refund_no FROM refund WHERE amount <= 0 OR currency !~ '^[A-Z]{3}$'
         UNION ALL SELECT channel_txn_id FROM unexpected_receipt WHERE amount <= 0 OR currency !~ '^[A-Z]{3}$' LIMIT 100",
    ),
    ledger(
        7,
        "every entry has its dedupe mark, and every mark of money its entry",
        "SELECT COALESCE(e.msg_key, l.biz_key) FROM entry e
         FULL JOIN (SELECT biz_key, SUBSTR(biz_key, 9) AS msg_key FROM idempotent_log
                    WHERE biz_key LIKE 'CONSUME:PAY_SUCCEEDED:%' OR biz_key LIKE 'CONSUME:RECEIPT_%'
                       OR biz_key LIKE 'CONSUME:REFUND_%') l
           ON l.msg_key = e.msg_key
         WHERE e.msg_key IS NULL OR l.msg_key IS NULL LIMIT 100",
    ),
    ledger(
        8,
        "an entry's key is of its kind, and a refund's entry names the refund",
        "SELECT msg_key FROM entry
         WHERE NOT STARTS_WITH(msg_key, kind || ':') OR (kind LIKE 'REFUND%') <> (refund_no IS NOT NULL)
            OR (refund_no IS NOT NULL AND msg_key <> kind || ':' || refund_no) LIMIT 100",
    ),
    ledger(
        8,
        "every entry balances in each currency",
        "SELECT e.msg_key FROM entry e LEFT JOIN posting p ON p.entry_id = e.entry_id
         GROUP BY e.msg_key, p.currency
         HAVING COUNT(p.entry_id) < 2 OR SUM(CASE p.side WHEN 'D' THEN p.amount ELSE -p.amount END) <> 0 LIMIT 100",
    ),
    ledger(
        8,
        "running totals are the sums of the postings",
        "SELECT COALESCE(b.account_code, s.account_code)
         FROM (SELECT account_code, SUM(debit) AS debit, SUM(credit) AS credit
               FROM account_balance GROUP BY account_code) b
         FULL JOIN (SELECT account_code, COALESCE(SUM(amount) FILTER (WHERE side = 'D'), 0) AS debit,
                           COALESCE(SUM(amount) FILTER (WHERE side = 'C'), 0) AS credit
                    FROM posting GROUP BY account_code) s ON s.account_code = b.account_code
         WHERE b.debit IS DISTINCT FROM s.debit OR b.credit IS DISTINCT FROM s.credit LIMIT 100",
    ),
    ledger(
        8,
        "debits equal credits in each currency",
        "SELECT currency FROM posting GROUP BY currency
         HAVING SUM(CASE side WHEN 'D' THEN amount ELSE -amount END) <> 0",
    ),
    ledger(
        12,
        "nothing is parked",
        "SELECT topic || '/' || partition_no || '/' || offset_no FROM parked_message WHERE state = 'PARKED' LIMIT 100",
    ),
];
