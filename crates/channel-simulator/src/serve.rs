//! The HTTP server. It writes the names of headers as the channels do, `Wechatpay-Timestamp` and not `wechatpay-timestamp`:
//! WeChat Pay's own Java library finds them in no other form.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use service_kit::{CancellationToken, shutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

/// Connections at once; a run of the demo holds a few hundred.
const CONNECTIONS_MAX: u32 = 4_096;
/// Longest wait for the head of a request, from the first byte of the connection or from the end of the last answer on. Longer
/// than clients keep idle connections, so that it is they who close them.
const HEAD_MAX: Duration = Duration::from_secs(90);
/// Wait after a connection could not be accepted: the process has too many files open, and some are to be closed first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `shutdown`, then lets the calls in hand end within the drain limit; `stopping` ends those that hang on
/// purpose.
pub(crate) async fn run(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    stopping: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(usize::try_from(CONNECTIONS_MAX).unwrap_or(1)));
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accepted => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (router, shutdown) = (router.clone(), shutdown.clone());
        service_kit::task::spawn("channel_simulator.connection", async move {
            let _place = place;
            connection(stream, peer, router, shutdown).await;
        });
    }
    drop(listener);
    stopping.cancel();
    if tokio::time::timeout(shutdown::DRAIN_MAX, places.acquire_many(CONNECTIONS_MAX)).await.is_err() {
        tracing::warn!("connections were cut: they did not end in time");
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, shutdown: CancellationToken) {
    // An answer waits for no second packet.
    let _is_a_hint = stream.set_nodelay(true).is_ok();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {})) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // Connections that are dropped on purpose end here too.
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
