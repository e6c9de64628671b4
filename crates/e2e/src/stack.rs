//! Every service for one test: on databases, a topic and accounts of its own, so tests run side by side.

use std::path::Path;

use pay_types::Gate;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, task};
use sqlx::PgPool;
use test_kit::{Account, ChannelsFile, Db, Process, Topic, channels_file, free_port, wait_for};

use crate::{Caller, Simulator};

/// What a test wants of its stack.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Copies of order-api.
    pub order_apis: usize,
    /// Redis to use; the shared one if `None`.
    pub redis_url: Option<String>,
    /// Gates that are off.
    pub gates_off: Vec<Gate>,
    /// Relay and consumer run.
    pub books: bool,
    /// Brokers of relay and consumer; the shared ones if `None`.
    pub brokers: Option<String>,
    /// The core is a process with these further variables, to be killed.
    pub core_process: Option<Vec<(String, String)>>,
    /// Seconds before a job first looks at a payment.
    pub first_look_s: i32,
    /// Further settings of the core, over the others.
    pub core_settings: Value,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            order_apis: 1,
            redis_url: None,
            gates_off: Vec::new(),
            books: false,
            brokers: None,
            core_process: None,
            first_look_s: 10,
            core_settings: json!({}),
        }
    }
}

/// A running stack; ends when dropped.
#[derive(Debug)]
pub struct Stack {
    pub payment: Db,
    pub ledger: Db,
    pub topic: Topic,
    pub simulator: Simulator,
    pub callers: Vec<Caller>,
    pub core: Option<Process>,
    core_variables: Vec<(String, String)>,
    channels: ChannelsFile,
    core_port: u16,
    receiver_url: String,
    wish: Wish,
    shutdown: CancellationToken,
}

impl Drop for Stack {
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

/// Runs a service beside the test, as its own task.
macro_rules! run {
    ($stack:expr, $service:ident, $settings:expr) => {{
        let switches = Switches::off(&$stack.wish.gates_off);
        let app = $service::App::build(settings($settings), Clock::system(), switches).await.unwrap();
        let shutdown = $stack.shutdown.clone();
        task::spawn(stringify!($service), async move {
            if let Err(error) = app.run(shutdown).await {
                panic!("{} failed: {error:?}", stringify!($service));
            }
        });
    }};
}

impl Stack {
    /// Starts what the test wishes.
    ///
    /// # Panics
    /// When a part cannot be started.
    pub async fn start(wish: Wish) -> Self {
        let (simulator, receiver, core_port) = (free_port(), free_port(), free_port());
        let (base, notices) = (format!("http://{}", local(simulator)), format!("http://{}", local(receiver)));
        let accounts = [Account::new("main", &base, &notices), Account::new("second", &base, &notices)];
        let (payment, ledger, topic) = tokio::join!(Db::payment(), Db::ledger(), Topic::create(4));
        let mut stack = Self {
            payment,
            ledger,
            topic,
            simulator: Simulator::new(base),
            callers: Vec::new(),
            core: None,
            core_variables: wish.core_process.clone().unwrap_or_default(),
            channels: channels_file(&accounts),
            core_port,
            receiver_url: notices,
            wish,
            shutdown: CancellationToken::new(),
        };
        stack.start_core().await;
        let file = stack.channels.path().to_owned();
        run!(
            stack,
            channel_simulator,
            json!({
                "listen": local(simulator), "admin_listen": local(0), "channels_file": file,
            })
        );
        run!(
            stack,
            callback_receiver,
            json!({
                "listen": local(receiver), "admin_listen": local(0), "channels_file": file,
                "payment_core_url": stack.core_url(),
            })
        );
        stack.start_order_apis().await;
        if stack.wish.books {
            stack.start_relay().await;
            stack.start_consumer().await;
        }
        stack
    }

    /// Address of the core.
    #[must_use]
    pub fn core_url(&self) -> String {
        format!("http://{}", local(self.core_port))
    }

    /// Where notices of an account go.
    #[must_use]
    pub fn notify_url(&self, account: &str) -> String {
        format!("{}/v1/callbacks/generic/{account}", self.receiver_url)
    }

    /// The first client.
    ///
    /// # Panics
    /// Without a copy of order-api.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        self.callers.first().unwrap()
    }

    /// The owner's pool of database `payment`.
    #[must_use]
    pub fn payments(&self) -> &PgPool {
        self.payment.pool()
    }

    /// The owner's pool of database `ledger`.
    #[must_use]
    pub fn books(&self) -> &PgPool {
        self.ledger.pool()
    }

    async fn start_core(&mut self) {
        let url = self.payment.url_as("payment_core");
        if self.wish.core_process.is_some() {
            self.start_core_process().await;
            return;
        }
        let mut core = json!({
            "listen": local(self.core_port), "admin_listen": local(0), "database_url": url.expose(),
            "channels_file": self.channels.path(), "first_look_s": self.wish.first_look_s, "sweep_interval_ms": 100,
        });
        core.as_object_mut().unwrap().extend(self.wish.core_settings.as_object().unwrap().clone());
        run!(self, payment_core, core);
    }

    async fn start_core_process(&mut self) {
        let url = self.payment.url_as("payment_core");
        let path: &Path = self.channels.path();
        let (listen, first_look) = (local(self.core_port), self.wish.first_look_s.to_string());
        let mut variables = vec![
            ("ONCEPAY_PAYMENT_CORE__LISTEN", listen.as_str()),
            ("ONCEPAY_PAYMENT_CORE__DATABASE_URL", url.expose()),
            ("ONCEPAY_PAYMENT_CORE__CHANNELS_FILE", path.to_str().unwrap()),
            ("ONCEPAY_PAYMENT_CORE__FIRST_LOOK_S", &first_look),
            ("ONCEPAY_PAYMENT_CORE__SWEEP_INTERVAL_MS", "100"),
        ];
        variables.extend(self.core_variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        self.core = Some(Process::start("payment-core", &variables).await);
    }

    /// Starts the core's process anew on the same address, without the variables of its first life.
    pub async fn restart_core_process(&mut self) {
        self.restart_core_process_with(Vec::new()).await;
    }

    /// The same, with variables of its own.
    pub async fn restart_core_process_with(&mut self, variables: Vec<(String, String)>) {
        self.core = None;
        self.core_variables = variables;
        self.start_core_process().await;
    }

    async fn start_order_apis(&mut self) {
        let redis = self.wish.redis_url.clone().unwrap_or_else(test_kit::redis_url);
        for _ in 0..self.wish.order_apis {
            let port = free_port();
            run!(
                self,
                order_api,
                json!({
                    "listen": local(port), "admin_listen": local(0), "redis_url": redis,
                    "payment_core_url": self.core_url(),
                })
            );
            self.callers.push(Caller::new(&format!("http://{}", local(port))));
        }
    }

    /// Brokers that relay and consumer use.
    #[must_use]
    pub fn brokers(&self) -> String {
        self.wish.brokers.clone().unwrap_or_else(|| self.topic.brokers())
    }

    /// Starts a relay.
    pub async fn start_relay(&self) {
        run!(
            self,
            outbox_relay,
            json!({
                "admin_listen": local(0), "database_url": self.payment.url_as("outbox_relay").expose(),
                "kafka_brokers": self.brokers(), "topic": self.topic.name(),
            })
        );
    }

    /// Starts a consumer; copies share one group.
    pub async fn start_consumer(&self) {
        run!(
            self,
            ledger_consumer,
            json!({
                "admin_listen": local(0), "database_url": self.ledger.url_as("ledger_consumer").expose(),
                "kafka_brokers": self.brokers(), "topic": self.topic.name(), "group_id": self.topic.name(),
            })
        );
    }

    /// Starts the reading service; gives its address.
    pub async fn start_ledger_service(&self) -> String {
        let port = free_port();
        run!(
            self,
            ledger_service,
            json!({
                "listen": local(port), "admin_listen": local(0),
                "database_url": self.ledger.url_as("ledger_service").expose(),
            })
        );
        format!("http://{}", local(port))
    }

    /// Waits until every refund has ended, no event waits in the outbox and every fact that books money has its entry.
    pub async fn wait_booked(&self) {
        wait_for("every event to be booked", || async {
            let live = "SELECT COUNT(*) FROM refund WHERE state IN ('PENDING', 'SUBMITTED', 'PROCESSING')";
            let live = count(self.payments(), live).await;
            let waiting = count(self.payments(), "SELECT COUNT(*) FROM outbox").await;
            let facts = "SELECT COUNT(*) FROM payment_event
                         WHERE type IN ('PAY_SUCCEEDED', 'RECEIPT_UNEXPECTED', 'RECEIPT_WITHDRAWN',
                                        'REFUND_SUBMITTED', 'REFUND_SUCCEEDED', 'REFUND_FAILED',
                                        'REFUND_RETURNED')";
            let entries = count(self.books(), "SELECT COUNT(*) FROM entry").await;
            live == 0 && waiting == 0 && entries >= count(self.payments(), facts).await
        })
        .await;
    }
}

/// A number from a query.
///
/// # Panics
/// When the query fails.
pub async fn count(pool: &PgPool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}
