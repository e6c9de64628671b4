//! Why a round of the relay, or the service, failed.

/// What stopped the work. Rows that were not deleted are published again, by this relay or another.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed, or the way to it: connect again. Locks are gone with the connection, and with them the right to
    /// publish.
    #[error("the outbox cannot be worked on")]
    Database(#[from] sqlx::Error),
    /// The database is silent: connect again, for the same reason.
    #[error("the payment database did not answer within {seconds} s")]
    Silent { seconds: u64 },
    /// Rows that we sent were not there to delete: somebody else took them, so somebody else works on our shards. Give the
    /// shards up and ask for them again.
    #[error("{missing} of {sent} published rows were deleted by somebody else")]
    TakenByOthers { sent: usize, missing: usize },
    /// The broker's client cannot be made from the settings: mend them.
    #[error("the broker's client cannot be made")]
    Broker(#[from] broker::Error),
    /// A setting or an address is wrong: mend it.
    #[error("the service cannot start: {0}")]
    Start(String),
    /// The address is taken, or not ours.
    #[error("an address cannot be bound")]
    Bind(#[from] std::io::Error),
}
