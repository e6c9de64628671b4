//! `ExportEntries`: a period, oldest first, as a stream. One chunk is in memory at a time, and the next is read only when the
//! caller has taken it.

use std::pin::Pin;

use contract::ledger::{ExportEntriesRequest, ExportEntriesResponse};
use contract::validate;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use ledger::store::report;
use ledger::store::report::entry::{Period, Place};
use pay_types::Invalid;
use sqlx::PgPool;
use tonic::Status;

use super::{Books, convert, status};
use crate::Error;

/// Entries read at one time: about 200 KiB.
const CHUNK_ROWS: usize = 500;

type Entries = Pin<Box<dyn Stream<Item = Result<ExportEntriesResponse, Status>> + Send>>;

pub(super) fn handle(books: &Books, request: &ExportEntriesRequest) -> Result<Entries, Error> {
    let missing = |field| validate::invalid(Invalid::new(field, "is needed"));
    let from = convert::time("from", request.from.as_ref())?.ok_or_else(|| missing("from"))?;
    let until = convert::time("until", request.until.as_ref())?.ok_or_else(|| missing("until"))?;
    if until <= from {
        return Err(validate::invalid(Invalid::new("until", "must be after from")).into());
    }
    let period = Period { from, until, basis: convert::basis(request.basis)? };
    let chunks =
        stream::try_unfold((books.pool.clone(), Next::First), move |(pool, next)| chunk(pool, period, next));
    let entries = chunks.map_ok(|entries| stream::iter(entries.into_iter().map(Ok))).try_flatten();
    Ok(entries.map_err(status::of).boxed())
}

enum Next {
    First,
    After(Place),
    End,
}

type Chunk = Option<(Vec<ExportEntriesResponse>, (PgPool, Next))>;

async fn chunk(pool: PgPool, period: Period, next: Next) -> Result<Chunk, Error> {
    let after = match next {
        Next::First => None,
        Next::After(place) => Some(place),
        Next::End => return Ok(None),
    };
    let mut connection = pool.acquire().await?;
    let (entries, place) = report::entry::chunk(&mut connection, period, after, CHUNK_ROWS).await?;
    drop(connection);
    let next = place.filter(|_| entries.len() == CHUNK_ROWS).map_or(Next::End, Next::After);
    let entries =
        entries.into_iter().map(|entry| ExportEntriesResponse { entry: Some(convert::entry(entry)) });
    Ok(Some((entries.collect(), (pool, next))))
}
