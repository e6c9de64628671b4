//! gRPC plumbing: servers with health, reflection, limits and one span a call; client channels that carry the trace.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::service::{Interceptor, Routes};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Status};
use tracing::Span;

use crate::telemetry;

/// Most calls in work on one connection; a client that wants more opens another connection.
const CALLS_PER_CONNECTION_MAX: usize = 1024;
/// Longest call when the caller sets no deadline.
pub const CALL_DEFAULT: Duration = Duration::from_secs(15);
/// Time kept back from the caller's deadline for the answer's way home.
const DEADLINE_MARGIN: Duration = Duration::from_millis(50);

/// Health, reflection and the service's own routes, for [`serve`].
///
/// # Errors
/// When the contract's descriptors cannot be read.
pub fn routes(own: Routes) -> Result<Routes, tonic_reflection::server::Error> {
    let (_, health) = tonic_health::server::health_reporter();
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(contract::DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    Ok(own.add_service(health).add_service(reflection))
}

/// Binds a listener; port 0 takes a free one.
///
/// # Errors
/// When the address cannot be bound.
pub async fn bind(listen: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Serves `routes` until `shutdown`, then finishes the calls in hand.
///
/// # Errors
/// When the transport fails.
pub async fn serve(
    listener: TcpListener,
    routes: Routes,
    shutdown: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    Server::builder()
        .concurrency_limit_per_connection(CALLS_PER_CONNECTION_MAX)
        .tcp_nodelay(true)
        .trace_fn(server_span)
        .add_routes(routes)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), shutdown.cancelled_owned())
        .await
}

fn server_span(request: &http::Request<()>) -> Span {
    let span = tracing::info_span!("grpc.call", rpc = request.uri().path(), otel.kind = "server");
    let parent = request.headers().get(telemetry::TRACEPARENT).and_then(|value| value.to_str().ok());
    telemetry::continue_trace(&span, parent);
    span
}

/// A channel to a peer that connects when first used and reconnects by itself.
///
/// # Errors
/// When `url` is no address.
pub fn channel(url: &str) -> Result<Channel, tonic::transport::Error> {
    Ok(Endpoint::from_shared(url.to_owned())?
        .connect_timeout(Duration::from_secs(2))
        .timeout(CALL_DEFAULT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .connect_lazy())
}

/// Puts the current trace into outgoing calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct CarryTrace;

impl Interceptor for CarryTrace {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let text = telemetry::traceparent(&Span::current());
        if let Some(value) = text.and_then(|text| MetadataValue::try_from(text).ok()) {
            request.metadata_mut().insert(telemetry::TRACEPARENT, value);
        }
        Ok(request)
    }
}

/// How long this call may still take by the caller's `grpc-timeout`, less the way home; at most `limit`.
#[must_use]
pub fn time_left(metadata: &MetadataMap, limit: Duration) -> Duration {
    metadata
        .get("grpc-timeout")
        .and_then(|value| value.to_str().ok())
        .and_then(parse_timeout)
        .map_or(limit, |timeout| timeout.saturating_sub(DEADLINE_MARGIN).min(limit))
}

/// `grpc-timeout`: at most eight digits and a unit (gRPC over HTTP/2).
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let value: u64 = if digits.len() <= 8 { digits.parse().ok()? } else { return None };
    match unit {
        "H" => Some(Duration::from_secs(value.saturating_mul(3600))),
        "M" => Some(Duration::from_secs(value.saturating_mul(60))),
        "S" => Some(Duration::from_secs(value)),
        "m" => Some(Duration::from_millis(value)),
        "u" => Some(Duration::from_micros(value)),
        "n" => Some(Duration::from_nanos(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_deadline_is_kept_with_a_margin() {
        let mut metadata = MetadataMap::new();
        assert_eq!(time_left(&metadata, CALL_DEFAULT), CALL_DEFAULT);
        metadata.insert("grpc-timeout", "250m".parse().unwrap());
        assert_eq!(time_left(&metadata, CALL_DEFAULT), Duration::from_millis(200));
        metadata.insert("grpc-timeout", "99S".parse().unwrap());
        assert_eq!(time_left(&metadata, CALL_DEFAULT), CALL_DEFAULT);
        for bad in ["", "S", "9", "123456789S", "1x"] {
            assert_eq!(parse_timeout(bad), None, "{bad}");
        }
    }
}
