//! Accounts by code.

use sqlx::PgConnection;

use super::{AccountRow, Error, limit};

/// At most `rows_max` accounts whose codes begin with `prefix` and come after `after`, by code.
///
/// # Errors
/// [`Error`].
pub async fn page(
    conn: &mut PgConnection,
    prefix: &str,
    after: Option<&str>,
    rows_max: usize,
) -> Result<Vec<AccountRow>, Error> {
    let rows = sqlx::query!(
        "SELECT code, type AS account_type, currency, normal_side
         FROM account
         WHERE starts_with(code, $1) AND code > $2
         ORDER BY code
         LIMIT $3",
        prefix,
        after.unwrap_or_default(),
        limit(rows_max)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| AccountRow::read(row.code, &row.account_type, row.currency, &row.normal_side))
        .collect()
}
