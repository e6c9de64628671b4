//! Wiring: the one place that builds the parts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use channel::Account;
use service_kit::admin::{self, Readiness};
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, shutdown};
use tokio::net::TcpListener;

use crate::book::Book;
use crate::config::Settings;
use crate::deliver::{self, Queue};
use crate::error::Error;
use crate::http;
use crate::serve;
use crate::sides::{self, Owner, Sides};
use crate::{alipay, stripe, wechatpay};

/// What all calls and all work share.
#[derive(Debug)]
pub(crate) struct Simulator {
    pub(crate) book: Book,
    pub(crate) queue: Queue,
    /// Accounts of the generic channel.
    pub(crate) accounts: Vec<Arc<Account>>,
    /// Accounts of the others.
    pub(crate) sides: Sides,
    /// First answers by Stripe's idempotency keys.
    pub(crate) stripe_answers: stripe::Answers,
    /// Links to statement files that were given out.
    pub(crate) links: crate::links::Links,
    pub(crate) http: reqwest::Client,
    pub(crate) clock: Clock,
    pub(crate) public_url: String,
    pub(crate) control_open: bool,
    pub(crate) retry_first: Duration,
    pub(crate) retry_tries_max: u32,
    /// Ends the calls that hang on purpose.
    pub(crate) stopping: CancellationToken,
}

impl Simulator {
    pub(crate) fn account(&self, name: &str) -> Option<&Arc<Account>> {
        self.accounts.iter().find(|account| account.account().as_str() == name)
    }

    pub(crate) fn alipay(&self, owner: &Owner) -> Option<&Arc<alipay::Side>> {
        self.sides.alipay.iter().find(|side| side.owner == *owner)
    }

    pub(crate) fn wechatpay(&self, owner: &Owner) -> Option<&Arc<wechatpay::Side>> {
        self.sides.wechatpay.iter().find(|side| side.owner == *owner)
    }

    pub(crate) fn stripe(&self, owner: &Owner) -> Option<&Arc<stripe::Side>> {
        self.sides.stripe.iter().find(|side| side.owner == *owner)
    }
}

/// The simulator, ready to run.
#[derive(Debug)]
pub struct App {
    simulator: Arc<Simulator>,
    listener: TcpListener,
    addr: SocketAddr,
    admin_addr: SocketAddr,
    admin_stop: CancellationToken,
}

impl App {
    /// Reads the accounts and binds the listeners; port 0 takes a free one. The simulator guards no gate: switches are
    /// taken for the shape that all services share.
    ///
    /// # Errors
    /// [`Error`] naming the setting to mend.
    pub async fn build(settings: Settings, clock: Clock, _switches: Switches) -> Result<Self, Error> {
        let accounts = sides::generic_accounts(&settings.channels_file)?;
        let sides = settings.keys_file.as_deref().map_or_else(|| Ok(Sides::default()), Sides::load)?;
        if accounts.is_empty() && sides.is_empty() {
            return Err(Error::NoAccount);
        }
        let bind = |setting, address| move |source| Error::Bind { setting, address, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(bind("listen", settings.listen))?;
        let addr = listener.local_addr().map_err(bind("listen", settings.listen))?;
        let admin_stop = CancellationToken::new();
        let admin_addr = admin::serve(settings.admin_listen, Readiness::default(), admin_stop.clone())
            .await
            .map_err(bind("admin_listen", settings.admin_listen))?;
        let public_url = settings
            .public_url
            .map_or_else(|| format!("http://{addr}"), |url| url.trim_end_matches('/').to_owned());
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(Duration::from_millis(settings.notice_ms_max))
            .tcp_nodelay(true)
            .http1_title_case_headers()
            .user_agent("channel-simulator")
            .build()?;
        let simulator = Simulator {
            book: Book::new(clock.now()),
            queue: Queue::default(),
            accounts,
            sides,
            stripe_answers: stripe::Answers::default(),
            links: crate::links::Links::default(),
            http,
            clock,
            public_url,
            control_open: settings.control_open,
            retry_first: Duration::from_millis(settings.retry_first_ms),
            retry_tries_max: settings.retry_tries_max,
            stopping: CancellationToken::new(),
        };
        Ok(Self { simulator: Arc::new(simulator), listener, addr, admin_addr, admin_stop })
    }

    /// Where the channel, the pay page and the control calls are.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Serves until `shutdown`, then finishes what is in hand. Waiting notices are forgotten with the book.
    ///
    /// # Errors
    /// None so far: the form is that of all services.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let _admin = self.admin_stop.drop_guard();
        let work = deliver::run(Arc::clone(&self.simulator), shutdown.clone());
        let work = service_kit::task::spawn("channel_simulator.deliver", work);
        let router = http::router(Arc::clone(&self.simulator));
        let stopping = self.simulator.stopping.clone();
        serve::run(self.listener, router, shutdown, stopping).await;
        if tokio::time::timeout(shutdown::DRAIN_MAX, work).await.is_err() {
            tracing::warn!("notices in hand were cut: they did not end in time");
        }
        Ok(())
    }
}
