//! `ListEntries`: newest first, paged, all filters that are given.

use contract::ledger::{ListEntriesRequest, ListEntriesResponse};
use contract::validate;
use ledger::EntryId;
use ledger::store::report;
use ledger::store::report::entry::Filter;
use pay_types::Invalid;

use super::{Books, convert, page};
use crate::Error;

pub(super) async fn handle(books: &Books, request: ListEntriesRequest) -> Result<ListEntriesResponse, Error> {
    let size = page::size(request.page_size)?;
    let before = page::after(&request.page_token)?;
    let before = before.map(|key| key.parse().map(EntryId::new).map_err(|_| page::wrong())).transpose()?;
    let filter = Filter {
        pay_no: convert::text("pay_no", request.pay_no)?,
        merchant_id: convert::text("merchant_id", request.merchant_id)?,
        order_no: convert::text("order_no", request.order_no)?,
        account_code: convert::text("account_code", request.account_code)?,
    };
    if filter.order_no.is_some() && filter.merchant_id.is_none() {
        // An order number means something to its merchant only, and the index begins with the merchant.
        let invalid = Invalid::new("merchant_id", "is needed with order_no");
        return Err(validate::invalid(invalid).into());
    }
    let mut connection = books.pool.acquire().await?;
    let mut rows = report::entry::page(&mut connection, &filter, before, size.saturating_add(1)).await?;
    let next_page_token = page::cut(&mut rows, size, |row| row.entry_id.get().to_string());
    Ok(ListEntriesResponse { entries: rows.into_iter().map(convert::entry).collect(), next_page_token })
}
