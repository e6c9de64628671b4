//! A simulator, the two sides' accounts, and a receiver that keeps what it was told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use channel::{
    Accounts, ChannelClient, ClientSettings, CreateOrder, Notice, NoticeError, NoticeReader, RawNotice,
};
use channel_simulator::{App, BookView, Error, OrderView, Settings, Totals};
use pay_types::{Bucket, ChannelCode, Currency, Money, PayNo};
use serde_json::Value;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock};
use test_kit::{Account, ChannelsFile, channels_file, wait_for};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Time limit of calls: short, because some tests wait for it.
const CALL_MS_MAX: u64 = 1_500;

/// What the receiver got, read as our own receiver would.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) read: Result<Notice, NoticeError>,
    pub(crate) body: Bytes,
}

type Answer = dyn Fn(usize, &Got) -> u16 + Send + Sync;

pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) file: ChannelsFile,
    pub(crate) client: Arc<dyn ChannelClient>,
    pub(crate) http: reqwest::Client,
    pub(crate) got: Arc<Mutex<Vec<Got>>>,
    pub(crate) notify_url: String,
    pub(crate) stop: CancellationToken,
    pub(crate) running: JoinHandle<Option<Result<(), Error>>>,
}

/// A world whose receiver acknowledges everything that it can read.
pub(crate) async fn world() -> World {
    world_that(|_, got| if got.read.is_ok() { 204 } else { 401 }).await
}

/// A world whose receiver answers as `answer` says: given how many came before, and what came.
pub(crate) async fn world_that(answer: impl Fn(usize, &Got) -> u16 + Send + Sync + 'static) -> World {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let receiver_url = format!("http://{}", listener.local_addr().unwrap());
    let port = test_kit::free_port();
    let url = format!("http://127.0.0.1:{port}");
    let file = channels_file(&[
        Account::new("main", &url, &receiver_url),
        Account::new("second", &url, &receiver_url),
    ]);
    let accounts = Accounts::load(file.path()).unwrap();
    let main = accounts.default_of(ChannelCode::Generic).unwrap();
    let reader = Arc::clone(
        channel::readers(&accounts, &ClientSettings::default(), &Clock::system())
            .unwrap()
            .get(ChannelCode::Generic, main.account())
            .unwrap(),
    );
    let got = serve_receiver(listener, reader, Arc::new(answer));

    let settings =
        Settings { listen: ([127, 0, 0, 1], port).into(), ..Settings::for_test(file.path().to_owned()) };
    let app = App::build(settings, Clock::system(), Switches::all_on()).await.unwrap();
    let stop = CancellationToken::new();
    let running = service_kit::task::spawn("simulator", app.run(stop.clone()));

    let settings = ClientSettings { call_ms_max: CALL_MS_MAX, ..ClientSettings::default() };
    let clients = channel::clients(&accounts, &settings, &Clock::system()).unwrap();
    let client = Arc::clone(clients.get(ChannelCode::Generic, main.account()).unwrap());
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap();
    let notify_url = main.notify_url().to_owned();
    World { url, file, client, http, got, notify_url, stop, running }
}

fn serve_receiver(
    listener: TcpListener,
    reader: Arc<dyn NoticeReader>,
    answer: Arc<Answer>,
) -> Arc<Mutex<Vec<Got>>> {
    let got: Arc<Mutex<Vec<Got>>> = Arc::default();
    let kept = Arc::clone(&got);
    let handler = move |request: Request| {
        let (reader, answer, got) = (Arc::clone(&reader), Arc::clone(&answer), Arc::clone(&kept));
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let raw = RawNotice {
                method: parts.method,
                path_and_query: parts.uri.path_and_query().unwrap().to_string(),
                headers: parts.headers,
                body: body.clone(),
            };
            let one = Got { read: reader.read(&raw, Clock::system().now()), body };
            let mut got = got.lock().unwrap();
            let status = answer(got.len(), &one);
            got.push(one);
            StatusCode::from_u16(status).unwrap()
        }
    };
    let router = Router::new().fallback(handler);
    service_kit::task::spawn("receiver", async move { axum::serve(listener, router).await });
    got
}

impl World {
    /// A client that waits longer than any test.
    pub(crate) fn patient_client(&self) -> Arc<dyn ChannelClient> {
        let accounts = Accounts::load(self.file.path()).unwrap();
        let settings = ClientSettings { call_ms_max: 600_000, ..ClientSettings::default() };
        let clients = channel::clients(&accounts, &settings, &Clock::system()).unwrap();
        Arc::clone(clients.get(ChannelCode::Generic, &"main".parse().unwrap()).unwrap())
    }

    pub(crate) fn order(&self, minor: i64) -> CreateOrder {
        let now = Clock::system();
        CreateOrder {
            pay_no: PayNo::new(now.now_ms(), rand::random(), Bucket::from_i16(1).unwrap()),
            merchant_id: "M1".parse().unwrap(),
            amount: Money::try_new(minor, Currency::from_code("CNY").unwrap()).unwrap(),
            subject: "tea 茶".parse().unwrap(),
            expire_at: now.now().saturating_add(time::Duration::hours(1)),
            notify_url: self.notify_url.clone(),
        }
    }

    /// Makes an order that exists at the channel; gives its number.
    pub(crate) async fn created(&self) -> PayNo {
        let order = self.order(1000);
        assert_eq!(self.client.create(&order).await.label(), "accepted");
        order.pay_no
    }

    pub(crate) async fn plan(&self, plan: Value) {
        let response =
            self.http.put(format!("{}/control/plan", self.url)).body(plan.to_string()).send().await.unwrap();
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
    }

    /// A control call that must succeed.
    pub(crate) async fn control(&self, path: &str, body: Value) -> Value {
        let (status, json) = self.try_control(path, body).await;
        assert_eq!(status, 200, "{json}");
        json
    }

    pub(crate) async fn try_control(&self, path: &str, body: Value) -> (u16, Value) {
        let request = self.http.post(format!("{}/control/{path}", self.url)).body(body.to_string());
        let response = request.send().await.unwrap();
        (response.status().as_u16(), serde_json::from_str(&response.text().await.unwrap()).unwrap())
    }

    pub(crate) async fn shown(&self, pay_no: &PayNo) -> OrderView {
        let response = self.http.get(format!("{}/control/orders/{pay_no}", self.url)).send().await.unwrap();
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }

    pub(crate) async fn book(&self) -> BookView {
        let response = self.http.get(format!("{}/control/book", self.url)).send().await.unwrap();
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }

    /// The totals once nothing waits any more.
    pub(crate) async fn quiet(&self) -> Totals {
        wait_for("the simulator has nothing left to send", async || {
            Some(self.book().await.totals).filter(|totals| totals.pending == 0)
        })
        .await
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}
