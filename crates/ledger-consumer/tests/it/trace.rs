//! One trace for one payment, to its very end.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use test_kit::Db;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::{applier, apply, message, paid};

/// Two payments with traces of their own are booked in one batch: each posting belongs to its payment's trace, not to
/// the batch's. Fails without `continue_trace` in `judge`.
#[tokio::test]
async fn a_posting_belongs_to_its_payments_trace() {
    let db = Db::ledger().await;
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));

    let traces = ["0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736"];
    let batch: Vec<_> = (0..)
        .zip(traces)
        .map(|(n, trace)| {
            let mut message = message(n, &paid("M1", u32::try_from(n).unwrap(), 5));
            let parent = format!("00-{trace}-00f067aa0ba902b7-01");
            message.headers.push(("traceparent".into(), parent.into_bytes()));
            message
        })
        .collect();
    apply(&applier(&db), &batch).await;

    let spans = exporter.get_finished_spans().unwrap();
    let posts: Vec<_> = spans.iter().filter(|span| span.name == "ledger_consumer.post").collect();
    let found: Vec<_> = posts.iter().map(|span| span.span_context.trace_id().to_string()).collect();
    assert_eq!(found, traces);
    for span in posts {
        assert_eq!(span.parent_span_id.to_string(), "00f067aa0ba902b7");
        let outcome =
            span.attributes.iter().find(|a| a.key.as_str() == "outcome").map(|a| a.value.to_string());
        assert_eq!(outcome.as_deref(), Some("booked"));
    }
}
