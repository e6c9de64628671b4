//! What can go wrong in the core. Each variant says what the caller can do; `grpc/status.rs` puts it on the wire.

use pay_types::Invalid;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The answer to the caller is a refusal that the catalogue names; nothing was written for it.
    #[error("refused: {}", .0.message())]
    Refused(Box<contract::reason::Refusal>),
    /// The database, or the way to it, failed. Whether a commit took place is not known: the same key finds out.
    #[error("the payment database failed")]
    Database(#[from] sqlx::Error),
    /// The connection failed while the commit was on its way: whether it took place is not known. The transaction is run
    /// again from its inputs, on another connection, and finds its own rows if it did.
    #[error("the answer to a commit was not heard")]
    CommitUnheard(#[source] sqlx::Error),
    /// No answer came in time, or the database was away: what was done is not known, and the same key finds out.
    #[error("the payment database does not answer")]
    Unanswered,
    /// A stored row breaks a rule of the types: someone wrote past this crate.
    #[error("a stored row is not valid: {0}")]
    Corrupt(Invalid),
    /// An event could not be encoded.
    #[error("an event cannot be encoded")]
    Encode(#[from] serde_json::Error),
    /// A decision kept being overtaken by others.
    #[error("the payment kept changing; ask again")]
    Overtaken,
    /// The service cannot start.
    #[error("the service cannot start: {0}")]
    Start(String),
    #[error("the gRPC transport failed")]
    Transport(#[from] tonic::transport::Error),
    #[error("an address cannot be bound")]
    Bind(#[from] std::io::Error),
}

impl From<contract::reason::Refusal> for Error {
    fn from(refusal: contract::reason::Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl Error {
    /// Whether the database, or the way to it, is what failed.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unanswered => true,
            Self::Database(error) | Self::CommitUnheard(error) => service_kit::pg::is_unavailable(error),
            Self::Refused(_)
            | Self::Corrupt(_)
            | Self::Encode(_)
            | Self::Overtaken
            | Self::Start(_)
            | Self::Transport(_)
            | Self::Bind(_) => false,
        }
    }

    /// Whether running the transaction again from its inputs may help: the database asked for it, or it is not known
    /// whether the commit took place (in which case the second run finds the first one's rows).
    #[must_use]
    pub fn asks_for_another_run(&self) -> bool {
        match self {
            Self::CommitUnheard(_) | Self::Database(sqlx::Error::RowNotFound) => true,
            Self::Database(error) => service_kit::pg::is_conflict(error),
            Self::Refused(_)
            | Self::Unanswered
            | Self::Corrupt(_)
            | Self::Encode(_)
            | Self::Overtaken
            | Self::Start(_)
            | Self::Transport(_)
            | Self::Bind(_) => false,
        }
    }
}
