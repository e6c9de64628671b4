//! Background tasks with names. A panic is logged with the name, never lost.

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::Instrument as _;

/// Spawns a named task in the current span. The handle gives `None` when the task panicked.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<Option<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[expect(clippy::disallowed_methods, reason = "this is the named spawn that the ban points to")]
    let inner = tokio::spawn(future.in_current_span());
    #[expect(clippy::disallowed_methods, reason = "watches the task above")]
    tokio::spawn(async move {
        match inner.await {
            Ok(output) => Some(output),
            Err(error) => {
                tracing::error!(task.name = name, %error, "a background task ended early");
                metrics::counter!("oncepay_task_panics_total", "task" => name).increment(1);
                None
            }
        }
    })
}
