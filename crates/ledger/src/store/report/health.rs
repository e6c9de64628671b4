//! Two numbers that must be zero, cheap enough to be asked every few seconds.

use sqlx::PgConnection;

use super::Error;

/// Debits less credits of each currency, minor units, from the running totals.
///
/// # Errors
/// [`Error`].
pub async fn differences(conn: &mut PgConnection) -> Result<Vec<(String, i64)>, Error> {
    let rows = sqlx::query!(
        r#"SELECT a.currency, (SUM(b.debit) - SUM(b.credit))::BIGINT AS "difference!"
           FROM account_balance b
           JOIN account a ON a.code = b.account_code
           GROUP BY a.currency"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.currency, row.difference)).collect())
}

/// Messages that wait for a person.
///
/// # Errors
/// [`Error`].
pub async fn parked(conn: &mut PgConnection) -> Result<i64, Error> {
    let count =
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM parked_message WHERE state = 'PARKED'"#)
            .fetch_one(conn)
            .await?;
    Ok(count)
}
