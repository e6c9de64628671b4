//! Running totals: one row for each account and shard.

use sqlx::PgConnection;

use super::expect_rows;
use crate::{BalanceChange, Error, Shard};

/// Adds a batch's changes, each to its account's row of this shard. Rows are taken in the order of account and shard, so
/// two batches never deadlock. An account must not come twice.
///
/// # Errors
/// Database errors, among them an overflow of a total (22003); [`Error::RowCount`].
pub async fn add_in_tx(tx: &mut PgConnection, shard: Shard, changes: &[BalanceChange]) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let codes: Vec<String> = changes.iter().map(|change| change.code.as_str().to_owned()).collect();
    let debits: Vec<i64> = changes.iter().map(|change| change.debit).collect();
    let credits: Vec<i64> = changes.iter().map(|change| change.credit).collect();
    let done = sqlx::query!(
        "INSERT INTO account_balance AS b (account_code, shard, debit, credit)
         SELECT c.account_code, $2, c.debit, c.credit
         FROM UNNEST($1::TEXT[], $3::BIGINT[], $4::BIGINT[]) AS c (account_code, debit, credit)
         ORDER BY c.account_code
         ON CONFLICT (account_code, shard) DO UPDATE
         SET debit = b.debit + EXCLUDED.debit, credit = b.credit + EXCLUDED.credit",
        &codes,
        shard.as_i16(),
        &debits,
        &credits
    )
    .execute(tx)
    .await?;
    expect_rows("account_balance", done.rows_affected(), changes.len())
}
