//! What needs both databases: every fact that books money has its entry, of the same amount, and no other.

use std::collections::HashMap;

use sqlx::PgPool;

use crate::{Database, Error, ROWS_TOLD_MAX};

/// Keys compared at one time: bounded memory however large the books are.
const CHUNK: i64 = 10_000;

/// Facts that book money, by key, from `after` on.
const FACTS: &str = "SELECT bucket, msg_key, (payload::JSON ->> 'amount')::BIGINT, payload::JSON ->> 'currency'
     FROM payment_event
     WHERE type IN ('PAY_SUCCEEDED', 'RECEIPT_UNEXPECTED', 'RECEIPT_WITHDRAWN', 'REFUND_SUBMITTED', 'REFUND_SUCCEEDED',
                    'REFUND_FAILED') AND (bucket, msg_key) > ($1, $2)
     ORDER BY bucket, msg_key LIMIT $3";
/// What was booked for the given keys.
const BOOKED: &str = "SELECT e.msg_key, SUM(p.amount)::BIGINT, MIN(p.currency)
     FROM entry e JOIN posting p ON p.entry_id = e.entry_id
     WHERE e.msg_key = ANY($1) AND p.side = 'D' GROUP BY e.msg_key";
/// Entries by key, from `after` on.
const ENTRIES: &str = "SELECT msg_key FROM entry WHERE msg_key > $1 ORDER BY msg_key LIMIT $2";
/// Which of the given keys are facts.
const KNOWN: &str = "SELECT msg_key FROM payment_event WHERE msg_key = ANY($1)";

/// Receipts that went back, by the refund's number, from `after` on, with the key of the receipt's fact.
const GIVEN_BACK: &str =
    "SELECT bucket, refund_no, 'RECEIPT_UNEXPECTED:' || channel || ':' || channel_txn_id FROM refund
     WHERE kind = 'RECEIPT' AND state = 'SUCCESS' AND (bucket, refund_no) > ($1, $2)
     ORDER BY bucket, refund_no LIMIT $3";
/// Refunds of the given ones whose entries leave something in suspense, in transit or at the channel.
const LINGERING: &str =
    "SELECT DISTINCT w.refund_no FROM UNNEST($1::TEXT[], $2::TEXT[]) AS w (refund_no, receipt_key)
     JOIN entry e ON e.msg_key = ANY(ARRAY[w.receipt_key, 'REFUND_SUBMITTED:' || w.refund_no,
                                           'REFUND_SUCCEEDED:' || w.refund_no])
     JOIN posting p ON p.entry_id = e.entry_id
     GROUP BY w.refund_no, p.account_code
     HAVING SUM(CASE p.side WHEN 'D' THEN p.amount ELSE -p.amount END) <> 0";

type Broken = (u8, &'static str, Vec<String>);
type Fact = (String, i64, String);

pub(crate) async fn compare(payment: &PgPool, ledger: &PgPool) -> Result<[Broken; 3], Error> {
    Ok([
        (10, "every fact that books money is booked, in its amount", unbooked(payment, ledger).await?),
        (8, "every entry comes from a fact", unfounded(payment, ledger).await?),
        (10, "a receipt that went back is in no account any more", lingering(payment, ledger).await?),
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
        let refunds: Vec<(i16, String, String)> = sqlx::query_as(GIVEN_BACK)
            .bind(after.0)
            .bind(&after.1)
            .bind(CHUNK)
            .fetch_all(payment)
            .await
            .map_err(Error::of(Database::Payment))?;
        let Some((bucket, last, _)) = refunds.last() else { break };
        after = (*bucket, last.clone());
        let numbers: Vec<&str> = refunds.iter().map(|(_, number, _)| number.as_str()).collect();
        let keys: Vec<&str> = refunds.iter().map(|(_, _, key)| key.as_str()).collect();
        let found: Vec<String> = sqlx::query_scalar(LINGERING)
            .bind(&numbers)
            .bind(&keys)
            .fetch_all(ledger)
            .await
            .map_err(Error::of(Database::Ledger))?;
        broken.extend(found);
    }
    Ok(broken)
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
        let known: std::collections::HashSet<String> = known.into_iter().collect();
        broken.extend(entries.into_iter().filter(|key| !known.contains(key)));
    }
    Ok(broken)
}
