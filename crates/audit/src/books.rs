//! What needs both databases: every fact that books money has its entry, of the same amount, and no other; and what is left in
//! the books of money on its way back is what is on its way back.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sqlx::PgPool;

use crate::{Database, Error, ROWS_TOLD_MAX};

/// Keys compared at one time: bounded memory however large the books are.
const CHUNK: i64 = 10_000;

/// Facts that book money, by key, from `after` on.
const FACTS: &str = "SELECT bucket, msg_key, (payload::JSON ->> 'amount')::BIGINT, payload::JSON ->> 'currency'
     FROM payment_event
     WHERE type IN ('PAY_SUCCEEDED', 'RECEIPT_UNEXPECTED', 'RECEIPT_WITHDRAWN', 'REFUND_SUBMITTED', 'REFUND_SUCCEEDED',
                    'REFUND_FAILED', 'REFUND_RETURNED') AND (bucket, msg_key) > ($1, $2)
     ORDER BY bucket, msg_key LIMIT $3";
/// What was booked for the given keys.
const BOOKED: &str = "SELECT e.msg_key, SUM(p.amount)::BIGINT, MIN(p.currency)
     FROM entry e JOIN posting p ON p.entry_id = e.entry_id
     WHERE e.msg_key = ANY($1) AND p.side = 'D' GROUP BY e.msg_key";
/// Entries by key, from `after` on.
const ENTRIES: &str = "SELECT msg_key FROM entry WHERE msg_key > $1 ORDER BY msg_key LIMIT $2";
/// Which of the given keys are facts.
const KNOWN: &str = "SELECT msg_key FROM payment_event WHERE msg_key = ANY($1)";

/// Refunds that ended, by number, from `after` on. Of what went back and stayed there, the key of the receipt's fact, so that
/// nothing is left of both together; or what the payment's merchant is owed no more.
const ENDED: &str = "SELECT bucket, refund_no,
            CASE WHEN kind = 'RECEIPT' AND state = 'SUCCESS' AND returned_at IS NULL
                 THEN 'RECEIPT_UNEXPECTED:' || channel || ':' || channel_txn_id ELSE '' END,
            CASE WHEN kind = 'PAYMENT' AND state = 'SUCCESS' AND returned_at IS NULL THEN amount ELSE 0 END
     FROM refund
     WHERE state IN ('SUCCESS', 'FAIL') AND (bucket, refund_no) > ($1, $2)
     ORDER BY bucket, refund_no LIMIT $3";
/// Refunds of the given ones whose entries leave anything else than what they gave back of a payment: out of its merchant's
/// payable and out of the channel.
const LINGERING: &str = "SELECT DISTINCT w.refund_no
     FROM UNNEST($1::TEXT[], $2::TEXT[], $3::BIGINT[]) AS w (refund_no, receipt_key, given_back)
     JOIN entry e ON e.msg_key = ANY(ARRAY[w.receipt_key, 'REFUND_SUBMITTED:' || w.refund_no,
                                           'REFUND_SUCCEEDED:' || w.refund_no, 'REFUND_FAILED:' || w.refund_no,
                                           'REFUND_RETURNED:' || w.refund_no])
     JOIN posting p ON p.entry_id = e.entry_id
     GROUP BY w.refund_no, w.given_back, e.merchant_id, p.account_code, p.currency
     HAVING SUM(CASE p.side WHEN 'D' THEN p.amount ELSE -p.amount END)
            <> CASE WHEN p.account_code = 'payable:' || e.merchant_id || ':' || p.currency THEN w.given_back
                    WHEN p.account_code LIKE 'clearing:%' THEN -w.given_back ELSE 0 END";

/// What must be left in suspense and in transit, by account: receipts that wait, and refunds that left and have not ended.
const OUTSTANDING: &str = "SELECT code, SUM(amount)::BIGINT FROM (
         SELECT 'transit:' || channel || ':' || channel_account || ':' || currency AS code, amount
         FROM refund WHERE state IN ('SUBMITTED', 'PROCESSING')
         UNION ALL
         SELECT 'suspense:' || r.channel || ':' || r.channel_account || ':' || r.currency, r.amount
         FROM unexpected_receipt r LEFT JOIN refund f ON f.bucket = r.bucket AND f.refund_no = r.refund_no
         WHERE r.state = 'OPEN' OR (r.state = 'REFUNDING' AND f.state = 'PENDING')) AS waiting
     GROUP BY code";
/// What is left there.
const HELD: &str = "SELECT account_code, SUM(credit - debit)::BIGINT FROM account_balance
     WHERE account_code LIKE 'suspense:%' OR account_code LIKE 'transit:%'
     GROUP BY account_code HAVING SUM(credit - debit) <> 0";

/// The rules that are compared, with their numbers.
pub const COMPARISONS: [(u8, &str); 4] = [
    (10, "every fact that books money is booked, in its amount"),
    (8, "every entry comes from a fact"),
    (10, "a refund that ended leaves in the books what it gave back of a payment, and nothing else"),
    (10, "suspense and transit hold what waits and what is on its way, and no more"),
];

type Fact = (String, i64, String);

/// Rows that break each of [`COMPARISONS`].
pub(crate) async fn compare(payment: &PgPool, ledger: &PgPool) -> Result<[Vec<String>; 4], Error> {
    Ok([
        unbooked(payment, ledger).await?,
        unfounded(payment, ledger).await?,
        lingering(payment, ledger).await?,
        outstanding(payment, ledger).await?,
    ])
}

async fn unbooked(payment: &PgPool, ledger: &PgPool) -> Result<Vec<String>, Error> {
    let (mut broken, mut after) = (Vec::new(), (-1_i16, String::new()));
    while broken.len() < ROWS_TOLD_MAX {
        let facts: Vec<(i16, String, i64, String)> = sqlx::query_as(FACTS)
            .bind(after.0)
            .bind(&after.1)
            .bind(CHUNK)
            .fetch_all(payment)
            .await
            .map_err(Error::of(Database::Payment))?;
        let Some((bucket, last, ..)) = facts.last() else { break };
        after = (*bucket, last.clone());
        let keys: Vec<&str> = facts.iter().map(|(_, key, ..)| key.as_str()).collect();
        let booked: Vec<Fact> = sqlx::query_as(BOOKED)
            .bind(&keys)
            .fetch_all(ledger)
            .await
            .map_err(Error::of(Database::Ledger))?;
        let booked: HashMap<String, (i64, String)> =
            booked.into_iter().map(|(key, amount, currency)| (key, (amount, currency))).collect();
        broken.extend(facts.into_iter().filter_map(|(_, key, amount, currency)| {
            (booked.get(&key) != Some(&(amount, currency))).then_some(key)
        }));
    }
    Ok(broken)
}

async fn lingering(payment: &PgPool, ledger: &PgPool) -> Result<Vec<String>, Error> {
    let (mut broken, mut after) = (Vec::new(), (-1_i16, String::new()));
    while broken.len() < ROWS_TOLD_MAX {
        let refunds: Vec<(i16, String, String, i64)> = sqlx::query_as(ENDED)
            .bind(after.0)
            .bind(&after.1)
            .bind(CHUNK)
            .fetch_all(payment)
            .await
            .map_err(Error::of(Database::Payment))?;
        let Some((bucket, last, ..)) = refunds.last() else { break };
        after = (*bucket, last.clone());
        let numbers: Vec<&str> = refunds.iter().map(|(_, number, ..)| number.as_str()).collect();
        let keys: Vec<&str> = refunds.iter().map(|(_, _, key, _)| key.as_str()).collect();
        let given_back: Vec<i64> = refunds.iter().map(|(.., amount)| *amount).collect();
        let found: Vec<String> = sqlx::query_scalar(LINGERING)
            .bind(&numbers)
            .bind(&keys)
            .bind(&given_back)
            .fetch_all(ledger)
            .await
            .map_err(Error::of(Database::Ledger))?;
        broken.extend(found);
    }
    Ok(broken)
}

async fn outstanding(payment: &PgPool, ledger: &PgPool) -> Result<Vec<String>, Error> {
    let wanted: BTreeMap<String, i64> = sqlx::query_as(OUTSTANDING)
        .fetch_all(payment)
        .await
        .map_err(Error::of(Database::Payment))?
        .into_iter()
        .collect();
    let held: BTreeMap<String, i64> = sqlx::query_as(HELD)
        .fetch_all(ledger)
        .await
        .map_err(Error::of(Database::Ledger))?
        .into_iter()
        .collect();
    let accounts: BTreeSet<&String> = wanted.keys().chain(held.keys()).collect();
    let of = |sums: &BTreeMap<String, i64>, account: &String| sums.get(account).copied().unwrap_or(0);
    Ok(accounts
        .into_iter()
        .map(|account| (account, of(&held, account), of(&wanted, account)))
        .filter(|(_, held, wanted)| held != wanted)
        .map(|(account, held, wanted)| format!("{account} holds {held} instead of {wanted}"))
        .collect())
}

async fn unfounded(payment: &PgPool, ledger: &PgPool) -> Result<Vec<String>, Error> {
    let (mut broken, mut after) = (Vec::new(), String::new());
    while broken.len() < ROWS_TOLD_MAX {
        let entries: Vec<String> = sqlx::query_scalar(ENTRIES)
            .bind(&after)
            .bind(CHUNK)
            .fetch_all(ledger)
            .await
            .map_err(Error::of(Database::Ledger))?;
        let Some(last) = entries.last() else { break };
        after.clone_from(last);
        let known: Vec<String> = sqlx::query_scalar(KNOWN)
            .bind(&entries)
            .fetch_all(payment)
            .await
            .map_err(Error::of(Database::Payment))?;
        let known: HashSet<String> = known.into_iter().collect();
        broken.extend(entries.into_iter().filter(|key| !known.contains(key)));
    }
    Ok(broken)
}
