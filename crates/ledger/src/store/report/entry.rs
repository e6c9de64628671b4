//! Entries with their postings: pages, single ones, and periods.

use sqlx::PgConnection;
use time::OffsetDateTime;

use super::{Basis, Error, limit};
use crate::{EntryId, Side};

/// An entry as stored, with its postings in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookedEntry {
    pub entry_id: EntryId,
    pub msg_key: String,
    pub kind: String,
    pub merchant_id: String,
    pub order_no: String,
    pub pay_no: String,
    pub refund_no: Option<String>,
    pub occurred_at: OffsetDateTime,
    pub posted_at: OffsetDateTime,
    pub postings: Vec<BookedPosting>,
}

/// A posting as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookedPosting {
    pub line_no: i16,
    pub account_code: String,
    pub side: Side,
    pub amount: i64,
    pub currency: String,
}

/// What a page is to hold; all that are given must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub pay_no: Option<String>,
    pub merchant_id: Option<String>,
    pub order_no: Option<String>,
    pub account_code: Option<String>,
}

/// At most `rows_max` entries before `before`, newest first.
///
/// The statements hold all filters at once and lean on being planned for their parameters: the caller's connections
/// set `plan_cache_mode = force_custom_plan`.
///
/// # Errors
/// [`Error`].
pub async fn page(
    conn: &mut PgConnection,
    filter: &Filter,
    before: Option<EntryId>,
    rows_max: usize,
) -> Result<Vec<BookedEntry>, Error> {
    let before = before.map_or(i64::MAX, EntryId::get);
    let ids = match &filter.account_code {
        None => {
            sqlx::query_scalar!(
                "SELECT e.entry_id
             FROM entry e
             WHERE e.entry_id < $1
               AND ($2::TEXT IS NULL OR e.pay_no = $2)
               AND ($3::TEXT IS NULL OR e.merchant_id = $3)
               AND ($4::TEXT IS NULL OR e.order_no = $4)
             ORDER BY e.entry_id DESC
             LIMIT $5",
                before,
                filter.pay_no.as_deref(),
                filter.merchant_id.as_deref(),
                filter.order_no.as_deref(),
                limit(rows_max)
            )
            .fetch_all(&mut *conn)
            .await?
        }
        // From the postings, because an account's entries lie together there.
        Some(account_code) => {
            sqlx::query_scalar!(
                "SELECT DISTINCT p.entry_id
             FROM posting p
             JOIN entry e USING (entry_id)
             WHERE p.account_code = $6 AND p.entry_id < $1
               AND ($2::TEXT IS NULL OR e.pay_no = $2)
               AND ($3::TEXT IS NULL OR e.merchant_id = $3)
               AND ($4::TEXT IS NULL OR e.order_no = $4)
             ORDER BY p.entry_id DESC
             LIMIT $5",
                before,
                filter.pay_no.as_deref(),
                filter.merchant_id.as_deref(),
                filter.order_no.as_deref(),
                limit(rows_max),
                account_code
            )
            .fetch_all(&mut *conn)
            .await?
        }
    };
    load(conn, &ids).await
}

/// One entry by number.
///
/// # Errors
/// [`Error`].
pub async fn by_id(conn: &mut PgConnection, entry_id: EntryId) -> Result<Option<BookedEntry>, Error> {
    Ok(load(conn, &[entry_id.get()]).await?.pop())
}

/// One entry by its fact's key.
///
/// # Errors
/// [`Error`].
pub async fn by_msg_key(conn: &mut PgConnection, msg_key: &str) -> Result<Option<BookedEntry>, Error> {
    let id = sqlx::query_scalar!("SELECT entry_id FROM entry WHERE msg_key = $1", msg_key)
        .fetch_optional(&mut *conn)
        .await?;
    match id {
        Some(id) => by_id(conn, EntryId::new(id)).await,
        None => Ok(None),
    }
}

/// A period, by one of the clocks.
#[derive(Debug, Clone, Copy)]
pub struct Period {
    /// First time that belongs to it.
    pub from: OffsetDateTime,
    /// First time that no longer does.
    pub until: OffsetDateTime,
    pub basis: Basis,
}

/// Where in a period the next chunk begins.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    at: OffsetDateTime,
    entry_id: EntryId,
}

/// At most `rows_max` entries of a period after `after`, oldest first, and the place after them.
///
/// # Errors
/// [`Error`].
pub async fn chunk(
    conn: &mut PgConnection,
    period: Period,
    after: Option<Place>,
    rows_max: usize,
) -> Result<(Vec<BookedEntry>, Option<Place>), Error> {
    let Place { at, entry_id } =
        after.unwrap_or_else(|| Place { at: period.from, entry_id: EntryId::new(i64::MIN) });
    let ids = match period.basis {
        Basis::Posted => {
            sqlx::query_scalar!(
                "SELECT entry_id
             FROM entry
             WHERE (posted_at, entry_id) > ($1, $2) AND posted_at < $3
             ORDER BY posted_at, entry_id
             LIMIT $4",
                at,
                entry_id.get(),
                period.until,
                limit(rows_max)
            )
            .fetch_all(&mut *conn)
            .await?
        }
        Basis::Occurred => {
            sqlx::query_scalar!(
                "SELECT entry_id
             FROM entry
             WHERE (occurred_at, entry_id) > ($1, $2) AND occurred_at < $3
             ORDER BY occurred_at, entry_id
             LIMIT $4",
                at,
                entry_id.get(),
                period.until,
                limit(rows_max)
            )
            .fetch_all(&mut *conn)
            .await?
        }
    };
    let entries = load(conn, &ids).await?;
    let place = entries.last().map(|entry| Place {
        at: match period.basis {
            Basis::Posted => entry.posted_at,
            Basis::Occurred => entry.occurred_at,
        },
        entry_id: entry.entry_id,
    });
    Ok((entries, place))
}

/// The entries with these numbers, in their order. Entries never change, so a second statement sees what the first saw.
async fn load(conn: &mut PgConnection, ids: &[i64]) -> Result<Vec<BookedEntry>, Error> {
    let rows = sqlx::query!(
        r#"SELECT e.entry_id, e.msg_key, e.kind, e.merchant_id, e.order_no, e.pay_no, e.refund_no,
                  e.occurred_at, e.posted_at, p.line_no, p.account_code, p.side, p.amount, p.currency
           FROM UNNEST($1::BIGINT[]) WITH ORDINALITY AS wanted (entry_id, place)
           JOIN entry e USING (entry_id)
           JOIN posting p USING (entry_id)
           ORDER BY wanted.place, p.line_no"#,
        ids
    )
    .fetch_all(conn)
    .await?;
    let mut entries: Vec<BookedEntry> = Vec::with_capacity(ids.len());
    for row in rows {
        let side = row.side.parse().map_err(|invalid: pay_types::Invalid| Error::Unreadable {
            column: invalid.field,
            row: format!("entry {}", row.entry_id),
            rule: invalid.rule,
        })?;
        let posting = BookedPosting {
            line_no: row.line_no,
            account_code: row.account_code,
            side,
            amount: row.amount,
            currency: row.currency,
        };
        let entry_id = EntryId::new(row.entry_id);
        match entries.last_mut().filter(|entry| entry.entry_id == entry_id) {
            Some(entry) => entry.postings.push(posting),
            None => entries.push(BookedEntry {
                entry_id,
                msg_key: row.msg_key,
                kind: row.kind,
                merchant_id: row.merchant_id,
                order_no: row.order_no,
                pay_no: row.pay_no,
                refund_no: row.refund_no,
                occurred_at: row.occurred_at,
                posted_at: row.posted_at,
                postings: vec![posting],
            }),
        }
    }
    Ok(entries)
}
