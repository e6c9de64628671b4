//! The running system of one run: services that can be killed as processes, the rest beside us, and a breakable line before
//! each part.

use std::time::Duration;

use channel_simulator::{AutoPay, BookView, CreateFaults, Lies, Plan, RefundFaults};
use contract::core::DecideRefundRequest;
use contract::core::payment_core_client::PaymentCoreClient;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, task};
use sqlx::PgPool;
use test_kit::{Account, ChannelsFile, Db, Process, Proxy, Topic, channels_file, env, free_port, proxy};
use tokio::sync::Mutex;

use crate::{Caller, Simulator};

/// Copies of order-api: enough for calls of one purchase to meet in two processes' gates.
const ORDER_APIS: usize = 2;
/// How long an asked process may take to end by itself.
const STOP_MAX: Duration = Duration::from_secs(10);

/// A service that is run as a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    PaymentCore,
    CallbackReceiver,
    OutboxRelay,
    LedgerConsumer,
}

impl Service {
    pub const ALL: [Self; 4] =
        [Self::PaymentCore, Self::CallbackReceiver, Self::OutboxRelay, Self::LedgerConsumer];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PaymentCore => "payment-core",
            Self::CallbackReceiver => "callback-receiver",
            Self::OutboxRelay => "outbox-relay",
            Self::LedgerConsumer => "ledger-consumer",
        }
    }
}

/// The lines that can be broken.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) payment_db: Proxy,
    pub(super) ledger_db: Proxy,
    pub(super) redis: Proxy,
    pub(super) kafka: Proxy,
}

impl Lines {
    async fn start() -> Self {
        let postgres = authority(&env::address("TEST_DATABASE_URL"));
        let redis = authority(&test_kit::redis_url());
        let (payment_db, ledger_db, redis, kafka) = futures::join!(
            Proxy::start(&postgres),
            Proxy::start(&postgres),
            Proxy::start(&redis),
            Proxy::kafka()
        );
        Self { payment_db, ledger_db, redis, kafka }
    }

    pub(super) async fn restore(&self) {
        for line in [&self.payment_db, &self.ledger_db, &self.redis, &self.kafka] {
            line.restore().await;
        }
    }
}

/// `host:port` of an address.
fn authority(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest).to_owned()
}

/// The same address through a line.
fn through(url: &str, line: Option<&Proxy>) -> String {
    line.map_or_else(|| url.to_owned(), |line| url.replacen(&authority(url), &line.addr(), 1))
}

#[derive(Debug)]
pub(super) struct Running {
    service: Service,
    settings: Vec<(String, String)>,
    process: Option<Process>,
    /// The kill point that it carries.
    pub(super) armed: Option<String>,
}

impl Running {
    fn spawn(&mut self, kill_point: Option<String>) {
        let mut settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if let Some(point) = &kill_point {
            settings.push(("ONCEPAY_KILL_POINT", point));
        }
        // The old one first: both want the same port.
        self.process = None;
        self.process = Some(Process::spawn(self.service.name(), &settings));
        self.armed = kill_point;
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_none_or(Process::has_ended)
    }

    fn last_words(&self) -> String {
        let log = self.process.as_ref().map(Process::log).unwrap_or_default();
        log.lines().rev().take(3).collect::<Vec<_>>().join(" | ")
    }
}

/// Everything that runs.
#[derive(Debug)]
pub(super) struct World {
    pub(super) payment: Db,
    pub(super) ledger: Db,
    pub(super) topic: Topic,
    pub(super) simulator: Simulator,
    pub(super) callers: Vec<Caller>,
    pub(super) lines: Option<Lines>,
    pub(super) running: Mutex<Vec<Running>>,
    core_url: String,
    base: String,
    http: reqwest::Client,
    _channels: ChannelsFile,
    shutdown: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Settings from JSON: what is left out has its default.
fn settings<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Runs a service beside us, as its own task.
macro_rules! run {
    ($service:ident, $shutdown:expr, $settings:expr) => {{
        let app =
            $service::App::build(settings($settings), Clock::system(), Switches::all_on()).await.unwrap();
        let shutdown = $shutdown.clone();
        task::spawn(stringify!($service), async move {
            if let Err(error) = app.run(shutdown).await {
                panic!("{} failed: {error:?}", stringify!($service));
            }
        });
    }};
}

impl World {
    /// Starts everything; with lines before the parts where they are to be broken. `gates_off` is for a look at the
    /// oracle itself.
    pub(super) async fn start(with_lines: bool, gates_off: &str) -> Self {
        let (payment, ledger, topic) = tokio::join!(Db::payment(), Db::ledger(), Topic::create(4));
        let lines = if with_lines { Some(Lines::start().await) } else { None };
        let (simulator, core, receiver) = (free_port(), free_port(), free_port());
        let (base, notices) = (format!("http://{}", local(simulator)), format!("http://{}", local(receiver)));
        let channels =
            channels_file(&[Account::new("main", &base, &notices), Account::new("second", &base, &notices)]);
        let shutdown = CancellationToken::new();
        run!(
            channel_simulator,
            shutdown,
            json!({
                "listen": local(simulator), "admin_listen": local(0), "channels_file": channels.path(),
                "retry_first_ms": 100, "retry_tries_max": 30,
            })
        );
        let redis = through(&test_kit::redis_url(), lines.as_ref().map(|lines| &lines.redis));
        let core_url = format!("http://{}", local(core));
        let mut callers = Vec::new();
        for _ in 0..ORDER_APIS {
            let port = free_port();
            run!(
                order_api,
                shutdown,
                json!({
                    "listen": local(port), "admin_listen": local(0), "redis_url": redis,
                    "payment_core_url": core_url,
                })
            );
            callers.push(Caller::new(&format!("http://{}", local(port))));
        }
        let running = Service::ALL.map(|service| {
            let parts = Parts { payment: &payment, ledger: &ledger, topic: &topic, lines: lines.as_ref() };
            let mut settings = parts.settings(service);
            if matches!(service, Service::PaymentCore | Service::CallbackReceiver) {
                let file =
                    channels.path().to_str().expect("a temporary folder has a readable name").to_owned();
                settings.push(variable(service, "CHANNELS_FILE", &file));
            }
            if service == Service::PaymentCore {
                // Above every purchase of the shoppers; only a kill-point run has a larger one.
                settings.push(variable(service, "REFUND_APPROVAL_ABOVE__CNY", "1000000"));
                settings.push(variable(service, "LISTEN", &local(core)));
            }
            if service == Service::CallbackReceiver {
                settings.push(variable(service, "LISTEN", &local(receiver)));
                settings.push(variable(service, "PAYMENT_CORE_URL", &core_url));
            }
            settings.push(("ONCEPAY_GATES_OFF".to_owned(), gates_off.to_owned()));
            Running { service, settings, process: None, armed: None }
        });
        let world = Self {
            payment,
            ledger,
            topic,
            simulator: Simulator::new(base.clone()),
            callers,
            lines,
            running: Mutex::new(running.into()),
            core_url,
            base,
            http: reqwest::Client::new(),
            _channels: channels,
            shutdown,
        };
        world.start_all().await;
        world
    }

    pub(super) fn payments(&self) -> &PgPool {
        self.payment.pool()
    }

    pub(super) fn books(&self) -> &PgPool {
        self.ledger.pool()
    }

    /// Decides every refund that waits for a second person: of three, this many are agreed to.
    pub(super) async fn decide_refunds(&self, rng: &mut StdRng, agreed_of_three: u32) {
        let waiting: Vec<String> =
            sqlx::query_scalar("SELECT refund_no FROM refund WHERE approval = 'WAITING'")
                .fetch_all(self.payments())
                .await
                .unwrap();
        for refund_no in waiting {
            let Ok(mut core) = PaymentCoreClient::connect(self.core_url.clone()).await else { return };
            let decision = DecideRefundRequest {
                refund_no,
                decided_by: "bert".to_owned(),
                note: "looked at".to_owned(),
                approve: rng.random_range(0..3) < agreed_of_three,
            };
            // An answer that is lost is asked for again by the next look.
            drop(core.decide_refund(decision).await);
        }
    }

    /// Everything that the channel knows.
    pub(super) async fn book(&self) -> BookView {
        self.simulator.book().await
    }

    /// A control call to the channel; whether it did so.
    pub(super) async fn control<T: Serialize + Sync>(&self, path: &str, body: &T) -> bool {
        let sent = self.http.post(format!("{}/control/{path}", self.base)).json(body).send().await;
        sent.is_ok_and(|answer| answer.status().is_success())
    }

    /// A channel as bad as channels are: it repeats, delays, reorders, loses and lies, and its own calls fail.
    pub(super) async fn misbehave(&self, seed: u64) {
        let plan = Plan {
            seed,
            auto_pay: Some(AutoPay { percent: 40, delay_ms: [0, 300] }),
            notice_repeats: 2,
            notice_delay_ms: [0, 150],
            reorder_percent: 30,
            lose_percent: 15,
            lies: Lies {
                wrong_amount_percent: 8,
                bad_signature_percent: 5,
                stale_timestamp_percent: 5,
                ..Lies::default()
            },
            create: CreateFaults {
                delay_ms: [0, 80],
                error_before_commit_percent: 4,
                error_after_commit_percent: 4,
                drop_after_commit_percent: 4,
                ..CreateFaults::default()
            },
            refund: RefundFaults {
                done_ms: [0, 200],
                fail_percent: 5,
                silent_percent: 15,
                error_before_commit_percent: 5,
                error_after_commit_percent: 5,
                drop_after_commit_percent: 5,
                ..RefundFaults::default()
            },
        };
        self.simulator.plan(&plan).await;
    }

    async fn start_all(&self) {
        let mut running = self.running.lock().await;
        for one in running.iter_mut() {
            one.spawn(None);
        }
        for one in running.iter_mut() {
            if let Some(process) = &mut one.process {
                process.wait_ready().await;
            }
        }
    }

    /// Kills a service as a power cut would and starts it anew, perhaps with a kill point.
    pub(super) async fn kill(&self, service: Service, kill_point: Option<String>) {
        let mut running = self.running.lock().await;
        let Some(one) = running.iter_mut().find(|one| one.service == service) else { return };
        if let Some(process) = &mut one.process {
            process.kill9();
        }
        one.spawn(kill_point);
    }

    /// Asks a service to end, and starts it anew with a kill point. It goes in order, so that nothing waits for a ghost.
    pub(super) async fn arm(&self, service: Service, kill_point: String) {
        let mut running = self.running.lock().await;
        let Some(one) = running.iter_mut().find(|one| one.service == service) else { return };
        if let Some(process) = &mut one.process {
            process.terminate();
            crate::wait::holds_within(STOP_MAX, async || process.has_ended()).await;
        }
        one.spawn(Some(kill_point));
    }

    /// Whether a service's process has ended.
    pub(super) async fn has_ended(&self, service: Service) -> bool {
        let mut running = self.running.lock().await;
        running.iter_mut().find(|one| one.service == service).is_none_or(Running::has_ended)
    }

    /// Starts anew what has ended. Gives what died at its kill point, and the last words of what ended by itself.
    pub(super) async fn tend(&self) -> Vec<Result<String, String>> {
        let mut told = Vec::new();
        for one in self.running.lock().await.iter_mut() {
            if !one.has_ended() {
                continue;
            }
            told.push(
                one.armed
                    .take()
                    .ok_or_else(|| format!("{} ended by itself: {}", one.service.name(), one.last_words())),
            );
            one.spawn(None);
        }
        told
    }
}

struct Parts<'a> {
    payment: &'a Db,
    ledger: &'a Db,
    topic: &'a Topic,
    lines: Option<&'a Lines>,
}

impl Parts<'_> {
    /// Settings that say where the parts are, each through its line.
    fn settings(&self, service: Service) -> Vec<(String, String)> {
        let payment =
            |role| through(self.payment.url_as(role).expose(), self.lines.map(|lines| &lines.payment_db));
        let mut settings = vec![variable(service, "ADMIN_LISTEN", &local(free_port()))];
        match service {
            Service::PaymentCore => settings.extend([
                variable(service, "DATABASE_URL", &payment("payment_core")),
                variable(service, "FIRST_LOOK_S", "1"),
                variable(service, "LOOK_S_MAX", "2"),
                variable(service, "SWEEP_INTERVAL_MS", "100"),
            ]),
            Service::CallbackReceiver => {}
            Service::OutboxRelay => {
                settings.push(variable(service, "DATABASE_URL", &payment("outbox_relay")));
                settings.extend(self.kafka(service));
            }
            Service::LedgerConsumer => {
                let url = self.ledger.url_as("ledger_consumer");
                let url = through(url.expose(), self.lines.map(|lines| &lines.ledger_db));
                settings.push(variable(service, "DATABASE_URL", &url));
                settings.push(variable(service, "GROUP_ID", self.topic.name()));
                settings.extend(self.kafka(service));
            }
        }
        settings
    }

    fn kafka(&self, service: Service) -> [(String, String); 2] {
        let brokers =
            if self.lines.is_some() { proxy::kafka_proxied_brokers() } else { self.topic.brokers() };
        [variable(service, "KAFKA_BROKERS", &brokers), variable(service, "TOPIC", self.topic.name())]
    }
}

fn variable(service: Service, field: &str, value: &str) -> (String, String) {
    let service = service.name().replace('-', "_").to_uppercase();
    (format!("ONCEPAY_{service}__{field}"), value.to_owned())
}
