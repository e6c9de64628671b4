//! Balances now, from the running totals, and as of a time, from the postings themselves.
//!
//! Limit: a balance as of a time reads every posting of its account, and a trial balance as of a time every posting there
//! is. Limit: an entry carries the time at which its transaction began, so that an answer *as of* the last seconds may
//! still grow by a batch that was in hand; older answers are final.
//!
//! `SUM` of `BIGINT` is `NUMERIC` in PostgreSQL; the cast back is refused by the database when it does not fit.

use sqlx::PgConnection;

use super::{AccountRow, AsOf, Basis, Error, limit};
use crate::{AccountCode, Side};

/// Totals of one account, minor units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountBalance {
    pub account: AccountRow,
    pub debit: i64,
    pub credit: i64,
    /// On the account's normal side: debits less credits, or credits less debits.
    pub balance: i64,
}

/// Totals of one currency, minor units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrencyTotal {
    pub currency: String,
    pub debit: i64,
    pub credit: i64,
    /// Debits less credits: zero, or the books are wrong.
    pub difference: i64,
}

/// All accounts and the proof below them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialBalance {
    /// By code.
    pub lines: Vec<AccountBalance>,
    /// By currency.
    pub totals: Vec<CurrencyTotal>,
}

struct Row {
    code: String,
    account_type: String,
    currency: String,
    normal_side: String,
    debit: i64,
    credit: i64,
}

impl Row {
    fn read(self) -> Result<AccountBalance, Error> {
        let account = AccountRow::read(self.code, &self.account_type, self.currency, &self.normal_side)?;
        let balance = match account.normal_side {
            Side::Debit => self.debit.checked_sub(self.credit),
            Side::Credit => self.credit.checked_sub(self.debit),
        };
        let balance = balance.ok_or_else(|| Error::Overflow { currency: account.currency.clone() })?;
        Ok(AccountBalance { account, debit: self.debit, credit: self.credit, balance })
    }
}

/// Balance of one account; `None` when there is no such account.
///
/// # Errors
/// [`Error`].
pub async fn of_account(
    conn: &mut PgConnection,
    code: &AccountCode,
    as_of: Option<AsOf>,
) -> Result<Option<AccountBalance>, Error> {
    let row = match as_of {
        None => sqlx::query_as!(
            Row,
            r#"SELECT a.code, a.type AS account_type, a.currency, a.normal_side,
                      COALESCE(SUM(b.debit), 0)::BIGINT AS "debit!", COALESCE(SUM(b.credit), 0)::BIGINT AS "credit!"
               FROM account a
               LEFT JOIN account_balance b ON b.account_code = a.code
               WHERE a.code = $1
               GROUP BY a.code"#,
            code.as_str()
        )
        .fetch_optional(conn)
        .await?,
        Some(AsOf { at, basis }) => sqlx::query_as!(
            Row,
            r#"SELECT a.code, a.type AS account_type, a.currency, a.normal_side,
                      COALESCE(SUM(p.amount) FILTER (WHERE p.side = 'D'), 0)::BIGINT AS "debit!",
                      COALESCE(SUM(p.amount) FILTER (WHERE p.side = 'C'), 0)::BIGINT AS "credit!"
               FROM account a
               LEFT JOIN (posting p JOIN entry e
                          ON e.entry_id = p.entry_id AND CASE WHEN $3 THEN e.occurred_at ELSE e.posted_at END <= $2)
                 ON p.account_code = a.code
               WHERE a.code = $1
               GROUP BY a.code"#,
            code.as_str(),
            at,
            basis == Basis::Occurred
        )
        .fetch_optional(conn)
        .await?,
    };
    row.map(Row::read).transpose()
}

/// The trial balance, if it has at most `lines_max` accounts.
///
/// # Errors
/// [`Error`].
pub async fn trial(
    conn: &mut PgConnection,
    as_of: Option<AsOf>,
    lines_max: usize,
) -> Result<TrialBalance, Error> {
    let rows_wanted = limit(lines_max.saturating_add(1));
    let rows = match as_of {
        None => sqlx::query_as!(
            Row,
            r#"SELECT a.code, a.type AS account_type, a.currency, a.normal_side,
                      COALESCE(SUM(b.debit), 0)::BIGINT AS "debit!", COALESCE(SUM(b.credit), 0)::BIGINT AS "credit!"
               FROM account a
               LEFT JOIN account_balance b ON b.account_code = a.code
               GROUP BY a.code
               ORDER BY a.code
               LIMIT $1"#,
            rows_wanted
        )
        .fetch_all(conn)
        .await?,
        Some(AsOf { at, basis }) => sqlx::query_as!(
            Row,
            r#"SELECT a.code, a.type AS account_type, a.currency, a.normal_side,
                      COALESCE(SUM(p.amount) FILTER (WHERE p.side = 'D'), 0)::BIGINT AS "debit!",
                      COALESCE(SUM(p.amount) FILTER (WHERE p.side = 'C'), 0)::BIGINT AS "credit!"
               FROM account a
               LEFT JOIN (posting p JOIN entry e
                          ON e.entry_id = p.entry_id AND CASE WHEN $2 THEN e.occurred_at ELSE e.posted_at END <= $1)
                 ON p.account_code = a.code
               GROUP BY a.code
               ORDER BY a.code
               LIMIT $3"#,
            at,
            basis == Basis::Occurred,
            rows_wanted
        )
        .fetch_all(conn)
        .await?,
    };
    if rows.len() > lines_max {
        return Err(Error::TooLarge { rows_max: lines_max });
    }
    let lines = rows.into_iter().map(Row::read).collect::<Result<Vec<_>, _>>()?;
    let totals = totals(&lines)?;
    Ok(TrialBalance { lines, totals })
}

fn totals(lines: &[AccountBalance]) -> Result<Vec<CurrencyTotal>, Error> {
    let mut sums = std::collections::BTreeMap::<&str, (i64, i64)>::new();
    for line in lines {
        let (debit, credit) = sums.entry(&line.account.currency).or_default();
        let overflow = || Error::Overflow { currency: line.account.currency.clone() };
        *debit = debit.checked_add(line.debit).ok_or_else(overflow)?;
        *credit = credit.checked_add(line.credit).ok_or_else(overflow)?;
    }
    sums.into_iter()
        .map(|(currency, (debit, credit))| {
            let currency = currency.to_owned();
            match debit.checked_sub(credit) {
                Some(difference) => Ok(CurrencyTotal { currency, debit, credit, difference }),
                None => Err(Error::Overflow { currency }),
            }
        })
        .collect()
}
