//! SIGTERM and SIGINT as a token: stop taking work, finish what is in hand, flush, exit 0.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long work in hand may take after the signal; longer than any channel call, shorter than a supervisor's patience.
pub const DRAIN_MAX: Duration = Duration::from_secs(20);

/// A token that is cancelled at the first SIGTERM or SIGINT.
///
/// # Errors
/// When the process may not install signal handlers.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let cancelled = token.clone();
    crate::task::spawn("shutdown.signal", async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("shutting down: no new work is taken");
        cancelled.cancel();
    });
    Ok(token)
}
