//! Table `refund`. Gate G10 (a refund given once) stands in these statements and in the table's unique keys.

use std::collections::{HashMap, HashSet};

use pay_types::{MerchantId, PayNo, RefundNo, RefundRequestNo, RefundState};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use crate::Error;
use crate::refund::decide::Decision;
use crate::refund::{Approval, NewRefund, Refund, RefundRow};

/// `SELECT` of whole refunds with the given tail.
macro_rules! select_refunds {
    ($tail:literal $(, $arg:expr)*) => {
        sqlx::query_as!(
            RefundRow,
            "SELECT r.refund_no, r.kind, r.pay_no, r.merchant_id, r.refund_request_no, r.amount, r.currency, r.reason,
                    r.channel, r.channel_account, r.channel_txn_id, r.channel_refund_no, r.state, r.version,
                    r.last_error, r.tries, r.approval, r.requested_by, r.decided_by, r.returned_at, r.traceparent,
                    r.created_at, r.updated_at
             FROM refund r " + $tail $(, $arg)*
        )
    };
}

fn checked(rows: Vec<RefundRow>) -> Result<Vec<Refund>, Error> {
    rows.into_iter().map(|row| Refund::try_from(row).map_err(Error::Corrupt)).collect()
}

/// Inserts refunds; those whose receipt or request has one already, or whose payment has one in flight, are left out. Gives
/// how many were new.
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
                             channel_account, channel_txn_id, traceparent, refund_request_no, approval, requested_by,
                             next_try_at, created_at, updated_at)
         SELECT n.bucket, n.refund_no, n.kind, n.pay_no, n.merchant_id, n.amount, n.currency, n.reason, n.channel,
                n.channel_account, n.channel_txn_id, n.traceparent, n.refund_request_no, n.approval, n.requested_by,
                -- What waits for a person is looked at by no job.
                CASE n.approval WHEN 'WAITING' THEN 'infinity' ELSE n.next_try_at END, $17, $17
         FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::BIGINT[], $7::TEXT[],
                     $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::TEXT[], $12::TEXT[], $13::TEXT[], $14::TEXT[],
                     $15::TEXT[], $16::TIMESTAMPTZ[])
              AS n (bucket, refund_no, kind, pay_no, merchant_id, amount, currency, reason, channel, channel_account,
                    channel_txn_id, traceparent, refund_request_no, approval, requested_by, next_try_at)
         ON CONFLICT DO NOTHING",
        &refunds.iter().map(|r| r.refund_no.bucket().as_i16()).collect::<Vec<_>>(),
        &column(|r| r.refund_no.as_str()),
        &column(|r| r.kind.as_str()),
        &column(|r| r.pay_no.as_str()),
        &column(|r| r.merchant_id.as_str()),
        &refunds.iter().map(|r| r.amount.minor()).collect::<Vec<_>>(),
        &column(|r| r.amount.currency().code()),
        &column(|r| &r.reason),
        &column(|r| r.channel.as_str()),
        &column(|r| r.channel_account.as_str()),
        &column(|r| r.channel_txn_id.as_str()),
        &refunds.iter().map(|r| r.traceparent.clone()).collect::<Vec<_>>() as _,
        &refunds.iter().map(|r| r.refund_request_no.clone()).collect::<Vec<_>>() as _,
        &column(|r| r.approval.as_str()),
        &refunds.iter().map(|r| r.requested_by.clone()).collect::<Vec<_>>() as _,
        &refunds.iter().map(|r| r.next_try_at).collect::<Vec<_>>(),
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
    let rows = select_refunds!(
        "JOIN UNNEST($1::SMALLINT[], $2::TEXT[]) AS w (bucket, refund_no)
           ON r.bucket = w.bucket AND r.refund_no = w.refund_no",
        &numbers.iter().map(|n| n.bucket().as_i16()).collect::<Vec<_>>(),
        &numbers.iter().map(|n| n.as_str().to_owned()).collect::<Vec<_>>()
    )
    .fetch_all(tx)
    .await?;
    Ok(checked(rows)?.into_iter().map(|refund| (refund.refund_no.clone(), refund)).collect())
}

/// One refund by number.
pub(crate) async fn by_number(pool: &PgPool, number: &RefundNo) -> Result<Option<Refund>, Error> {
    let mut connection = pool.acquire().await?;
    Ok(by_numbers_in_tx(&mut connection, std::slice::from_ref(number)).await?.remove(number))
}

/// One refund by the merchant's number of its request.
pub(crate) async fn by_request(
    pool: &PgPool,
    pay_no: &PayNo,
    request_no: &RefundRequestNo,
) -> Result<Option<Refund>, Error> {
    let row = select_refunds!(
        "WHERE r.bucket = $1 AND r.pay_no = $2 AND r.refund_request_no = $3",
        pay_no.bucket().as_i16(),
        pay_no.as_str(),
        request_no.as_str()
    )
    .fetch_optional(pool)
    .await?;
    row.map(|row| Refund::try_from(row).map_err(Error::Corrupt)).transpose()
}

/// One refund by number, its row held until the transaction ends.
pub(crate) async fn lock_in_tx(tx: &mut PgConnection, number: &RefundNo) -> Result<Option<Refund>, Error> {
    let row = select_refunds!(
        "WHERE r.bucket = $1 AND r.refund_no = $2 FOR UPDATE",
        number.bucket().as_i16(),
        number.as_str()
    )
    .fetch_optional(tx)
    .await?;
    row.map(|row| Refund::try_from(row).map_err(Error::Corrupt)).transpose()
}

/// What stands in the way of new refunds: of each payment the refund of the same request, and the one in flight.
pub(crate) async fn rivals_in_tx(
    tx: &mut PgConnection,
    asked: &[(&PayNo, &RefundRequestNo)],
) -> Result<Vec<Refund>, Error> {
    let rows = select_refunds!(
        "JOIN UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[]) AS w (bucket, pay_no, refund_request_no)
           ON r.bucket = w.bucket AND r.pay_no = w.pay_no
          AND (r.refund_request_no = w.refund_request_no
               OR (r.kind = 'PAYMENT' AND r.state IN ('PENDING', 'SUBMITTED', 'PROCESSING')))",
        &asked.iter().map(|(n, _)| n.bucket().as_i16()).collect::<Vec<_>>(),
        &asked.iter().map(|(n, _)| n.as_str().to_owned()).collect::<Vec<_>>(),
        &asked.iter().map(|(_, r)| r.as_str().to_owned()).collect::<Vec<_>>()
    )
    .fetch_all(tx)
    .await?;
    checked(rows)
}

/// A page of a merchant's refunds, or of one payment's, newest first, from before `before` on.
pub(crate) async fn page(
    pool: &PgPool,
    merchant_id: &MerchantId,
    pay_no: Option<&PayNo>,
    before: Option<&RefundNo>,
    rows_max: i64,
) -> Result<Vec<Refund>, Error> {
    let rows = match pay_no {
        Some(pay_no) => {
            select_refunds!(
                "WHERE r.bucket = $1 AND r.pay_no = $2 AND r.merchant_id = $3 AND ($4::TEXT IS NULL OR r.refund_no < $4)
                 ORDER BY r.refund_no DESC LIMIT $5",
                pay_no.bucket().as_i16(),
                pay_no.as_str(),
                merchant_id.as_str(),
                before.map(RefundNo::as_str),
                rows_max
            )
            .fetch_all(pool)
            .await?
        }
        None => {
            select_refunds!(
                "WHERE r.merchant_id = $1 AND ($2::TEXT IS NULL OR r.refund_no < $2) ORDER BY r.refund_no DESC LIMIT $3",
                merchant_id.as_str(),
                before.map(RefundNo::as_str),
                rows_max
            )
            .fetch_all(pool)
            .await?
        }
    };
    checked(rows)
}

/// G10: writes a person's decision about a refund that waits for one. False: it does not wait any more.
pub(crate) async fn decide_in_tx(
    tx: &mut PgConnection,
    decision: &Decision,
    approval: Approval,
    now: OffsetDateTime,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE refund
         SET approval = $3, decided_by = $4, decision_note = $5, version = version + 1, updated_at = $6, next_try_at = $6,
             state = CASE $3 WHEN 'REJECTED' THEN 'FAIL' ELSE state END,
             last_error = CASE $3 WHEN 'REJECTED' THEN $5 ELSE last_error END
         WHERE bucket = $1 AND refund_no = $2 AND approval = 'WAITING' AND state = 'PENDING'",
        decision.refund_no.bucket().as_i16(),
        decision.refund_no.as_str(),
        approval.as_str(),
        decision.decided_by.as_str(),
        decision.note.as_str(),
        now
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The money of a refund that had succeeded came home: once. False: that was known, or the refund changed since it was read.
pub(crate) async fn return_in_tx(
    tx: &mut PgConnection,
    number: &RefundNo,
    version: i64,
    returned_at: OffsetDateTime,
    now: OffsetDateTime,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE refund SET returned_at = $4, version = version + 1, updated_at = $5
         WHERE bucket = $1 AND refund_no = $2 AND version = $3 AND state = 'SUCCESS' AND returned_at IS NULL",
        number.bucket().as_i16(),
        number.as_str(),
        version,
        returned_at,
        now
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Refunds of a payment that are on their way are looked at by the next job.
pub(crate) async fn look_soon_in_tx(
    tx: &mut PgConnection,
    pay_no: &PayNo,
    now: OffsetDateTime,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE refund SET next_try_at = $3
         WHERE bucket = $1 AND pay_no = $2 AND state IN ('SUBMITTED', 'PROCESSING') AND next_try_at > $3",
        pay_no.bucket().as_i16(),
        pay_no.as_str(),
        now
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
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
