//! Entries and their postings, which are written together and never again.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;
use time::OffsetDateTime;

use super::expect_rows;
use crate::{EntryId, Error, MsgKey, NewEntry, Posted};

/// The batch's columns, as `UNNEST` takes them.
#[derive(Default)]
struct Columns {
    msg_keys: Vec<String>,
    kinds: Vec<String>,
    merchant_ids: Vec<String>,
    order_nos: Vec<String>,
    pay_nos: Vec<String>,
    /// Empty where there is none: an array of texts holds no NULL.
    refund_nos: Vec<String>,
    occurred_ats: Vec<OffsetDateTime>,
    lines: Lines,
}

#[derive(Default)]
struct Lines {
    msg_keys: Vec<String>,
    line_nos: Vec<i16>,
    account_codes: Vec<String>,
    sides: Vec<String>,
    amounts: Vec<i64>,
    currencies: Vec<String>,
}

impl Columns {
    /// The first entry of each key: a second one in the same statement would bring its postings under the first one.
    fn of(entries: &[NewEntry]) -> Self {
        let mut columns = Self::default();
        let mut known = HashSet::new();
        for entry in entries {
            if known.insert(&entry.msg_key) {
                columns.push(entry);
            }
        }
        columns
    }

    fn push(&mut self, entry: &NewEntry) {
        self.msg_keys.push(entry.msg_key.as_str().to_owned());
        self.kinds.push(entry.kind.as_str().to_owned());
        self.merchant_ids.push(entry.merchant_id.as_str().to_owned());
        self.order_nos.push(entry.order_no.as_str().to_owned());
        self.pay_nos.push(entry.pay_no.as_str().to_owned());
        self.refund_nos.push(entry.refund_no.as_ref().map(|no| no.as_str().to_owned()).unwrap_or_default());
        self.occurred_ats.push(entry.occurred_at);
        for (line_no, posting) in (1_i16..).zip(entry.body.postings()) {
            self.lines.msg_keys.push(entry.msg_key.as_str().to_owned());
            self.lines.line_nos.push(line_no);
            self.lines.account_codes.push(posting.account.code().as_str().to_owned());
            self.lines.sides.push(posting.side.as_str().to_owned());
            self.lines.amounts.push(posting.amount.minor());
            self.lines.currencies.push(posting.amount.currency().code().to_owned());
        }
    }
}

/// Inserts entries whose facts are not in the books yet, each with its postings, in one statement: the triggers refuse
/// an entry whose postings come later. Keys are inserted in their order, so that two batches with the same facts in
/// different orders do not deadlock.
///
/// # Errors
/// Database errors; [`Error::RowCount`] when entries and postings do not match.
pub async fn insert_entries_in_tx(tx: &mut PgConnection, entries: &[NewEntry]) -> Result<Vec<Posted>, Error> {
    let columns = Columns::of(entries);
    let lines = &columns.lines;
    let rows = sqlx::query!(
        r#"WITH fresh AS (
             INSERT INTO entry (msg_key, kind, merchant_id, order_no, pay_no, refund_no, occurred_at)
             SELECT e.msg_key, e.kind, e.merchant_id, e.order_no, e.pay_no, NULLIF(e.refund_no, ''), e.occurred_at
             FROM UNNEST($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::TEXT[], $7::TIMESTAMPTZ[])
               AS e (msg_key, kind, merchant_id, order_no, pay_no, refund_no, occurred_at)
             ORDER BY e.msg_key
             ON CONFLICT (msg_key) DO NOTHING
             RETURNING entry_id, msg_key
           ), lines AS (
             INSERT INTO posting (entry_id, line_no, account_code, side, amount, currency)
             SELECT f.entry_id, l.line_no, l.account_code, l.side, l.amount, l.currency
             FROM UNNEST($8::TEXT[], $9::SMALLINT[], $10::TEXT[], $11::TEXT[], $12::BIGINT[], $13::TEXT[])
               AS l (msg_key, line_no, account_code, side, amount, currency)
             JOIN fresh f USING (msg_key)
             RETURNING entry_id
           )
           SELECT entry_id, msg_key, (SELECT count(*) FROM lines) AS "line_count!" FROM fresh"#,
        &columns.msg_keys,
        &columns.kinds,
        &columns.merchant_ids,
        &columns.order_nos,
        &columns.pay_nos,
        &columns.refund_nos,
        &columns.occurred_ats,
        &lines.msg_keys,
        &lines.line_nos,
        &lines.account_codes,
        &lines.sides,
        &lines.amounts,
        &lines.currencies
    )
    .fetch_all(tx)
    .await?;
    let line_count = rows.first().map_or(0, |row| row.line_count);
    let fresh: HashMap<String, EntryId> =
        rows.into_iter().map(|row| (row.msg_key, EntryId::new(row.entry_id))).collect();
    let posted = answers(entries, fresh);
    let first = entries.iter().zip(&posted).filter(|(_, posted)| matches!(posted, Posted::First(_)));
    let wanted = first.fold(0_usize, |sum, (entry, _)| sum.saturating_add(entry.body.postings().len()));
    expect_rows("posting", u64::try_from(line_count).unwrap_or(u64::MAX), wanted)?;
    Ok(posted)
}

/// Of equal keys the first one gets the number.
fn answers(entries: &[NewEntry], mut fresh: HashMap<String, EntryId>) -> Vec<Posted> {
    let mut answer = |key: &MsgKey| fresh.remove(key.as_str()).map_or(Posted::Replayed, Posted::First);
    entries.iter().map(|entry| answer(&entry.msg_key)).collect()
}
