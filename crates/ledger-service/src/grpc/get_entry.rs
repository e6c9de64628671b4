//! `GetEntry`: by number or by the fact's key.

use contract::ledger::get_entry_request::By;
use contract::ledger::{GetEntryRequest, GetEntryResponse};
use contract::reason::{Reason, Refusal};
use contract::validate;
use ledger::EntryId;
use ledger::store::report;
use pay_types::Invalid;

use super::{Books, convert};
use crate::Error;

pub(super) async fn handle(books: &Books, request: GetEntryRequest) -> Result<GetEntryResponse, Error> {
    let mut connection = books.pool.acquire().await?;
    let found = match request.by {
        Some(By::EntryId(id)) => report::entry::by_id(&mut connection, EntryId::new(id)).await?,
        Some(By::MsgKey(key)) => {
            let key = convert::text("msg_key", key)?.unwrap_or_default();
            report::entry::by_msg_key(&mut connection, &key).await?
        }
        None => return Err(validate::invalid(Invalid::new("by", "must be entry_id or msg_key")).into()),
    };
    let entry =
        found.ok_or_else(|| Refusal::new(Reason::EntryNotFound, "no entry has this number or key"))?;
    Ok(GetEntryResponse { entry: Some(convert::entry(entry)) })
}
