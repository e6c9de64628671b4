//! This crate's errors on the wire.

use std::time::Duration;

use contract::reason::{Reason, Refusal};
use ledger::store::report;
use service_kit::pg;
use tonic::Status;

use crate::Error;

/// How long a caller should wait while the database is away: a failover takes seconds.
const DATABASE_RETRY: Duration = Duration::from_millis(500);

/// The status of an error; faults of ours are logged here, once.
pub(super) fn of(error: Error) -> Status {
    match error {
        Error::Refused(refusal) => (*refusal).into(),
        Error::Database(error) | Error::Report(report::Error::Store(error)) if pg::is_unavailable(&error) => {
            tracing::warn!(%error, "the ledger database does not answer");
            Refusal::new(Reason::Unavailable, "the ledger database does not answer; ask again")
                .retry_after(DATABASE_RETRY)
                .into()
        }
        Error::Report(report::Error::TooLarge { rows_max }) => Refusal::new(
            Reason::Overloaded,
            format!("the trial balance has more than {rows_max} accounts; read them by ListAccounts and GetBalance"),
        )
        .into(),
        error @ (Error::Report(_) | Error::Database(_) | Error::Start(_) | Error::Transport(_) | Error::Bind(_)) => {
            tracing::error!(?error, "a report failed by a fault of ours");
            Refusal::new(Reason::Internal, "a fault of ours; ask again, and tell us if it stays").into()
        }
    }
}
