//! What can go wrong here. Each variant says what the caller can do; `grpc/status.rs` puts it on the wire.

use contract::reason::Refusal;
use ledger::store::report;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is wrong, or what it asks for is not there.
    #[error("refused: {}", .0.message())]
    Refused(Box<Refusal>),
    #[error("the report could not be made")]
    Report(#[from] report::Error),
    #[error("the ledger database failed")]
    Database(#[from] sqlx::Error),
    /// The service cannot start.
    #[error("the service cannot start: {0}")]
    Start(String),
    #[error("the gRPC transport failed")]
    Transport(#[from] tonic::transport::Error),
    #[error("an address cannot be bound")]
    Bind(#[from] std::io::Error),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}
