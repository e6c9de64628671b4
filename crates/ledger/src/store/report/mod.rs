//! What finance reads. Each function is one or two statements, and each answer comes from one snapshot.
//!
//! Rows are given as they are stored: a report shows history, and does not judge it by today's rules.

pub mod account;
pub mod balance;
pub mod entry;
pub mod health;

use time::OffsetDateTime;

use crate::{AccountType, Side};

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Ask `service_kit::pg` whether to wait.
    #[error("the ledger database could not be read")]
    Store(#[from] sqlx::Error),
    /// The schema's own checks were passed by: a person must look.
    #[error("{column} of {row} cannot be read: {rule}")]
    Unreadable { column: &'static str, row: String, rule: &'static str },
    /// Ask for less.
    #[error("the report has more than {rows_max} rows")]
    TooLarge { rows_max: usize },
    /// A total beyond 64 bits; it is refused, not wrapped.
    #[error("a total of {currency} does not fit 64 bits")]
    Overflow { currency: String },
}

/// Which clock a time in the past goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// When an entry was booked.
    Posted,
    /// When its fact happened by the channel's clock.
    Occurred,
}

/// Up to and including a time.
#[derive(Debug, Clone, Copy)]
pub struct AsOf {
    pub at: OffsetDateTime,
    pub basis: Basis,
}

/// An account as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRow {
    pub code: String,
    pub account_type: AccountType,
    pub currency: String,
    pub normal_side: Side,
}

impl AccountRow {
    fn read(code: String, account_type: &str, currency: String, normal_side: &str) -> Result<Self, Error> {
        let unreadable = |invalid: pay_types::Invalid| Error::Unreadable {
            column: invalid.field,
            row: code.clone(),
            rule: invalid.rule,
        };
        let account_type = account_type.parse().map_err(unreadable)?;
        let normal_side = normal_side.parse().map_err(unreadable)?;
        Ok(Self { code, account_type, currency, normal_side })
    }
}

/// A limit as SQL takes it.
fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
