//! Every SQL statement of the relay.

mod lag;
mod outbox;
mod session;

use std::future::Future;
use std::time::Duration;

pub(crate) use lag::{Lag, lag};
pub(crate) use outbox::{Event, Parked, Snapshot, delete, park, read};
pub(crate) use session::{SHARDS, Session};

use crate::Error;

/// Longest wait for an answer: a little more than the server lets a statement run, so that this speaks only of a server or
/// a network that is silent.
const ANSWER_MAX: Duration = Duration::from_secs(12);

/// A row of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) bucket: i16,
    pub(crate) event_id: i64,
    pub(crate) shard: i16,
}

/// Waits for an answer of the database within the limit.
async fn within<T>(answer: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::Silent { seconds: ANSWER_MAX.as_secs() }),
    }
}
