//! The trace through the relay. Alone in its process, because telemetry is one for a process.
#![cfg(test)]

use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};

#[path = "../it/stage.rs"]
#[expect(dead_code, reason = "shared with the other tests, which need more of it")]
mod stage;

use stage::Stage;

/// One trace for one payment: the record's context is the publishing span, a child of the event's. Fails when the row's text is
/// handed through although there is a span.
#[tokio::test]
async fn the_publishing_span_continues_the_events_trace_and_is_what_the_record_carries() {
    let stage = Stage::new().await;
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    service_kit::telemetry::subscribe(&provider, "test").unwrap();
    stage.put("O1", "K1").await;
    stage.relay().run_once().await.unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let span = spans.iter().find(|span| span.name == "outbox_relay.publish").unwrap();
    assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
    let record = stage.topic.records().await.pop().unwrap();
    let expected = format!("00-{}-{}-01", span.span_context.trace_id(), span.span_context.span_id());
    assert_eq!(record.header("traceparent"), Some(expected.as_str()));
}
