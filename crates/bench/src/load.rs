//! A closed load of create calls: every call a new order with a key of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contract::common::Money;
use contract::order::CreatePaymentRequest;
use contract::order::order_api_client::OrderApiClient;
use tonic::transport::Channel;

/// What was measured.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) per_second: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) errors: u64,
}

/// Which orders the calls are about.
#[derive(Debug, Clone)]
pub(crate) enum Orders {
    /// Each call a new order of this merchant.
    New(String),
    /// Each call a repeat about one of the first `count` orders of this merchant, with its key.
    Known { merchant: String, count: u64 },
}

/// Runs `callers` for `time`.
pub(crate) async fn create(
    url: &str,
    callers: usize,
    time: Duration,
    orders: Orders,
) -> anyhow::Result<Measured> {
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut running = Vec::new();
    for _ in 0..callers {
        let client = OrderApiClient::new(service_kit::grpc::channel(url)?);
        running.push(service_kit::task::spawn(
            "bench.caller",
            caller(client, orders.clone(), Arc::clone(&next), started, time),
        ));
    }
    let (mut times, mut errors) = (Vec::new(), 0_u64);
    for caller in running {
        let (more, failed) = caller.await?.unwrap_or_default();
        times.extend(more);
        errors = errors.saturating_add(failed);
    }
    times.sort_unstable();
    let millis = u64::try_from(started.elapsed().as_millis())?.max(1);
    let count = u64::try_from(times.len())?;
    Ok(Measured {
        per_second: count.saturating_mul(1000).checked_div(millis).unwrap_or(0),
        p50: percentile(&times, 50),
        p99: percentile(&times, 99),
        errors,
    })
}

async fn caller(
    client: OrderApiClient<Channel>,
    orders: Orders,
    next: Arc<AtomicU64>,
    started: Instant,
    time: Duration,
) -> (Vec<Duration>, u64) {
    let (mut times, mut errors) = (Vec::new(), 0_u64);
    while started.elapsed() < time {
        let ordinal = next.fetch_add(1, Ordering::Relaxed);
        let (merchant, number) = match &orders {
            Orders::New(merchant) => (merchant, ordinal),
            Orders::Known { merchant, count } => (merchant, ordinal.checked_rem(*count).unwrap_or(0)),
        };
        let request = CreatePaymentRequest {
            merchant_id: merchant.clone(),
            idempotency_key: format!("k{number}"),
            order_no: format!("O{number}"),
            attempt_no: 1,
            amount: Some(Money { amount: 1999, currency: "CNY".to_owned() }),
            channel: "generic".to_owned(),
            subject: "bench".to_owned(),
            ..Default::default()
        };
        let sent = Instant::now();
        match client.clone().create_payment(request).await {
            Ok(_) => times.push(sent.elapsed()),
            Err(_) => errors = errors.saturating_add(1),
        }
    }
    (times, errors)
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = sorted.len().saturating_mul(percent).checked_div(100).unwrap_or(0);
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}
