-- The books of that world: an entry with its two postings, the running totals and the mark, as ledger-consumer writes them.

CREATE FUNCTION world_entry(key TEXT, of_kind TEXT, pay TEXT, refund TEXT, sum BIGINT, debit TEXT, credit TEXT)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account (code, type, currency, normal_side)
    VALUES (debit, 'LIABILITY', 'CNY', 'C'), (credit, 'LIABILITY', 'CNY', 'C') ON CONFLICT DO NOTHING;
    WITH new AS (
        INSERT INTO entry (msg_key, kind, merchant_id, order_no, pay_no, refund_no, occurred_at)
        VALUES (key, of_kind, 'M1', 'O-' || pay, pay, refund, now()) RETURNING entry_id)
    INSERT INTO posting
    SELECT new.entry_id, line.no, line.code, line.side, sum, 'CNY'
    FROM new, (VALUES (1, debit, 'D'), (2, credit, 'C')) AS line (no, code, side);
    INSERT INTO account_balance VALUES (debit, 0, sum, 0), (credit, 0, 0, sum)
    ON CONFLICT (account_code, shard)
    DO UPDATE SET debit = account_balance.debit + EXCLUDED.debit, credit = account_balance.credit + EXCLUDED.credit;
    INSERT INTO idempotent_log VALUES ('CONSUME:' || key, '', pay);
END $$;

-- Lets a test spoil what is booked.
CREATE FUNCTION world_unlock() RETURNS void LANGUAGE sql AS $$
    ALTER TABLE entry DISABLE TRIGGER tr_immutable;
    ALTER TABLE posting DISABLE TRIGGER tr_immutable;
$$;
