//! A receiver, a core that answers as told, and a channel that signs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callback_receiver::{App, Error, Settings};
use channel::generic::sign::{self, Covered, Stamp};
use channel::{Account, Accounts};
use contract::core::payment_core_server::{PaymentCore, PaymentCoreServer};
use contract::core::{
    ApplyChannelResultRequest, ApplyChannelResultResponse, ChannelAnswer, RecordRefusedNoticeRequest,
    RecordRefusedNoticeResponse, ResultOutcome,
};
use contract::order::{
    CreatePaymentRequest, CreatePaymentResponse, GetPaymentRequest, GetPaymentResponse, ListPaymentsRequest,
    ListPaymentsResponse,
};
use pay_types::ChannelCode;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, grpc};
use time::OffsetDateTime;
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};

pub(crate) const BODY: &str = r#"{"notify_id":"N1","event":"payment.succeeded","merchant_id":"M1","pay_no":"P2026010100000001","channel_txn_id":"T1","amount":1000,"currency":"CNY","occurred_at":"2026-01-01T12:00:05+08:00"}"#;
pub(crate) const PATH: &str = "/v1/callbacks/generic/main";

/// What the core does with a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    Say(ChannelAnswer, ResultOutcome),
    Fail(Code),
    /// Until the test lets go.
    Hang,
}

/// What the core was told, and what it is to say.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) results: Mutex<Vec<ApplyChannelResultRequest>>,
    pub(crate) deadlines: Mutex<Vec<Option<String>>>,
    pub(crate) refused: Mutex<Vec<RecordRefusedNoticeRequest>>,
    pub(crate) reply: Mutex<Reply>,
    pub(crate) evidence_hangs: Mutex<bool>,
    pub(crate) evidence_calls: AtomicUsize,
    pub(crate) let_go: CancellationToken,
}

#[derive(Debug, Clone)]
struct Core(Arc<Told>);

#[tonic::async_trait]
impl PaymentCore for Core {
    async fn create_payment(
        &self,
        _: Request<CreatePaymentRequest>,
    ) -> Result<Response<CreatePaymentResponse>, Status> {
        Err(Status::unimplemented("not the edge's"))
    }

    async fn get_payment(
        &self,
        _: Request<GetPaymentRequest>,
    ) -> Result<Response<GetPaymentResponse>, Status> {
        Err(Status::unimplemented("not the edge's"))
    }

    async fn list_payments(
        &self,
        _: Request<ListPaymentsRequest>,
    ) -> Result<Response<ListPaymentsResponse>, Status> {
        Err(Status::unimplemented("not the edge's"))
    }

    async fn create_refund(
        &self,
        _: Request<contract::order::CreateRefundRequest>,
    ) -> Result<Response<contract::order::CreateRefundResponse>, Status> {
        Err(Status::unimplemented("not the edge's"))
    }

    async fn get_refund(
        &self,
        _: Request<contract::order::GetRefundRequest>,
    ) -> Result<Response<contract::order::GetRefundResponse>, Status> {
        Err(Status::unimplemented("not the edge's"))
    }

    async fn list_refunds(
        &self,
        _: Request<contract::order::ListRefundsRequest>,
    ) -> Result<Response<contract::order::ListRefundsResponse>, Status> {
        Err(Status::unimplemented("not the edge's"))
    }

    async fn decide_refund(
        &self,
        _: Request<contract::core::DecideRefundRequest>,
    ) -> Result<Response<contract::core::DecideRefundResponse>, Status> {
        Err(Status::unimplemented("not the edge's"))
    }

    async fn apply_channel_result(
        &self,
        request: Request<ApplyChannelResultRequest>,
    ) -> Result<Response<ApplyChannelResultResponse>, Status> {
        let deadline = request.metadata().get("grpc-timeout").map(|v| v.to_str().unwrap().to_owned());
        self.0.deadlines.lock().unwrap().push(deadline);
        self.0.results.lock().unwrap().push(request.into_inner());
        let reply = *self.0.reply.lock().unwrap();
        match reply {
            Reply::Say(answer, outcome) => Ok(Response::new(ApplyChannelResultResponse {
                outcome: outcome.into(),
                answer: answer.into(),
                ..ApplyChannelResultResponse::default()
            })),
            Reply::Fail(code) => Err(Status::new(code, "as told")),
            Reply::Hang => {
                self.0.let_go.cancelled().await;
                Ok(Response::new(ApplyChannelResultResponse {
                    answer: ChannelAnswer::Accept.into(),
                    ..ApplyChannelResultResponse::default()
                }))
            }
        }
    }

    async fn record_refused_notice(
        &self,
        request: Request<RecordRefusedNoticeRequest>,
    ) -> Result<Response<RecordRefusedNoticeResponse>, Status> {
        self.0.evidence_calls.fetch_add(1, Ordering::SeqCst);
        let hangs = *self.0.evidence_hangs.lock().unwrap();
        if hangs {
            self.0.let_go.cancelled().await;
        }
        self.0.refused.lock().unwrap().push(request.into_inner());
        Ok(Response::new(RecordRefusedNoticeResponse {}))
    }
}

pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) admin_url: String,
    pub(crate) core: Arc<Told>,
    pub(crate) core_port: u16,
    pub(crate) accounts: Accounts,
    pub(crate) clock: Clock,
    pub(crate) http: reqwest::Client,
    pub(crate) stop: CancellationToken,
    pub(crate) running: JoinHandle<Option<Result<(), Error>>>,
    file: PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        self.core.let_go.cancel();
        drop(std::fs::remove_file(&self.file));
    }
}

/// How a receiver differs from the usual.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    pub(crate) core_is_up: bool,
    pub(crate) core_ms_max: u64,
    pub(crate) in_hand_max: usize,
}

impl Default for Given {
    fn default() -> Self {
        Self { core_is_up: true, core_ms_max: 10_000, in_hand_max: 512 }
    }
}

pub(crate) fn noon() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_767_240_006).unwrap()
}

pub(crate) async fn world() -> World {
    world_given(Given::default()).await
}

pub(crate) async fn world_given(given: Given) -> World {
    let core = Arc::new(Told {
        results: Mutex::default(),
        deadlines: Mutex::default(),
        refused: Mutex::default(),
        reply: Mutex::new(Reply::Say(ChannelAnswer::Accept, ResultOutcome::Applied)),
        evidence_hangs: Mutex::new(false),
        evidence_calls: AtomicUsize::new(0),
        let_go: CancellationToken::new(),
    });
    let core_port = test_kit::free_port();
    let text = r#"
[[account]]
channel = "generic"
account = "main"
base_url = "http://127.0.0.1:1"
notify_url = "http://127.0.0.1:2/v1/callbacks/generic/main"
current_key_id = "k1"
[[account.key]]
key_id = "k0"
secret = "main-secret-previous-000"
[[account.key]]
key_id = "k1"
secret = "main-secret-current-0001"

[[account]]
channel = "generic"
account = "second"
base_url = "http://127.0.0.1:1"
notify_url = "http://127.0.0.1:2/v1/callbacks/generic/second"
current_key_id = "k1"
[[account.key]]
key_id = "k1"
secret = "second-secret-current-01"
"#;
    let file = std::env::temp_dir().join(format!("{}.toml", test_kit::unique("oncepay_callbacks")));
    std::fs::write(&file, text).unwrap();
    let any = ([127, 0, 0, 1], 0).into();
    let settings = Settings {
        listen: any,
        admin_listen: any,
        payment_core_url: format!("http://127.0.0.1:{core_port}"),
        channels_file: file.clone(),
        core_ms_max: given.core_ms_max,
        in_hand_max: given.in_hand_max,
        client: channel::ClientSettings::default(),
    };
    let clock = Clock::fixed(noon());
    let app = App::build(settings, clock.clone(), Switches::all_on()).await.unwrap();
    let url = format!("http://{}", app.addr());
    let admin_url = format!("http://{}", app.admin_addr());
    let stop = CancellationToken::new();
    let running = service_kit::task::spawn("receiver", app.run(stop.clone()));
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap();
    let accounts = Accounts::parse(text).unwrap();
    let world = World { url, admin_url, core, core_port, accounts, clock, http, stop, running, file };
    if given.core_is_up {
        world.start_core().await;
    }
    world
}

/// A notice about to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) body: String,
    pub(crate) path: String,
    pub(crate) signed_path: String,
    pub(crate) account: &'static str,
    pub(crate) key_id: &'static str,
    pub(crate) at: OffsetDateTime,
    pub(crate) nonce: String,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            body: BODY.to_owned(),
            path: PATH.to_owned(),
            signed_path: PATH.to_owned(),
            account: "main",
            key_id: "k1",
            at: noon(),
            nonce: "nonce-0001".to_owned(),
            headers: Vec::new(),
        }
    }
}

impl World {
    pub(crate) async fn start_core(&self) {
        let routes = Routes::new(PaymentCoreServer::new(Core(Arc::clone(&self.core))));
        let routes = grpc::routes(routes).unwrap();
        let (listener, _) = grpc::bind(([127, 0, 0, 1], self.core_port).into()).await.unwrap();
        let stop = self.core.let_go.clone();
        service_kit::task::spawn("core", grpc::serve(listener, routes, stop));
    }

    pub(crate) fn say(&self, answer: ChannelAnswer, outcome: ResultOutcome) {
        *self.core.reply.lock().unwrap() = Reply::Say(answer, outcome);
    }

    pub(crate) fn reply(&self, reply: Reply) {
        *self.core.reply.lock().unwrap() = reply;
    }

    pub(crate) fn results(&self) -> Vec<ApplyChannelResultRequest> {
        self.core.results.lock().unwrap().clone()
    }

    pub(crate) fn refused(&self) -> Vec<RecordRefusedNoticeRequest> {
        self.core.refused.lock().unwrap().clone()
    }

    fn account(&self, name: &str) -> &Account {
        self.accounts.get(ChannelCode::Generic, &name.parse().unwrap()).unwrap()
    }

    /// Signs and sends; gives status and body.
    pub(crate) async fn send(&self, draft: &Draft) -> (u16, String) {
        let mut headers = http::HeaderMap::new();
        let key = self.account(draft.account).key(draft.key_id).unwrap();
        let covered = Covered::Request { method: "POST", path_and_query: &draft.signed_path };
        let stamp = Stamp { at: draft.at, nonce: &draft.nonce };
        sign::sign(&mut headers, key, covered, stamp, draft.body.as_bytes());
        for (name, value) in &draft.headers {
            headers.insert(*name, value.parse().unwrap());
        }
        let request = self.http.post(format!("{}{}", self.url, draft.path)).headers(headers);
        let response = request.body(draft.body.clone()).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Sends [`BODY`], well signed.
    pub(crate) async fn send_good(&self) -> (u16, String) {
        self.send(&Draft::default()).await
    }
}
