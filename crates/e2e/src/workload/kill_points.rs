//! The kill-point run: a service dies at a named point, as `kill -9` would have it, while purchases with repeats are under
//! way; it is started anew, everything is driven to rest, and the oracle looks. Every point, many times, fresh seeds.

use std::sync::Arc;
use std::time::Duration;

use channel_simulator::{DirectNotice, PayOptions};
use contract::order::{CreatePaymentRequest, PaymentState};
use futures::future::join_all;
use futures::{FutureExt as _, StreamExt as _, stream};
use rand::Rng as _;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};

use super::ops::{self, send};
use super::shadow::Shadow;
use super::world::{Service, World};
use super::{auditor, oracle, report, words};
use crate::wait::holds_within;
use crate::{count, refund_request, request};

/// Every named point, by the service that passes it. A test compares this table with the sources.
pub const POINTS: &[(Service, &[&str])] = &[
    (
        Service::PaymentCore,
        &[
            "payment_core.create.after_claim",
            "payment_core.create.after_payment",
            "payment_core.create.after_event",
            "payment_core.create.before_commit",
            "payment_core.create.after_commit",
            "payment_core.dispatch.before_call",
            "payment_core.dispatch.after_call",
            "payment_core.dispatch.after_store",
            "payment_core.settle.after_nonce",
            "payment_core.settle.after_read",
            "payment_core.settle.after_cas",
            "payment_core.settle.after_receipt",
            "payment_core.settle.after_callback_log",
            "payment_core.settle.after_event",
            "payment_core.settle.before_commit",
            "payment_core.settle.after_commit",
            "payment_core.refund.after_receipt",
            "payment_core.refund.after_insert",
            "payment_core.refund.after_take",
            "payment_core.refund.after_submit",
            "payment_core.refund.after_submit_event",
            "payment_core.refund.before_submit_commit",
            "payment_core.refund.after_submit_commit",
            "payment_core.refund.before_call",
            "payment_core.refund.after_call",
            "payment_core.refund.after_result_read",
            "payment_core.refund.after_result_cas",
            "payment_core.refund.after_result_receipt",
            "payment_core.refund.after_result_sums",
            "payment_core.refund.after_return",
            "payment_core.refund.after_result",
            "payment_core.refund_create.after_claim",
            "payment_core.refund_create.after_lock",
            "payment_core.refund_create.after_insert",
            "payment_core.refund_create.after_reserve",
            "payment_core.refund_create.after_event",
            "payment_core.refund_create.before_commit",
            "payment_core.refund_create.after_commit",
            "payment_core.refund_decide.after_decision",
            "payment_core.refund_decide.after_release",
            "payment_core.refund_decide.before_commit",
            "payment_core.refund_decide.after_commit",
        ],
    ),
    (
        Service::CallbackReceiver,
        &["callback_receiver.notify.before_core", "callback_receiver.notify.after_core"],
    ),
    (
        Service::OutboxRelay,
        &[
            "outbox_relay.publish.after_read",
            "outbox_relay.publish.after_ack",
            "outbox_relay.publish.after_delete",
            "outbox_relay.publish.after_park",
        ],
    ),
    (
        Service::LedgerConsumer,
        &[
            "ledger_consumer.consume.after_poll",
            "ledger_consumer.apply.after_claim",
            "ledger.post.after_accounts",
            "ledger.post.after_entries",
            "ledger.post.after_balances",
            "ledger_consumer.apply.after_parking",
            "ledger_consumer.apply.after_commit",
            "ledger_consumer.consume.after_offset_commit",
        ],
    ),
];

/// Longest wait for the service to come by its point.
const DEATH_MAX: Duration = Duration::from_secs(20);
/// Longest wait for a purchase to be paid before its shop gives it back; a core that died meanwhile is met elsewhere.
const PAID_MAX: Duration = Duration::from_secs(3);
/// Purchases of a round at most; each gives the service another pass.
const PURCHASES_MAX: usize = 8;

/// The points that a service passes.
#[must_use]
pub fn of(service: Service) -> &'static [&'static str] {
    POINTS.iter().find(|(of, _)| *of == service).map_or(&[], |(_, points)| points)
}

/// What came of one point's rounds.
#[derive(Debug, Clone)]
pub struct PointReport {
    pub point: &'static str,
    pub runs: u32,
    /// Runs in which the process died there.
    pub deaths: u32,
    pub purchases: i64,
    /// Payments, charges and entries beyond one for each purchase.
    pub duplicates: i64,
    /// Purchases without a paid payment, or without an entry.
    pub lost: i64,
    /// Runs after which debits equalled credits.
    pub balanced: u32,
    /// Each with its seed.
    pub findings: Vec<String>,
}

/// Runs every point whose name holds `only` so many rounds, several points at one time.
pub async fn run(seed: u64, rounds: u32, at_once: usize, only: &str) -> Vec<PointReport> {
    let points = POINTS
        .iter()
        .flat_map(|(service, points)| points.iter().map(|point| (*service, *point)))
        .filter(|(_, point)| point.contains(only));
    let runs = (0_u64..).zip(points).map(|(number, (service, point))| {
        let seed = seed.wrapping_add(number.wrapping_mul(u64::from(u16::MAX)));
        async move {
            let report = point_rounds(service, point, seed, rounds).await;
            println!(
                "  {point}: {} of {} runs, {} findings",
                report.deaths,
                report.runs,
                report.findings.len()
            );
            report
        }
    });
    stream::iter(runs).buffered(at_once.max(1)).collect().await
}

impl PointReport {
    fn new(point: &'static str) -> Self {
        Self {
            point,
            runs: 0,
            deaths: 0,
            purchases: 0,
            duplicates: 0,
            lost: 0,
            balanced: 0,
            findings: Vec::new(),
        }
    }
}

async fn point_rounds(service: Service, point: &'static str, seed: u64, rounds: u32) -> PointReport {
    let mut report = PointReport::new(point);
    let world = Arc::new(World::start(false, "").await);
    for round in 0..rounds {
        let seed = seed.wrapping_add(round.into());
        let played = std::panic::AssertUnwindSafe(play(&world, service, point, seed)).catch_unwind().await;
        report.runs = report.runs.saturating_add(1);
        match played {
            Ok(round) => report.add(round, seed),
            Err(panic) => {
                report.findings.push(format!("seed {seed}: {}", words(&panic)));
                break;
            }
        }
    }
    // Databases and topics are dropped by waiting: not on a thread that other points need.
    tokio::task::spawn_blocking(move || drop(world)).await.expect("a world can be dropped");
    report
}

/// What came of one round.
struct Round {
    died: bool,
    purchases: i64,
    duplicates: i64,
    lost: i64,
    balanced: bool,
    findings: Vec<String>,
}

impl PointReport {
    fn add(&mut self, round: Round, seed: u64) {
        self.deaths = self.deaths.saturating_add(round.died.into());
        self.purchases = self.purchases.saturating_add(round.purchases);
        self.duplicates = self.duplicates.saturating_add(round.duplicates);
        self.lost = self.lost.saturating_add(round.lost);
        self.balanced = self.balanced.saturating_add(round.balanced.into());
        self.findings.extend(round.findings.into_iter().map(|words| format!("seed {seed}: {words}")));
        if !round.died {
            self.findings.push(format!("seed {seed}: the process did not come by the point"));
        }
    }
}

async fn play(world: &World, service: Service, point: &str, seed: u64) -> Round {
    let mut rng = super::stream(seed, 1);
    let shadow = Shadow::default();
    let merchant = format!("M{:016x}", rng.random::<u64>());
    world.arm(service, format!("{point}:{}", rng.random_range(1..=2))).await;
    let (mut requests, mut seconds) = (Vec::new(), 0_i64);
    let started = Instant::now();
    while !world.has_ended(service).await && started.elapsed() < DEATH_MAX {
        if requests.len() < PURCHASES_MAX {
            let mut request =
                request(&merchant, &format!("O{}", requests.len()), &format!("K{}", requests.len()));
            if let (true, Some(money)) = (point.contains(".refund_decide."), &mut request.amount) {
                // Above the limit: a second person must agree to its refund.
                money.amount = 5_000_000;
            }
            requests.push(request.clone());
            let paid = purchase(world, &shadow, &request, &mut rng).await;
            if let Some(pay_no) = paid.clone().filter(|_| point.contains("refund")) {
                give_back(world, &shadow, &request, &pay_no, point, &mut rng).await;
            }
            if let Some(pay_no) = paid.filter(|_| point.contains(".refund.")) {
                seconds = seconds.saturating_add(second_transaction(world, &pay_no).await);
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    let died = world.has_ended(service).await;
    auditor::tend(world, &shadow).await;
    // The clients come back with their stored keys, and the buyers pay what is still open.
    join_all(requests.iter().map(|request| until_answered(world, &shadow, request))).await;
    holds_within(DEATH_MAX, async || {
        world.decide_refunds(&mut rng, 2).await;
        let waiting = "SELECT COUNT(*) FROM refund WHERE approval = 'WAITING'";
        count(world.payments(), waiting).await == 0
    })
    .await;
    auditor::rest(world, &shadow, &mut rng, 100).await;
    oracle::look(world, &shadow).await;
    let sums = Sums::of(world, &merchant).await.without(seconds);
    let purchases = i64::try_from(requests.len()).unwrap_or(i64::MAX);
    Round { died, purchases, ..sums.judge(purchases, shadow.findings()) }
}

/// One purchase: repeats with its key on both copies and a second device, then the buyer pays, told of twice.
/// Gives the number of the payment that was paid.
async fn purchase(
    world: &World,
    shadow: &Shadow,
    request: &CreatePaymentRequest,
    rng: &mut StdRng,
) -> Option<String> {
    let other = CreatePaymentRequest {
        idempotency_key: format!("{}-other", request.idempotency_key),
        ..request.clone()
    };
    let mut calls = vec![(request, 0), (request, 1), (request, 0)];
    if rng.random() {
        calls.push((&other, 1));
    }
    let answers = join_all(calls.into_iter().map(|(request, copy)| send(world, shadow, request, copy))).await;
    let payment = answers.into_iter().flatten().next()?;
    let options = PayOptions { repeats: Some(rng.random_range(1..=3)), ..PayOptions::default() };
    let paid = world.control(&format!("orders/{}/pay", payment.pay_no), &options).await;
    paid.then_some(payment.pay_no)
}

/// The shop gives a part of the purchase back, as soon as it is paid; a second person decides; at the point for it the money
/// bounces.
async fn give_back(
    world: &World,
    shadow: &Shadow,
    request: &CreatePaymentRequest,
    pay_no: &str,
    point: &str,
    rng: &mut StdRng,
) {
    let read = async || world.callers.first()?.try_get(&request.merchant_id, pay_no).await;
    let mut payment = None;
    holds_within(PAID_MAX, async || {
        payment = read().await;
        payment.as_ref().is_some_and(|payment| payment.state() == PaymentState::Success)
    })
    .await;
    let Some(payment) = payment.filter(|payment| payment.state() == PaymentState::Success) else { return };
    let amount = payment.amount.as_ref().map_or(2, |money| money.amount);
    let ask = refund_request(&payment, amount.checked_div(2).unwrap_or(1), &format!("Q{}", request.order_no));
    let calls = [0, 1, 0].map(|copy| ops::refund::give_back(world, shadow, &ask, copy));
    join_all(calls).await;
    // A point of turning down is met by turning down.
    world.decide_refunds(rng, if point.ends_with("after_release") { 0 } else { 2 }).await;
    if point == "payment_core.refund.after_return" {
        bounce(world, pay_no).await;
    }
}

/// The money of a purchase's refund comes home, once it had gone back.
async fn bounce(world: &World, pay_no: &str) {
    let find =
        "SELECT refund_no, amount FROM refund WHERE pay_no = $1 AND kind = 'PAYMENT' AND state = 'SUCCESS'";
    let mut refund: Option<(String, i64)> = None;
    holds_within(PAID_MAX, async || {
        refund = sqlx::query_as(find).bind(pay_no).fetch_optional(world.payments()).await.unwrap();
        refund.is_some()
    })
    .await;
    let Some((refund_no, amount)) = refund else { return };
    let notice = DirectNotice {
        event: Some("refund.failed".to_owned()),
        pay_no: Some(pay_no.to_owned()),
        refund_no: Some(refund_no),
        amount: Some(amount),
        ..DirectNotice::default()
    };
    world.control("notices", &notice).await;
}

/// Money that nobody wanted, to be given back: how often it was taken.
async fn second_transaction(world: &World, pay_no: &str) -> i64 {
    world.control(&format!("orders/{pay_no}/second-transaction"), &PayOptions::default()).await.into()
}

async fn until_answered(world: &World, shadow: &Shadow, request: &CreatePaymentRequest) {
    for _ in 0..5 {
        if send(world, shadow, request, 0).await.is_some() {
            return;
        }
    }
    shadow.found(format!("key {} was not answered after the restart", request.idempotency_key));
}

/// What stands for one merchant.
struct Sums {
    payments: i64,
    paid: i64,
    charges: i64,
    entries: i64,
    off: i64,
}

impl Sums {
    async fn of(world: &World, merchant: &str) -> Self {
        let number = async |pool, query: &'static str| -> i64 {
            sqlx::query_scalar(query).bind(merchant).fetch_one(pool).await.unwrap()
        };
        let book = world.book().await;
        let charges = book.orders.iter().filter(|order| order.merchant_id == merchant);
        let charges = charges.fold(0_u64, |sum, order| sum.saturating_add(order.charges));
        let payments = "SELECT COUNT(*) FROM payment WHERE merchant_id = $1";
        let paid = "SELECT COUNT(*) FROM payment WHERE merchant_id = $1 AND state = 'SUCCESS'";
        let entries = "SELECT COUNT(*) FROM entry WHERE merchant_id = $1 AND kind = 'PAY_SUCCEEDED'";
        let off = "SELECT COUNT(*) FROM (SELECT 1 FROM posting GROUP BY currency
                                         HAVING SUM(CASE side WHEN 'D' THEN amount ELSE -amount END) <> 0) AS off";
        Self {
            payments: number(world.payments(), payments).await,
            paid: number(world.payments(), paid).await,
            charges: i64::try_from(charges).unwrap_or(i64::MAX),
            entries: number(world.books(), entries).await,
            off: count(world.books(), off).await,
        }
    }

    /// Without what second transactions brought: a charge each, and its receipt, its refund on the way and its end.
    fn without(self, seconds: i64) -> Self {
        Self { charges: self.charges.saturating_sub(seconds), ..self }
    }

    fn judge(&self, purchases: i64, findings: Vec<String>) -> Round {
        let beyond = |number: i64| number.saturating_sub(purchases).max(0);
        let missing = |number: i64| purchases.saturating_sub(number).max(0);
        let duplicates =
            beyond(self.payments).saturating_add(beyond(self.charges)).saturating_add(beyond(self.entries));
        let lost = missing(self.paid).saturating_add(missing(self.entries));
        Round { died: false, purchases, duplicates, lost, balanced: self.off == 0, findings }
    }
}

/// Prints the table; true when every point was met in every run, and nothing was doubled or lost.
#[must_use]
pub fn print(reports: &[PointReport]) -> bool {
    println!(
        "\n  {} {:>5} {:>6} {:>9} {:>10} {:>5} {:>8}",
        report::pad("kill point · 断点"),
        "runs",
        "deaths",
        "purchases",
        "duplicates",
        "lost",
        "balanced"
    );
    let mut sum = PointReport::new("all · 合计");
    for report in reports {
        line(report);
        sum.runs = sum.runs.saturating_add(report.runs);
        sum.deaths = sum.deaths.saturating_add(report.deaths);
        sum.purchases = sum.purchases.saturating_add(report.purchases);
        sum.duplicates = sum.duplicates.saturating_add(report.duplicates);
        sum.lost = sum.lost.saturating_add(report.lost);
        sum.balanced = sum.balanced.saturating_add(report.balanced);
        sum.findings.extend(report.findings.iter().map(|words| format!("{}: {words}", report.point)));
    }
    line(&sum);
    for words in &sum.findings {
        println!("  FOUND · 发现: {words}");
    }
    println!();
    sum.findings.is_empty() && sum.duplicates == 0 && sum.lost == 0 && sum.balanced == sum.runs
}

fn line(report: &PointReport) {
    let PointReport { point, runs, deaths, purchases, duplicates, lost, balanced, .. } = report;
    println!(
        "  {} {runs:>5} {deaths:>6} {purchases:>9} {duplicates:>10} {lost:>5} {balanced:>8}",
        report::pad(point)
    );
}
