//! What can keep order-api from starting or serving. Errors to callers are `contract::reason::Refusal`s.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is wrong; the text says which.
    #[error("the service cannot start: {0}")]
    Start(String),
    #[error("the gRPC transport failed")]
    Transport(#[from] tonic::transport::Error),
    #[error("an address cannot be bound")]
    Bind(#[from] std::io::Error),
}
