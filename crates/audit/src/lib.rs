#![doc = include_str!("../README.md")]

mod books;
mod invariant;

use sqlx::PgPool;

pub use books::COMPARISONS;
pub use invariant::{Database, INVARIANTS, Invariant};

/// Rows of one finding that are told; the count tells how many there are.
pub const ROWS_TOLD_MAX: usize = 20;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Number of the invariant.
    pub number: u8,
    /// What should hold.
    pub rule: &'static str,
    /// Keys of rows that break it, at most [`ROWS_TOLD_MAX`].
    pub rows: Vec<String>,
}

/// Why an audit could not be made. It says nothing about the data.
#[derive(Debug, thiserror::Error)]
#[error("the audit could not read {database:?}")]
pub struct Error {
    database: Database,
    #[source]
    source: sqlx::Error,
}

impl Error {
    pub(crate) fn of(database: Database) -> impl Fn(sqlx::Error) -> Self {
        move |source| Self { database, source }
    }
}

/// Checks every invariant; an empty list is a clean audit. Events that still wait in the outbox or in the broker are shown
/// as not booked: let the queues run empty first.
///
/// # Errors
/// When a database cannot be read.
pub async fn audit(payment: &PgPool, ledger: &PgPool) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    for invariant in INVARIANTS {
        let pool = match invariant.database {
            Database::Payment => payment,
            Database::Ledger => ledger,
        };
        let rows: Vec<String> = sqlx::query_scalar(invariant.query)
            .fetch_all(pool)
            .await
            .map_err(Error::of(invariant.database))?;
        keep(&mut findings, invariant.number, invariant.rule, rows);
    }
    for ((number, rule), rows) in COMPARISONS.into_iter().zip(books::compare(payment, ledger).await?) {
        keep(&mut findings, number, rule, rows);
    }
    Ok(findings)
}

fn keep(findings: &mut Vec<Finding>, number: u8, rule: &'static str, mut rows: Vec<String>) {
    if rows.is_empty() {
        return;
    }
    rows.truncate(ROWS_TOLD_MAX);
    findings.push(Finding { number, rule, rows });
}
