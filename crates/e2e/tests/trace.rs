//! One trace from the client's call to the posting. Alone in its file: a process has one subscriber.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use channel_simulator::PayOptions;
use e2e::{Stack, Wish, request};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use test_kit::{merchant, wait_for};
use tracing::Instrument as _;

/// Fails when any hop drops the context: gRPC metadata, the payment's row, the event's row, the record's header.
#[tokio::test(flavor = "multi_thread")]
async fn one_trace_runs_from_the_clients_call_to_the_posting() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    service_kit::telemetry::subscribe(&provider, "e2e").unwrap();
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let request = request(merchant().as_str(), "O1", "k1");
    let span = tracing::info_span!("client.purchase");
    let trace = service_kit::telemetry::traceparent(&span).unwrap();
    let trace = trace.split('-').nth(1).unwrap().to_owned();
    let payment = stack.caller().pay(&request).instrument(span).await;
    stack.simulator.pay(&payment.pay_no, &PayOptions::default()).await;
    stack.wait_booked().await;
    let way = [
        "client.purchase",
        "order_api.begin",
        "payment_core.dispatch",
        "payment_core.settle",
        "outbox_relay.publish",
        "ledger_consumer.post",
    ];
    wait_for("every span of the way in one trace", || async {
        let spans = exporter.get_finished_spans().unwrap();
        let ours: Vec<&str> = spans
            .iter()
            .filter(|span| span.span_context.trace_id().to_string() == trace)
            .map(|span| span.name.as_ref())
            .collect();
        way.iter().all(|name| ours.contains(name))
    })
    .await;
}
