//! This crate's errors on the wire.

use std::time::Duration;

use contract::reason::{Reason, Refusal};
use service_kit::pg;
use tonic::Status;

use crate::Error;
use crate::store::constraint::JUDGES;

/// How long a caller should wait while the database is away: a failover takes seconds.
const DATABASE_RETRY: Duration = Duration::from_millis(500);
/// How long a caller should wait after a conflict that kept coming.
const CONFLICT_RETRY: Duration = Duration::from_millis(50);

/// The status of an error; faults of ours are logged here, once.
pub(super) fn of(error: Error) -> Status {
    if error.is_unavailable() {
        tracing::warn!(%error, source = std::error::Error::source(&error).map(tracing::field::display), "the payment database does not answer");
        return Refusal::new(
            Reason::Unavailable,
            "the payment database does not answer; send the same key again",
        )
        .retry_after(DATABASE_RETRY)
        .into();
    }
    match error {
        Error::Refused(refusal) => (*refusal).into(),
        Error::Overtaken => busy(),
        Error::Database(sqlx::Error::RowNotFound) => busy(),
        Error::Database(error) if pg::is_conflict(&error) => busy(),
        error @ (Error::Database(_)
        | Error::CommitUnheard(_)
        | Error::Unanswered
        | Error::Corrupt(_)
        | Error::Encode(_)
        | Error::Start(_)
        | Error::Transport(_)
        | Error::Bind(_)) => {
            let judge = judge(&error);
            tracing::error!(?error, judge, "a call failed by a fault of ours");
            Refusal::new(Reason::Internal, "a fault of ours; the same key is safe to send again").into()
        }
    }
}

fn busy() -> Status {
    Refusal::new(Reason::InProgress, "the payment is being worked on; send the same key again")
        .retry_after(CONFLICT_RETRY)
        .into()
}

/// The last guard of the database that a statement met: an alert, since no statement of ours should.
fn judge(error: &Error) -> Option<&'static str> {
    let Error::Database(error) = error else { return None };
    let name = pg::constraint(error)?;
    JUDGES.into_iter().find(|judge| *judge == name)
}
