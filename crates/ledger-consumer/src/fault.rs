//! Who is to blame when a transaction does not commit: another transaction, a message, or nobody that the batch knows.
//!
//! Only the second is parked. Whatever is not known to be a message's fault is waited for, since waiting loses nothing.

use service_kit::pg;

use crate::apply::Error;
use crate::store::parked_message;

/// Why a transaction did not commit.
pub(crate) enum Fault {
    /// Run it again.
    Conflict(sqlx::Error),
    /// A message is to blame.
    Data(String),
    /// None is.
    Wait(Error),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        // A claimed row that kept vanishing: somebody purges the log at this moment.
        if pg::is_conflict(&error) || matches!(error, sqlx::Error::RowNotFound) {
            return Self::Conflict(error);
        }
        match data_fault(&error) {
            Some(detail) => Self::Data(detail),
            None => Self::Wait(Error::Store(error)),
        }
    }
}

impl From<ledger::Error> for Fault {
    fn from(error: ledger::Error) -> Self {
        match error {
            ledger::Error::Store(error) => error.into(),
            ledger::Error::Overflow => Self::Data(error.to_string()),
            ledger::Error::RowCount { .. } => Self::Wait(Error::Post(error)),
        }
    }
}

impl From<parked_message::Error> for Fault {
    fn from(error: parked_message::Error) -> Self {
        match error {
            parked_message::Error::Store(error) => match error.into() {
                // Rows for parking are made to be accepted: no message is to blame, and taking the batch apart is no help.
                Self::Data(detail) => Self::Wait(Error::Store(sqlx::Error::Protocol(detail))),
                fault @ (Self::Conflict(_) | Self::Wait(_)) => fault,
            },
            parked_message::Error::PlaceTaken { .. } => Self::Wait(Error::Park(error)),
        }
    }
}

/// The database's refusal of the data itself: bad data (22), a broken constraint (23), beyond a limit (54). Anything else
/// (a missing grant, a missing table, a server that shuts down) is no message's fault.
fn data_fault(error: &sqlx::Error) -> Option<String> {
    let error = error.as_database_error()?;
    let code = error.code()?;
    let data = ["22", "23", "54"].iter().any(|class| code.starts_with(class));
    data.then(|| match error.constraint() {
        Some(constraint) => format!("the ledger database refused it by {constraint} ({code})"),
        None => format!("the ledger database refused it ({code})"),
    })
}
