//! What a plan does to the answers of calls that make something.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;

use crate::app::Simulator;
use crate::fate::CreateFault;

/// A call that hangs on purpose ends at last, so that a forgotten one holds no connection for ever.
const HANG_MAX: Duration = Duration::from_secs(120);

/// The three answers that a call may get after its work was done.
pub(crate) struct Answers<True, Failed, Spoilt> {
    /// The true one.
    pub(crate) truth: True,
    /// A failure of the channel that says nothing of the work.
    pub(crate) failed: Failed,
    /// The true one under a signature of something else.
    pub(crate) spoilt: Spoilt,
}

impl<True, Failed, Spoilt> Answers<True, Failed, Spoilt>
where
    True: FnOnce() -> Response + Send,
    Failed: FnOnce() -> Response + Send,
    Spoilt: FnOnce() -> Response + Send,
{
    /// Answers as the fate says, `wait_ms` after the work.
    pub(crate) async fn befall(self, simulator: &Simulator, wait_ms: u64, fault: CreateFault) -> Response {
        pause(simulator, Duration::from_millis(wait_ms)).await;
        match fault {
            CreateFault::None | CreateFault::ErrorBeforeCommit => (self.truth)(),
            CreateFault::ErrorAfterCommit => (self.failed)(),
            CreateFault::BadAnswerSignature => (self.spoilt)(),
            CreateFault::DropAfterCommit => dropped(),
            CreateFault::HangAfterCommit => {
                pause(simulator, HANG_MAX).await;
                dropped()
            }
        }
    }
}

/// An answer that breaks off: the client sees a lost connection.
fn dropped() -> Response {
    let broken =
        futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("dropped on purpose")) });
    Response::new(Body::from_stream(broken))
}

/// Waits, but not past the end of the service.
async fn pause(simulator: &Simulator, wait: Duration) {
    if !wait.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = simulator.stopping.cancelled() => {}
        }
    }
}
