//! Gates 4 and 8, the idempotent log. The hole: a key used twice, or with another body.
//!
//! A claim and its effect commit together: every function that writes takes the caller's transaction. Claims of a batch are
//! taken in key order, so two batches never wait for each other in a ring. Conflicts are resolved by `ON CONFLICT DO
//! NOTHING` and a read, never by catching an error, which would have ended the transaction.

use std::collections::{HashMap, HashSet};

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

/// Times a claim is made again when the row that stood in its way vanished before it could be read (a purge).
const ROUNDS_MAX: u32 = 4;

/// A wish to be the first with a key.
#[derive(Debug, Clone)]
pub struct Claim {
    /// For example `PAY:CREATE:{merchant}:{key}` or `CONSUME:{msg_key}`.
    pub biz_key: String,
    /// Fingerprint of the request, or hash of the message.
    pub request_hash: Vec<u8>,
    /// Number of what will come of it.
    pub result_no: String,
}

/// What the log says of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Claimed {
    /// The key is new; go on, in the same transaction.
    First,
    /// The key is known.
    Seen(LogRow),
}

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    pub request_hash: Vec<u8>,
    pub result_no: String,
    pub created_at: OffsetDateTime,
}

/// Claims keys. Answers stand in the order of `claims`; of equal keys in one batch the first one is first.
///
/// # Errors
/// Database errors; `RowNotFound` when a row kept vanishing, after which the transaction may be run again.
pub async fn claim_in_tx(tx: &mut PgConnection, claims: &[Claim]) -> Result<Vec<Claimed>, sqlx::Error> {
    let mut order: Vec<(usize, &Claim)> = claims.iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.biz_key.cmp(&b.biz_key));
    let mut answers: Vec<Option<Claimed>> = vec![None; claims.len()];
    for _ in 0..ROUNDS_MAX {
        let open: Vec<_> =
            order.iter().filter(|(place, _)| answers.get(*place).is_some_and(Option::is_none)).collect();
        if open.is_empty() {
            break;
        }
        let mut new = insert(tx, open.iter().map(|(_, claim)| *claim)).await?;
        let mut behind = Vec::new();
        for (place, claim) in open {
            // Removing the key leaves later claims of the same batch behind the first one.
            if new.remove(&claim.biz_key) {
                set(&mut answers, *place, Claimed::First);
            } else {
                behind.push((*place, claim.biz_key.as_str()));
            }
        }
        if behind.is_empty() {
            break;
        }
        let rows = read(tx, behind.iter().map(|(_, key)| *key)).await?;
        for (place, key) in behind {
            if let Some(row) = rows.get(key) {
                set(&mut answers, place, Claimed::Seen(row.clone()));
            }
        }
    }
    answers.into_iter().collect::<Option<Vec<_>>>().ok_or(sqlx::Error::RowNotFound)
}

fn set(answers: &mut [Option<Claimed>], place: usize, answer: Claimed) {
    if let Some(slot) = answers.get_mut(place) {
        *slot = Some(answer);
    }
}

async fn insert<'a>(
    tx: &mut PgConnection,
    claims: impl Iterator<Item = &'a Claim>,
) -> Result<HashSet<String>, sqlx::Error> {
    let (mut keys, mut hashes, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for claim in claims {
        keys.push(claim.biz_key.clone());
        hashes.push(claim.request_hash.clone());
        results.push(claim.result_no.clone());
    }
    let new = sqlx::query_scalar!(
        "INSERT INTO idempotent_log (biz_key, request_hash, result_no)
         SELECT * FROM UNNEST($1::TEXT[], $2::BYTEA[], $3::TEXT[])
         ON CONFLICT DO NOTHING
         RETURNING biz_key",
        &keys,
        &hashes,
        &results
    )
    .fetch_all(tx)
    .await?;
    Ok(new.into_iter().collect())
}

async fn read<'a>(
    tx: &mut PgConnection,
    keys: impl Iterator<Item = &'a str>,
) -> Result<HashMap<String, LogRow>, sqlx::Error> {
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    let rows = sqlx::query!(
        "SELECT biz_key, request_hash, result_no, created_at FROM idempotent_log WHERE biz_key = ANY($1)",
        &keys
    )
    .fetch_all(tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let log_row = LogRow {
                request_hash: row.request_hash,
                result_no: row.result_no,
                created_at: row.created_at,
            };
            (row.biz_key, log_row)
        })
        .collect())
}

/// Points keys that were claimed in this transaction to another result: `(biz_key, result_no)`.
///
/// # Errors
/// Database errors; `RowNotFound` when a key was not there.
pub async fn repoint_in_tx(tx: &mut PgConnection, moves: &[(String, String)]) -> Result<(), sqlx::Error> {
    if moves.is_empty() {
        return Ok(());
    }
    let (keys, results): (Vec<_>, Vec<_>) = moves.iter().cloned().unzip();
    let done = sqlx::query!(
        "UPDATE idempotent_log l SET result_no = m.result_no
         FROM UNNEST($1::TEXT[], $2::TEXT[]) AS m (biz_key, result_no)
         WHERE l.biz_key = m.biz_key",
        &keys,
        &results
    )
    .execute(tx)
    .await?;
    expect_rows(done.rows_affected(), moves.len())
}

/// Forgets keys that were claimed in this transaction: a request that is refused does not use up its key.
///
/// # Errors
/// Database errors; `RowNotFound` when a key was not there.
pub async fn forget_in_tx(tx: &mut PgConnection, keys: &[String]) -> Result<(), sqlx::Error> {
    if keys.is_empty() {
        return Ok(());
    }
    let done = sqlx::query!("DELETE FROM idempotent_log WHERE biz_key = ANY($1)", keys).execute(tx).await?;
    expect_rows(done.rows_affected(), keys.len())
}

/// What became of a key.
///
/// # Errors
/// Database errors.
pub async fn find(pool: &PgPool, biz_key: &str) -> Result<Option<LogRow>, sqlx::Error> {
    sqlx::query_as!(
        LogRow,
        "SELECT request_hash, result_no, created_at FROM idempotent_log WHERE biz_key = $1",
        biz_key
    )
    .fetch_optional(pool)
    .await
}

/// What became of keys, by key; those that are not known are left out.
///
/// # Errors
/// Database errors.
pub async fn find_all(
    connection: &mut PgConnection,
    biz_keys: &[String],
) -> Result<HashMap<String, LogRow>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT biz_key, request_hash, result_no, created_at FROM idempotent_log WHERE biz_key = ANY($1)",
        biz_keys
    )
    .fetch_all(connection)
    .await?;
    let known = rows.into_iter().map(|row| {
        let (request_hash, result_no, created_at) = (row.request_hash, row.result_no, row.created_at);
        (row.biz_key, LogRow { request_hash, result_no, created_at })
    });
    Ok(known.collect())
}

/// The oldest keys with a prefix that were first seen before `before`: `(biz_key, result_no)`.
///
/// # Errors
/// Database errors.
pub async fn older_than(
    pool: &PgPool,
    prefix: &str,
    before: OffsetDateTime,
    rows_max: i64,
) -> Result<Vec<(String, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT biz_key, result_no FROM idempotent_log
         WHERE created_at < $1 AND biz_key LIKE $2 || '%' ORDER BY created_at LIMIT $3",
        before,
        prefix,
        rows_max
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.biz_key, row.result_no)).collect())
}

fn expect_rows(found: u64, wanted: usize) -> Result<(), sqlx::Error> {
    if u64::try_from(wanted) == Ok(found) { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
}
