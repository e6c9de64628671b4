//! `GetBalance`: one account, now or as of a time.

use contract::ledger::{GetBalanceRequest, GetBalanceResponse};
use contract::reason::{Reason, Refusal};
use contract::validate;
use ledger::AccountCode;
use ledger::store::report;

use super::{Books, convert};
use crate::Error;

pub(super) async fn handle(books: &Books, request: GetBalanceRequest) -> Result<GetBalanceResponse, Error> {
    let code: AccountCode = request.account_code.parse().map_err(validate::invalid)?;
    let as_of = convert::as_of(request.as_of.as_ref(), request.basis)?;
    let mut connection = books.pool.acquire().await?;
    let found = report::balance::of_account(&mut connection, &code, as_of).await?;
    let balance = found.ok_or_else(|| {
        Refusal::new(
            Reason::AccountNotFound,
            "no account has this code; ListAccounts shows those that there are",
        )
    })?;
    Ok(GetBalanceResponse { balance: Some(convert::balance(balance)) })
}
