//! Why the service could not start or go on.

/// The service's error. What goes wrong with one message or one batch never ends it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Mend the settings.
    #[error("the service cannot be built: {0}")]
    Start(String),
    /// Mend the database address.
    #[error("the database address cannot be read")]
    Database(#[from] sqlx::Error),
    /// Mend the broker addresses.
    #[error("the broker's client cannot be made")]
    Broker(#[from] broker::Error),
    /// Choose another address to listen on.
    #[error("the admin address cannot be bound")]
    Bind(#[from] std::io::Error),
    /// Look for the panic in the log, and start the service again: offsets and books are as they were committed.
    #[error("a worker ended before the shutdown")]
    WorkerEnded,
}
