//! Every SQL statement of the books.

pub mod account;
pub mod balance;
pub mod entry;
pub mod report;

/// Compares a statement's row count with what it must be.
fn expect_rows(table: &'static str, found: u64, wanted: usize) -> Result<(), crate::Error> {
    if u64::try_from(wanted) == Ok(found) {
        Ok(())
    } else {
        Err(crate::Error::RowCount { table, wanted, found })
    }
}
