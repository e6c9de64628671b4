//! One runtime beside the tests' own: proxies live on it, and clean-up runs on it after a test's runtime has ended.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Handle, Runtime};

/// The handle of the runtime, which lives as long as the process.
pub(crate) fn handle() -> Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .thread_name("test-kit")
                .enable_all()
                .build()
                .expect("the process may start threads")
        })
        .handle()
        .clone()
}

/// Runs clean-up to its end from a destructor, whatever runtime the caller is in.
pub(crate) fn finish(work: impl Future<Output = ()> + Send + 'static) {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    handle().spawn(async move {
        work.await;
        drop(done);
    });
    // The sender never sends: this returns when the work has ended, also by a panic.
    wait.recv().unwrap_err();
}
