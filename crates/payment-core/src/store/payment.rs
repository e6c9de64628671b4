//! Table `payment`. Gates G5 (unique order) and G6 (forward only) stand in these statements.

use std::collections::{HashMap, HashSet};

use pay_types::{Bucket, MerchantId, OrderNo, PayNo, PaymentState};
use serde_json::Value;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use crate::Error;
use crate::payment::{NewPayment, Payment, PaymentRow};

/// `SELECT` of whole payments with the given tail.
macro_rules! select_payments {
    ($tail:literal $(, $arg:expr)*) => {
        sqlx::query_as!(
            PaymentRow,
            "SELECT p.pay_no, p.merchant_id, p.order_no, p.attempt_no, p.amount, p.currency, p.channel,
                    p.channel_account, p.subject, p.state, p.version, p.channel_txn_id, p.paid_at, p.credential,
                    p.last_error, p.refunded, p.refund_reserved, p.channel_order_no, p.expire_at, p.dispatched_at, p.metadata, p.traceparent,
                    p.created_at, p.updated_at
             FROM payment p " + $tail $(, $arg)*
        )
    };
}

fn checked(rows: Vec<PaymentRow>) -> Result<Vec<Payment>, Error> {
    rows.into_iter().map(|row| Payment::try_from(row).map_err(Error::Corrupt)).collect()
}

/// G5: inserts payments; those whose order's attempt exists, or whose order has a live payment, are left out. Rows are
/// inserted in order of their orders, so that two batches never wait for each other in a ring. Gives the numbers that
/// were inserted.
pub(crate) async fn insert_in_tx(
    tx: &mut PgConnection,
    payments: &[&NewPayment],
) -> Result<HashSet<String>, sqlx::Error> {
    let mut order: Vec<&NewPayment> = payments.to_vec();
    order.sort_by(|a, b| {
        (&a.merchant_id, &a.order_no, a.attempt_no).cmp(&(&b.merchant_id, &b.order_no, b.attempt_no))
    });
    let column =
        |text: fn(&NewPayment) -> &str| -> Vec<String> { order.iter().map(|p| text(p).to_owned()).collect() };
    let inserted = sqlx::query_scalar!(
        "INSERT INTO payment (bucket, pay_no, merchant_id, order_no, attempt_no, amount, currency, channel,
                              channel_account, subject, expire_at, next_query_at, metadata, traceparent, created_at,
                              updated_at)
         SELECT n.bucket, n.pay_no, n.merchant_id, n.order_no, n.attempt_no, n.amount, n.currency, n.channel,
                n.channel_account, n.subject, n.expire_at, n.next_query_at, n.metadata, n.traceparent, n.created_at,
                n.created_at
         FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::SMALLINT[], $6::BIGINT[], $7::TEXT[],
                     $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::TIMESTAMPTZ[], $12::TIMESTAMPTZ[], $13::JSONB[],
                     $14::TEXT[], $15::TIMESTAMPTZ[])
              AS n (bucket, pay_no, merchant_id, order_no, attempt_no, amount, currency, channel, channel_account,
                    subject, expire_at, next_query_at, metadata, traceparent, created_at)
         ON CONFLICT DO NOTHING
         RETURNING pay_no",
        &order.iter().map(|p| p.pay_no.bucket().as_i16()).collect::<Vec<_>>(),
        &column(|p| p.pay_no.as_str()),
        &column(|p| p.merchant_id.as_str()),
        &column(|p| p.order_no.as_str()),
        &order.iter().map(|p| p.attempt_no.as_i16()).collect::<Vec<_>>(),
        &order.iter().map(|p| p.amount.minor()).collect::<Vec<_>>(),
        &column(|p| p.amount.currency().code()),
        &column(|p| p.channel.as_str()),
        &column(|p| p.channel_account.as_str()),
        &column(|p| p.subject.as_str()),
        &order.iter().map(|p| p.expire_at).collect::<Vec<_>>(),
        &order.iter().map(|p| p.next_query_at).collect::<Vec<_>>(),
        &order.iter().map(|p| p.metadata.clone()).collect::<Vec<_>>(),
        &order.iter().map(|p| p.traceparent.clone()).collect::<Vec<_>>() as _,
        &order.iter().map(|p| p.created_at).collect::<Vec<_>>(),
    )
    .fetch_all(tx)
    .await?;
    Ok(inserted.into_iter().collect())
}

/// Payments by number.
pub(crate) async fn by_numbers_in_tx(
    tx: &mut PgConnection,
    numbers: &[PayNo],
) -> Result<HashMap<PayNo, Payment>, Error> {
    let buckets: Vec<i16> = numbers.iter().map(|n| n.bucket().as_i16()).collect();
    let texts: Vec<String> = numbers.iter().map(|n| n.as_str().to_owned()).collect();
    let rows = select_payments!(
        "JOIN UNNEST($1::SMALLINT[], $2::TEXT[]) AS w (bucket, pay_no) ON p.bucket = w.bucket AND p.pay_no = w.pay_no",
        &buckets,
        &texts
    )
    .fetch_all(tx)
    .await?;
    Ok(checked(rows)?.into_iter().map(|payment| (payment.pay_no.clone(), payment)).collect())
}

/// All attempts of the given orders.
pub(crate) async fn of_orders_in_tx(
    tx: &mut PgConnection,
    orders: &[(&MerchantId, &OrderNo)],
) -> Result<Vec<Payment>, Error> {
    let buckets: Vec<i16> = orders.iter().map(|(m, o)| Bucket::of(m, o).as_i16()).collect();
    let merchants: Vec<String> = orders.iter().map(|(m, _)| m.as_str().to_owned()).collect();
    let numbers: Vec<String> = orders.iter().map(|(_, o)| o.as_str().to_owned()).collect();
    let rows = select_payments!(
        "JOIN (SELECT DISTINCT * FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[]))
              AS w (bucket, merchant_id, order_no)
           ON p.bucket = w.bucket AND p.merchant_id = w.merchant_id AND p.order_no = w.order_no",
        &buckets,
        &merchants,
        &numbers
    )
    .fetch_all(tx)
    .await?;
    checked(rows)
}

/// One payment by number.
pub(crate) async fn by_number(pool: &PgPool, number: &PayNo) -> Result<Option<Payment>, Error> {
    let row =
        select_payments!("WHERE p.bucket = $1 AND p.pay_no = $2", number.bucket().as_i16(), number.as_str())
            .fetch_optional(pool)
            .await?;
    row.map(|row| Payment::try_from(row).map_err(Error::Corrupt)).transpose()
}

/// One payment by order and attempt.
pub(crate) async fn by_attempt(
    pool: &PgPool,
    merchant_id: &MerchantId,
    order_no: &OrderNo,
    attempt_no: i16,
) -> Result<Option<Payment>, Error> {
    let row = select_payments!(
        "WHERE p.bucket = $1 AND p.merchant_id = $2 AND p.order_no = $3 AND p.attempt_no = $4",
        Bucket::of(merchant_id, order_no).as_i16(),
        merchant_id.as_str(),
        order_no.as_str(),
        attempt_no
    )
    .fetch_optional(pool)
    .await?;
    row.map(|row| Payment::try_from(row).map_err(Error::Corrupt)).transpose()
}

/// One page of a merchant's payments, newest first, below `before`.
pub(crate) async fn page(
    pool: &PgPool,
    merchant_id: &MerchantId,
    order_no: Option<&OrderNo>,
    before: Option<&PayNo>,
    rows_max: i64,
) -> Result<Vec<Payment>, Error> {
    let rows = match order_no {
        Some(order_no) => {
            select_payments!(
                "WHERE p.bucket = $1 AND p.merchant_id = $2 AND p.order_no = $3
                   AND ($4::TEXT IS NULL OR p.pay_no < $4)
                 ORDER BY p.pay_no DESC LIMIT $5",
                Bucket::of(merchant_id, order_no).as_i16(),
                merchant_id.as_str(),
                order_no.as_str(),
                before.map(PayNo::as_str),
                rows_max
            )
            .fetch_all(pool)
            .await?
        }
        None => {
            select_payments!(
                "WHERE p.merchant_id = $1 AND ($2::TEXT IS NULL OR p.pay_no < $2) ORDER BY p.pay_no DESC LIMIT $3",
                merchant_id.as_str(),
                before.map(PayNo::as_str),
                rows_max
            )
            .fetch_all(pool)
            .await?
        }
    };
    checked(rows)
}

/// A move of one payment from what was read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Transition {
    pub(crate) pay_no: PayNo,
    /// State and version as they were read: the compare of the compare-and-set.
    pub(crate) from: PaymentState,
    pub(crate) version: i64,
    pub(crate) to: PaymentState,
    pub(crate) channel_txn_id: Option<String>,
    pub(crate) paid_at: Option<OffsetDateTime>,
    pub(crate) last_error: Option<String>,
}

/// G6: moves payments by compare-and-set. Gives the numbers that moved; the others were changed by someone else since they
/// were read, and must be read and decided again.
pub(crate) async fn advance_in_tx(
    tx: &mut PgConnection,
    transitions: &[Transition],
    now: OffsetDateTime,
) -> Result<HashSet<String>, sqlx::Error> {
    if transitions.is_empty() {
        return Ok(HashSet::new());
    }
    let moved = sqlx::query_scalar!(
        "UPDATE payment p
         SET state = t.next_state, version = p.version + 1, updated_at = $8,
             channel_txn_id = COALESCE(t.channel_txn_id, p.channel_txn_id),
             paid_at = COALESCE(t.paid_at, p.paid_at),
             last_error = COALESCE(t.last_error, p.last_error)
         FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::TEXT[], $4::BIGINT[], $5::TEXT[], $6::TEXT[],
                     $7::TIMESTAMPTZ[], $9::TEXT[])
              AS t (bucket, pay_no, state, version, next_state, channel_txn_id, paid_at, last_error)
         WHERE p.bucket = t.bucket AND p.pay_no = t.pay_no AND p.state = t.state AND p.version = t.version
         RETURNING p.pay_no",
        &transitions.iter().map(|t| t.pay_no.bucket().as_i16()).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.pay_no.as_str().to_owned()).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.from.as_str().to_owned()).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.version).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.to.as_str().to_owned()).collect::<Vec<_>>(),
        &transitions.iter().map(|t| t.channel_txn_id.clone()).collect::<Vec<_>>() as _,
        &transitions.iter().map(|t| t.paid_at).collect::<Vec<_>>() as _,
        now,
        &transitions.iter().map(|t| t.last_error.clone()).collect::<Vec<_>>() as _,
    )
    .fetch_all(tx)
    .await?;
    Ok(moved.into_iter().collect())
}

/// What stands in place of [`advance_in_tx`] where a test has switched gate G6 off: nothing is compared.
#[cfg(debug_assertions)]
pub(crate) async fn advance_unguarded_in_tx(
    tx: &mut PgConnection,
    transitions: &[Transition],
    now: OffsetDateTime,
) -> Result<HashSet<String>, sqlx::Error> {
    let mut moved = HashSet::new();
    for transition in transitions {
        let done = sqlx::query!(
            "UPDATE payment SET state = $3, version = version + 1, updated_at = $4,
                    channel_txn_id = COALESCE($5, channel_txn_id), paid_at = COALESCE($6, paid_at)
             WHERE bucket = $1 AND pay_no = $2",
            transition.pay_no.bucket().as_i16(),
            transition.pay_no.as_str(),
            transition.to.as_str(),
            now,
            transition.channel_txn_id,
            transition.paid_at
        )
        .execute(&mut *tx)
        .await?;
        if done.rows_affected() == 1 {
            moved.insert(transition.pay_no.to_string());
        }
    }
    Ok(moved)
}

/// Stores what the channel answered to the create call: once, and only while the payment is in process. False: another
/// call was first, or the payment has ended.
pub(crate) async fn store_credential(
    pool: &PgPool,
    number: &PayNo,
    credential: &Value,
    channel_order_no: Option<&str>,
    now: OffsetDateTime,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE payment
         SET credential = $3, dispatched_at = $4, channel_order_no = $5, last_error = NULL, version = version + 1,
             updated_at = $4
         WHERE bucket = $1 AND pay_no = $2 AND state = 'PROCESSING' AND dispatched_at IS NULL",
        number.bucket().as_i16(),
        number.as_str(),
        credential,
        now,
        channel_order_no
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Notes the channel's words for people while the payment is in process.
pub(crate) async fn note_error_in_tx(
    tx: &mut PgConnection,
    number: &PayNo,
    words: &str,
    now: OffsetDateTime,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE payment SET last_error = $3, version = version + 1, updated_at = $4
         WHERE bucket = $1 AND pay_no = $2 AND state = 'PROCESSING'",
        number.bucket().as_i16(),
        number.as_str(),
        words,
        now
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Takes payments in process that are due, for one job at a time: whoever takes them puts off the next look by a growing
/// delay (from `delay_s_min`, doubled at each look, to `delay_s_max`), so a job that dies leaves them to another.
pub(crate) async fn take_due(
    pool: &PgPool,
    now: OffsetDateTime,
    delay_s_min: i32,
    delay_s_max: i32,
    rows_max: i64,
) -> Result<Vec<Payment>, Error> {
    let taken = sqlx::query!(
        "UPDATE payment p
         SET query_count = p.query_count + 1,
             next_query_at = $1 + LEAST($2::INTEGER * (1 << LEAST(p.query_count, 16)), $3::INTEGER) * INTERVAL '1 second'
         FROM (SELECT bucket, pay_no FROM payment
               WHERE state = 'PROCESSING' AND next_query_at <= $1
               ORDER BY next_query_at LIMIT $4 FOR UPDATE SKIP LOCKED) AS due
         WHERE p.bucket = due.bucket AND p.pay_no = due.pay_no
         RETURNING p.pay_no",
        now,
        delay_s_min,
        delay_s_max,
        rows_max
    )
    .fetch_all(pool)
    .await?;
    let numbers = taken
        .into_iter()
        .map(|row| row.pay_no.parse().map_err(Error::Corrupt))
        .collect::<Result<Vec<PayNo>, Error>>()?;
    let mut connection = pool.acquire().await?;
    Ok(by_numbers_in_tx(&mut connection, &numbers).await?.into_values().collect())
}

/// G10: payments by number, their rows held until the transaction ends, so that what is decided about their refunds stands.
/// Rows are taken in one order, so that two batches never wait for each other in a ring.
pub(crate) async fn lock_in_tx(
    tx: &mut PgConnection,
    numbers: &[PayNo],
) -> Result<HashMap<PayNo, Payment>, Error> {
    let buckets: Vec<i16> = numbers.iter().map(|n| n.bucket().as_i16()).collect();
    let texts: Vec<String> = numbers.iter().map(|n| n.as_str().to_owned()).collect();
    let rows = select_payments!(
        "JOIN UNNEST($1::SMALLINT[], $2::TEXT[]) AS w (bucket, pay_no) ON p.bucket = w.bucket AND p.pay_no = w.pay_no
         ORDER BY p.bucket, p.pay_no FOR UPDATE OF p",
        &buckets,
        &texts
    )
    .fetch_all(tx)
    .await?;
    Ok(checked(rows)?.into_iter().map(|payment| (payment.pay_no.clone(), payment)).collect())
}

/// G10: reserves amounts on paid payments, each at most once a call, never beyond what was paid. Gives how many were reserved.
pub(crate) async fn reserve_refunds_in_tx(
    tx: &mut PgConnection,
    amounts: &[(PayNo, i64)],
    now: OffsetDateTime,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE payment p SET refund_reserved = p.refund_reserved + t.amount, updated_at = $4
         FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::BIGINT[]) AS t (bucket, pay_no, amount)
         WHERE p.bucket = t.bucket AND p.pay_no = t.pay_no AND p.state = 'SUCCESS'
           AND p.refund_reserved + t.amount <= p.amount",
        &amounts.iter().map(|(n, _)| n.bucket().as_i16()).collect::<Vec<_>>(),
        &amounts.iter().map(|(n, _)| n.as_str().to_owned()).collect::<Vec<_>>(),
        &amounts.iter().map(|(_, amount)| *amount).collect::<Vec<_>>(),
        now
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}

/// G10: moves the sums of payments whose refunds have moved: number, change of `refund_reserved`, change of `refunded`.
/// `ck_refund_within_paid` judges the result.
///
/// # Errors
/// [`sqlx::Error::RowNotFound`] when a payment is not there.
pub(crate) async fn move_refunds_in_tx(
    tx: &mut PgConnection,
    changes: &[(PayNo, i64, i64)],
    now: OffsetDateTime,
) -> Result<(), sqlx::Error> {
    let mut sums: std::collections::BTreeMap<(i16, &str), (i64, i64)> = std::collections::BTreeMap::new();
    for (number, reserved, refunded) in changes {
        let sum = sums.entry((number.bucket().as_i16(), number.as_str())).or_default();
        *sum = (sum.0.saturating_add(*reserved), sum.1.saturating_add(*refunded));
    }
    let done = sqlx::query!(
        "UPDATE payment p
         SET refund_reserved = p.refund_reserved + t.reserved, refunded = p.refunded + t.refunded, updated_at = $5
         FROM UNNEST($1::SMALLINT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[]) AS t (bucket, pay_no, reserved, refunded)
         WHERE p.bucket = t.bucket AND p.pay_no = t.pay_no",
        &sums.keys().map(|(bucket, _)| *bucket).collect::<Vec<_>>(),
        &sums.keys().map(|(_, number)| (*number).to_owned()).collect::<Vec<_>>(),
        &sums.values().map(|(reserved, _)| *reserved).collect::<Vec<_>>(),
        &sums.values().map(|(_, refunded)| *refunded).collect::<Vec<_>>(),
        now
    )
    .execute(tx)
    .await?;
    if u64::try_from(sums.len()) == Ok(done.rows_affected()) { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
}

/// Keeps the highest running total of refunds that the channel told. True: it is beyond what we know of.
pub(crate) async fn note_refunded_total_in_tx(
    tx: &mut PgConnection,
    number: &PayNo,
    total: i64,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"UPDATE payment SET channel_refunded = GREATEST(channel_refunded, $3)
         WHERE bucket = $1 AND pay_no = $2 RETURNING channel_refunded > refund_reserved AS "beyond!""#,
        number.bucket().as_i16(),
        number.as_str(),
        total
    )
    .fetch_one(tx)
    .await
}
