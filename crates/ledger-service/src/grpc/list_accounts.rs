//! `ListAccounts`: by code, paged.

use contract::ledger::{ListAccountsRequest, ListAccountsResponse};
use ledger::store::report;

use super::{Books, convert, page};
use crate::Error;

pub(super) async fn handle(
    books: &Books,
    request: ListAccountsRequest,
) -> Result<ListAccountsResponse, Error> {
    let size = page::size(request.page_size)?;
    let after = page::after(&request.page_token)?;
    let prefix = convert::text("code_prefix", request.code_prefix)?.unwrap_or_default();
    let mut connection = books.pool.acquire().await?;
    let mut rows =
        report::account::page(&mut connection, &prefix, after.as_deref(), size.saturating_add(1)).await?;
    let next_page_token = page::cut(&mut rows, size, |row| row.code.clone());
    Ok(ListAccountsResponse { accounts: rows.into_iter().map(convert::account).collect(), next_page_token })
}
