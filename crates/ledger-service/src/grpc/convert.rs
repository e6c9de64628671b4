//! Books on the wire.

use contract::ledger as wire;
use contract::reason::Refusal;
use contract::{timestamp, to_offset_date_time, validate};
use ledger::store::report::balance::AccountBalance;
use ledger::store::report::entry::BookedEntry;
use ledger::store::report::{AccountRow, AsOf, Basis};
use ledger::{AccountType, Side};
use pay_types::Invalid;
use time::OffsetDateTime;

pub(super) fn account(row: AccountRow) -> wire::Account {
    let account_type = match row.account_type {
        AccountType::Asset => wire::AccountType::Asset,
        AccountType::Liability => wire::AccountType::Liability,
        AccountType::Income => wire::AccountType::Income,
        AccountType::Expense => wire::AccountType::Expense,
    };
    wire::Account {
        code: row.code,
        r#type: account_type.into(),
        currency: row.currency,
        normal_side: side(row.normal_side).into(),
    }
}

pub(super) fn balance(row: AccountBalance) -> wire::Balance {
    wire::Balance {
        account: Some(account(row.account)),
        debit: row.debit,
        credit: row.credit,
        balance: row.balance,
    }
}

pub(super) fn entry(entry: BookedEntry) -> wire::Entry {
    let posting = |posting: ledger::store::report::entry::BookedPosting| wire::Posting {
        line_no: posting.line_no.into(),
        account_code: posting.account_code,
        side: side(posting.side).into(),
        amount: posting.amount,
        currency: posting.currency,
    };
    wire::Entry {
        entry_id: entry.entry_id.get(),
        msg_key: entry.msg_key,
        kind: entry.kind,
        merchant_id: entry.merchant_id,
        order_no: entry.order_no,
        pay_no: entry.pay_no,
        refund_no: entry.refund_no.unwrap_or_default(),
        occurred_at: Some(timestamp(entry.occurred_at)),
        posted_at: Some(timestamp(entry.posted_at)),
        postings: entry.postings.into_iter().map(posting).collect(),
    }
}

fn side(side: Side) -> wire::Side {
    match side {
        Side::Debit => wire::Side::Debit,
        Side::Credit => wire::Side::Credit,
    }
}

pub(super) fn basis(value: i32) -> Result<Basis, Refusal> {
    match wire::TimeBasis::try_from(value) {
        Ok(wire::TimeBasis::Unspecified | wire::TimeBasis::Posted) => Ok(Basis::Posted),
        Ok(wire::TimeBasis::Occurred) => Ok(Basis::Occurred),
        Err(_) => Err(validate::invalid(Invalid::new("basis", "must be POSTED or OCCURRED"))),
    }
}

pub(super) fn time(
    field: &'static str,
    value: Option<&prost_types::Timestamp>,
) -> Result<Option<OffsetDateTime>, Refusal> {
    let read = |value| {
        // The wire's own range begins with year 1; PostgreSQL's calendar does not reach as far back as `time`'s.
        to_offset_date_time(value)
            .filter(|at| at.year() >= 1)
            .ok_or_else(|| validate::invalid(Invalid::new(field, "must be a time of the calendar")))
    };
    value.map(read).transpose()
}

pub(super) fn as_of(value: Option<&prost_types::Timestamp>, by: i32) -> Result<Option<AsOf>, Refusal> {
    let basis = basis(by)?;
    Ok(time("as_of", value)?.map(|at| AsOf { at, basis }))
}

/// Text that may stand in a statement: PostgreSQL's texts hold no NUL.
pub(super) fn text(field: &'static str, value: String) -> Result<Option<String>, Refusal> {
    if value.contains('\0') {
        return Err(validate::invalid(Invalid::new(field, "must not contain NUL")));
    }
    Ok(Some(value).filter(|value| !value.is_empty()))
}
