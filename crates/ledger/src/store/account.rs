//! Accounts, made when first needed.

use std::collections::BTreeMap;

use sqlx::PgConnection;

use crate::Account;

/// Makes the accounts that are missing, in the order of their codes: two batches that need the same new accounts wait
/// for each other in one order only.
///
/// # Errors
/// Database errors.
pub async fn ensure_in_tx(
    tx: &mut PgConnection,
    accounts: impl Iterator<Item = &Account>,
) -> Result<(), sqlx::Error> {
    let accounts: BTreeMap<_, _> = accounts.map(|account| (account.code(), account)).collect();
    let (mut codes, mut types, mut currencies, mut sides) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for account in accounts.values() {
        let line = account.kind().line();
        codes.push(account.code().as_str().to_owned());
        types.push(line.account_type.as_str().to_owned());
        currencies.push(account.currency().code().to_owned());
        sides.push(line.normal_side.as_str().to_owned());
    }
    // Any number of rows is right: zero once all accounts are known, which is nearly always.
    sqlx::query!(
        "INSERT INTO account (code, type, currency, normal_side)
         SELECT * FROM UNNEST($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[]) AS a (code, type, currency, side)
         ORDER BY a.code
         ON CONFLICT (code) DO NOTHING",
        &codes,
        &types,
        &currencies,
        &sides
    )
    .execute(tx)
    .await?;
    Ok(())
}
