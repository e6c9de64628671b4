//! Logs, traces and metrics. One trace follows one payment from the client's call to the posting: the context travels in
//! gRPC metadata, in the payment's row, in the event's row and in the record's header, always as W3C `traceparent` text.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// The W3C header and key.
pub const TRACEPARENT: &str = "traceparent";

/// Why telemetry could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the trace exporter cannot be built for ONCEPAY_OTLP_ENDPOINT")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    #[error("telemetry was started twice in one process")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Keeps the exporter alive; flushes when dropped.
#[derive(Debug)]
pub struct Guard {
    provider: SdkTracerProvider,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Starts logs and traces for `service`. Logs go to standard output: text, or JSON with `ONCEPAY_LOG=json`; `RUST_LOG`
/// filters. Traces go to `ONCEPAY_OTLP_ENDPOINT` (gRPC) when it is set.
///
/// # Errors
/// [`Error`] for an exporter that cannot be built, or a second start.
pub fn init(service: &'static str) -> Result<Guard, Error> {
    let mut builder =
        SdkTracerProvider::builder().with_resource(Resource::builder().with_service_name(service).build());
    if let Some(endpoint) = std::env::var_os("ONCEPAY_OTLP_ENDPOINT").and_then(|e| e.into_string().ok()) {
        let exporter =
            opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build()?;
        builder = builder.with_batch_exporter(exporter);
    }
    let provider = builder.build();
    subscribe(&provider, service)?;
    Ok(Guard { provider })
}

/// Installs the subscriber over a given provider; tests pass one with an exporter in memory.
///
/// # Errors
/// [`Error::Twice`] when a subscriber is installed already.
pub fn subscribe(provider: &SdkTracerProvider, service: &'static str) -> Result<(), Error> {
    let filter =
        || EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,sqlx=warn,h2=warn"));
    let json = std::env::var_os("ONCEPAY_LOG").is_some_and(|form| form == "json");
    let lines = if json {
        tracing_subscriber::fmt::layer().json().with_target(false).boxed()
    } else {
        tracing_subscriber::fmt::layer().with_target(false).boxed()
    };
    let traces = tracing_opentelemetry::layer().with_tracer(provider.tracer(service));
    tracing_subscriber::registry()
        .with(traces.with_filter(filter()))
        .with(lines.with_filter(filter()))
        .try_init()?;
    Ok(())
}

/// The span's trace context as `traceparent` text; `None` outside any trace.
#[must_use]
pub fn traceparent(span: &Span) -> Option<String> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carrier);
    carrier.remove(TRACEPARENT)
}

/// Makes `span` continue the trace of a `traceparent` text; text that is no context is passed over.
pub fn continue_trace(span: &Span, traceparent: Option<&str>) {
    let Some(context) = context(traceparent) else { return };
    if let Err(error) = span.set_parent(context) {
        tracing::trace!(%error, "a span outside telemetry has no parent");
    }
}

/// Links `span` with another trace: related, not its parent.
pub fn link_trace(span: &Span, traceparent: Option<&str>) {
    if let Some(context) = context(traceparent) {
        span.add_link(context.span().span_context().clone());
    }
}

fn context(traceparent: Option<&str>) -> Option<opentelemetry::Context> {
    let carrier = HashMap::from([(TRACEPARENT.to_owned(), traceparent?.to_owned())]);
    let context = TraceContextPropagator::new().extract(&carrier);
    context.span().span_context().is_valid().then_some(context)
}
