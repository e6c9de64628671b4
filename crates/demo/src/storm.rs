//! The storm: every order is hit by concurrent repeats with one key, and by a second device with a key of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use contract::common::Money;
use contract::order::order_api_client::OrderApiClient;
use contract::order::{CreatePaymentRequest, Payment};
use contract::reason::{Reason, of_status};
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tonic::Request;
use tonic::transport::Channel;

/// Orders at one time: enough that they meet in every gate, few enough for a laptop.
const ORDERS_AT_ONCE: usize = 24;
/// Identical calls at once from one device.
const REPEATS: usize = 3;
/// Calls of the second device.
const SECOND_DEVICE: usize = 2;
/// A caller gives up after this long; far beyond any outage of the demo.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Pause before the same key is sent again.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

/// What was sent, and what came back.
#[derive(Debug)]
pub(crate) struct Storm {
    pub(crate) client: OrderApiClient<Channel>,
    pub(crate) merchant_id: String,
    pub(crate) orders: u32,
    /// Orders whose callers all have their answer.
    pub(crate) done: AtomicU32,
    pub(crate) requests: AtomicU64,
    /// Calls that were told to send the same key again.
    pub(crate) retries: AtomicU64,
    /// What went wrong: an order with two payments, a final refusal.
    pub(crate) wrong: Mutex<Vec<String>>,
    bar: ProgressBar,
}

impl Storm {
    pub(crate) fn new(url: &str, orders: u32) -> anyhow::Result<Self> {
        let channel = service_kit::grpc::channel(url).context("ORDER_API_URL is no address")?;
        let bar = ProgressBar::with_draw_target(Some(orders.into()), ProgressDrawTarget::stdout());
        bar.set_style(ProgressStyle::with_template(
            "  {bar:40} {pos}/{len} orders · 订单  {elapsed}  {msg}",
        )?);
        Ok(Self {
            client: OrderApiClient::new(channel),
            merchant_id: format!("demo-{:08x}", rand::random::<u32>()),
            orders,
            done: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            wrong: Mutex::default(),
            bar,
        })
    }

    /// Tells a step, above the bar or as a line.
    pub(crate) fn tell(&self, words: &str) {
        if self.bar.is_hidden() {
            println!("  {}/{} orders: {words}", self.done.load(Ordering::Relaxed), self.orders);
        } else {
            self.bar.println(format!("  {words}"));
        }
    }

    /// Sends everything; returns when every caller has its answer.
    pub(crate) async fn run(&self) {
        stream::iter(0..self.orders)
            .for_each_concurrent(ORDERS_AT_ONCE, |number| async move {
                self.order(number).await;
                let done = self.done.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                self.bar.set_position(done.into());
                if self.bar.is_hidden() && done.is_multiple_of(self.orders.div_ceil(10)) {
                    println!("  {done}/{} orders · 订单", self.orders);
                }
            })
            .await;
        self.bar.finish_and_clear();
    }

    async fn order(&self, number: u32) {
        let phone = self.request(number, "phone");
        let laptop = self.request(number, "laptop");
        let at_once = std::iter::repeat_n(&phone, REPEATS).chain(std::iter::repeat_n(&laptop, SECOND_DEVICE));
        let mut answers = join_all(at_once.map(|request| self.pay(request))).await;
        answers.push(self.pay(&phone).await);
        let mut numbers: HashMap<String, u32> = HashMap::new();
        for answer in answers {
            match answer {
                Ok(payment) => {
                    let count = numbers.entry(payment.pay_no).or_default();
                    *count = count.saturating_add(1);
                }
                Err(words) => self.complain(format!("order {number}: {words}")),
            }
        }
        if numbers.len() > 1 {
            self.complain(format!("order {number} has {} payments: {:?}", numbers.len(), numbers.keys()));
        }
    }

    pub(crate) fn complain(&self, words: String) {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(words);
    }

    fn request(&self, number: u32, device: &str) -> CreatePaymentRequest {
        // Every amount differs, so that one booked twice or for another order shows in the sums.
        let amount = 1_000_i64.saturating_add(i64::from(number));
        CreatePaymentRequest {
            merchant_id: self.merchant_id.clone(),
            idempotency_key: format!("{device}-{number}"),
            order_no: format!("O{number}"),
            attempt_no: 1,
            amount: Some(Money { amount, currency: "CNY".to_owned() }),
            channel: "generic".to_owned(),
            channel_account: if number.is_multiple_of(2) { "main" } else { "second" }.to_owned(),
            subject: format!("demo order {number}"),
            ..Default::default()
        }
    }

    /// Sends one request with its key until the answer is final: what every client should do.
    async fn pay(&self, request: &CreatePaymentRequest) -> Result<Payment, String> {
        let started = tokio::time::Instant::now();
        loop {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let mut call = Request::new(request.clone());
            call.set_timeout(Duration::from_secs(10));
            let status = match self.client.clone().create_payment(call).await {
                Ok(response) => return response.into_inner().payment.ok_or_else(|| "no payment".to_owned()),
                Err(status) => status,
            };
            let retry = match of_status(&status) {
                Some(Reason::InProgress | Reason::Unavailable | Reason::Overloaded | Reason::Internal) => {
                    true
                }
                Some(_) => false,
                // No answer of ours: the connection broke. The same key is safe.
                None => true,
            };
            if !retry || started.elapsed() > PATIENCE {
                return Err(format!("{:?}: {}", status.code(), status.message()));
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Waits until this share of the orders is done, in percent.
    pub(crate) async fn reaches(&self, percent: u32) {
        let wanted = self.orders.saturating_mul(percent).checked_div(100).unwrap_or(0);
        while self.done.load(Ordering::Relaxed) < wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
