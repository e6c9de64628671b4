//! Gate 8, the second guard: a fact is booked once, because its key is unique among the entries and is never purged.
//!
//! One batch is three statements: accounts, then entries with their postings, then balances. Each takes its rows in the
//! order of their keys, and all batches take the tables in this order, so no two batches can wait for each other in a
//! ring. Balances move only for entries that this batch really inserted. The caller's transaction holds it all.

use service_kit::switch::kill_point;
use sqlx::PgConnection;

use crate::{EntryId, NewEntry, Shard, balance, store};

/// Why a batch was not booked. Nothing of it is, once the caller has rolled back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Ask `service_kit::pg` whether to run it again, to wait, or to give up.
    #[error("the ledger database refused the batch or could not be asked")]
    Store(#[from] sqlx::Error),
    /// Book fewer entries at once.
    #[error("the amounts of one batch add up to more than 64 bits hold")]
    Overflow,
    /// A fault of ours or of the schema: stop and look.
    #[error("a statement on {table} wrote {found} rows instead of {wanted}")]
    RowCount { table: &'static str, wanted: usize, found: u64 },
}

/// What became of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Posted {
    /// Booked now, under this number.
    First(EntryId),
    /// The books had this fact already; nothing was done.
    Replayed,
}

/// Books a batch in the caller's transaction. Answers stand in the order of `entries`; of equal keys in one batch the
/// first one is booked.
///
/// # Errors
/// [`Error`]; the caller rolls back.
pub async fn post_in_tx(
    tx: &mut PgConnection,
    shard: Shard,
    entries: &[NewEntry],
) -> Result<Vec<Posted>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    store::account::ensure_in_tx(tx, accounts(entries)).await?;
    kill_point("ledger.post.after_accounts");
    let posted = store::entry::insert_entries_in_tx(tx, entries).await?;
    kill_point("ledger.post.after_entries");
    let first = entries.iter().zip(&posted).filter(|(_, posted)| matches!(posted, Posted::First(_)));
    let changes = balance::changes(first.map(|(entry, _)| &entry.body)).ok_or(Error::Overflow)?;
    store::balance::add_in_tx(tx, shard, &changes).await?;
    kill_point("ledger.post.after_balances");
    Ok(posted)
}

fn accounts(entries: &[NewEntry]) -> impl Iterator<Item = &crate::Account> {
    entries.iter().flat_map(|entry| entry.body.postings()).map(|posting| &posting.account)
}
