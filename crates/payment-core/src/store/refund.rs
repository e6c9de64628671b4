//! Table `refund`. Gate G10 (a refund given once) stands in these statements and in the table's unique keys.

use std::collections::{HashMap, HashSet};

use pay_types::{RefundNo, RefundState};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use crate::Error;
use crate::payment::refund::{NewRefund, Refund, RefundRow};

/// Inserts refunds; those whose receipt has one already are left out. Gives how many were new.
pub(crate) async fn insert_in_tx(
    tx: &mut PgConnection,
    refunds: &[&NewRefund],
    now: OffsetDateTime,
) -> Result<u64, sqlx::Error> {
    let column = |text: fn(&NewRefund) -> &str| -> Vec<String> {
        refunds.iter().map(|r| text(r).to_owned()).collect()
    };
    let done = sqlx::query!(
        "INSERT INTO refund (bucket, refund_no, kind, pay_no, merchant_id, amount, currency, reason, channel,
                             channel_account, channel_txn_id, traceparent, next_try_at, created_at, updated_at)
         SELECT n.*, $13, $13, $13
         FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::BIGINT[], $7::TEXT[],
                     $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::TEXT[], $12::TEXT[])
              AS n (bucket, refund_no, kind, pay_no, merchant_id, amount, currency, reason, channel, channel_account,
                    channel_txn_id, traceparent)
         ON CONFLICT DO NOTHING",
        &refunds.iter().map(|r| r.refund_no.bucket().as_i16()).collect::<Vec<_>>(),
        &column(|r| r.refund_no.as_str()),
        &column(|r| r.kind.as_str()),
        &column(|r| r.pay_no.as_str()),
        &column(|r| r.merchant_id.as_str()),
        &refunds.iter().map(|r| r.amount.minor()).collect::<Vec<_>>(),
        &column(|r| r.amount.currency().code()),
        &column(|r| r.reason),
        &column(|r| r.channel.as_str()),
        &column(|r| r.channel_account.as_str()),
        &column(|r| r.channel_txn_id.as_str()),
        &refunds.iter().map(|r| r.traceparent.clone()).collect::<Vec<_>>() as _,
        now
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}

/// Refunds by number.
pub(crate) async fn by_numbers_in_tx(
    tx: &mut PgConnection,
    numbers: &[RefundNo],
) -> Result<HashMap<RefundNo, Refund>, Error> {
    let rows = sqlx::query_as!(
        RefundRow,
        "SELECT r.refund_no, r.kind, r.pay_no, r.amount, r.currency, r.reason, r.channel, r.channel_account,
                r.channel_txn_id, r.state, r.version, r.tries, r.traceparent
         FROM refund r
         JOIN UNNEST($1::SMALLINT[], $2::TEXT[]) AS w (bucket, refund_no)
           ON r.bucket = w.bucket AND r.refund_no = w.refund_no",
        &numbers.iter().map(|n| n.bucket().as_i16()).collect::<Vec<_>>(),
        &numbers.iter().map(|n| n.as_str().to_owned()).collect::<Vec<_>>(),
    )
    .fetch_all(tx)
    .await?;
    rows.into_iter()
        .map(|row| {
            let refund = Refund::try_from(row).map_err(Error::Corrupt)?;
            Ok((refund.refund_no.clone(), refund))
        })
        .collect()
}

/// A step of one refund from what was read.
#[derive(Debug, Clone)]
pub(crate) struct RefundTransition {
    pub(crate) refund_no: RefundNo,
    /// State and version as they were read: the compare of the compare-and-set.
    pub(crate) from: RefundState,
    pub(crate) version: i64,
    pub(crate) to: RefundState,
    pub(crate) channel_refund_no: Option<String>,
    /// The channel's words where it refused, for people.
    pub(crate) last_error: Option<String>,
}

/// G10: moves refunds by compare-and-set. Gives the numbers that moved; the others were changed by someone else since they
/// were read, and must be read and decided again.
pub(crate) async fn advance_in_tx(
    tx: &mut PgConnection,
    transitions: &[RefundTransition],
    now: OffsetDateTime,
) -> Result<HashSet<String>, sqlx::Error> {
    if transitions.is_empty() {
        return Ok(HashSet::new());
    }
    let moved = sqlx::query_scalar!(
        "UPDATE refund r
         SET state = t.next_state, version = r.version + 1, updated_at = $8,
             channel_refund_no = COALESCE(t.channel_refund_no, r.channel_refund_no),
             last_error = COALESCE(t.last_error, r.last_error)
         FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[], $4::BIGINT[], $5::TEXT[], $6::TEXT[], $7::TEXT[])
              AS t (bucket, refund_no, state, version, next_state, channel_refund_no, last_error)
         WHERE r.bucket = t.bucket AND r.refund_no = t.refund_no AND r.state = t.state AND r.version = t.version
         RETURNING r.refund_no",
        &transitions.iter().map(|t| t.refund_no.bucket().as_i16()).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.refund_no.as_str().to_owned()).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.from.as_str().to_owned()).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.version).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.to.as_str().to_owned()).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.channel_refund_no.clone()).collect::<Vec<_>>() as _,
        &transitions.iter().map(|t| t.last_error.clone()).collect::<Vec<_>>() as _,
        now
    )
    .fetch_all(tx)
    .await?;
    Ok(moved.into_iter().collect())
}

/// Notes why a live refund waits, for people. False: it has ended since.
pub(crate) async fn note_error(
    pool: &PgPool,
    number: &RefundNo,
    words: &str,
    now: OffsetDateTime,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE refund SET last_error = $3, updated_at = $4
         WHERE bucket = $1 AND refund_no = $2 AND state IN ('PENDING', 'SUBMITTED', 'PROCESSING')",
        number.bucket().as_i16(),
        number.as_str(),
        words,
        now
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Takes live refunds that are due, for one job at a time: whoever takes them puts off the next look by a growing delay
/// (from `delay_s_min`, doubled at each look, to `delay_s_max`), so a job that dies leaves them to another.
pub(crate) async fn take_due(
    pool: &PgPool,
    now: OffsetDateTime,
    delay_s_min: i32,
    delay_s_max: i32,
    rows_max: i64,
) -> Result<Vec<Refund>, Error> {
    let taken = sqlx::query!(
        "UPDATE refund r
         SET tries = r.tries + 1,
             next_try_at = $1 + LEAST($2::INTEGER * (1 << LEAST(r.tries, 16)), $3::INTEGER) * INTERVAL '1 second'
         FROM (SELECT bucket, refund_no FROM refund
               WHERE state IN ('PENDING', 'SUBMITTED', 'PROCESSING') AND next_try_at <= $1
               ORDER BY next_try_at LIMIT $4 FOR UPDATE SKIP LOCKED) AS due
         WHERE r.bucket = due.bucket AND r.refund_no = due.refund_no
         RETURNING r.refund_no",
        now,
        delay_s_min,
        delay_s_max,
        rows_max
    )
    .fetch_all(pool)
    .await?;
    let numbers = taken
        .into_iter()
        .map(|row| row.refund_no.parse().map_err(Error::Corrupt))
        .collect::<Result<Vec<RefundNo>, Error>>()?;
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut connection = pool.acquire().await?;
    Ok(by_numbers_in_tx(&mut connection, &numbers).await?.into_values().collect())
}
