//! A core that keeps what it was asked to decide, and answers as told.

use std::sync::{Arc, Mutex};

use contract::common::Money;
use contract::core::payment_core_server::{PaymentCore, PaymentCoreServer};
use contract::core::{
    ApplyChannelResultRequest, ApplyChannelResultResponse, DecideRefundRequest, DecideRefundResponse,
    RecordRefusedNoticeRequest, RecordRefusedNoticeResponse,
};
use contract::order::{
    CreatePaymentRequest, CreatePaymentResponse, CreateRefundRequest, CreateRefundResponse,
    GetPaymentRequest, GetPaymentResponse, GetRefundRequest, GetRefundResponse, ListPaymentsRequest,
    ListPaymentsResponse, ListRefundsRequest, ListRefundsResponse, Refund, RefundState,
};
use contract::reason::Refusal;
use test_kit::{free_port, wait_for};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) decisions: Mutex<Vec<DecideRefundRequest>>,
    /// Instead of deciding.
    pub(crate) refusal: Mutex<Option<Refusal>>,
}

#[derive(Debug, Clone)]
struct Core(Arc<Told>);

macro_rules! not_asked {
    ($($rpc:ident($request:ty) -> $response:ty;)+) => {
        #[tonic::async_trait]
        impl PaymentCore for Core {
            $(async fn $rpc(&self, _: Request<$request>) -> Result<Response<$response>, Status> {
                Err(Status::unimplemented("not the operators'"))
            })+

            async fn decide_refund(
                &self,
                request: Request<DecideRefundRequest>,
            ) -> Result<Response<DecideRefundResponse>, Status> {
                self.decide(request.into_inner())
            }
        }
    };
}

not_asked! {
    create_payment(CreatePaymentRequest) -> CreatePaymentResponse;
    get_payment(GetPaymentRequest) -> GetPaymentResponse;
    list_payments(ListPaymentsRequest) -> ListPaymentsResponse;
    create_refund(CreateRefundRequest) -> CreateRefundResponse;
    get_refund(GetRefundRequest) -> GetRefundResponse;
    list_refunds(ListRefundsRequest) -> ListRefundsResponse;
    apply_channel_result(ApplyChannelResultRequest) -> ApplyChannelResultResponse;
    record_refused_notice(RecordRefusedNoticeRequest) -> RecordRefusedNoticeResponse;
}

impl Core {
    fn decide(&self, asked: DecideRefundRequest) -> Result<Response<DecideRefundResponse>, Status> {
        self.0.decisions.lock().unwrap().push(asked.clone());
        if let Some(refusal) = self.0.refusal.lock().unwrap().take() {
            return Err(refusal.into());
        }
        let state = if asked.approve { RefundState::Pending } else { RefundState::Fail };
        let refund = Refund {
            refund_no: asked.refund_no,
            pay_no: "P2".into(),
            amount: Some(Money { amount: 90_000, currency: "CNY".into() }),
            state: state.into(),
            requested_by: "ann".into(),
            decided_by: asked.decided_by,
            ..Default::default()
        };
        Ok(Response::new(DecideRefundResponse { refund: Some(refund) }))
    }
}

/// Starts one; it ends with the test's runtime. Gives its address.
pub(crate) async fn start(told: &Arc<Told>) -> String {
    let port = free_port();
    let server = Server::builder().add_service(PaymentCoreServer::new(Core(Arc::clone(told))));
    drop(service_kit::task::spawn("core", server.serve(([127, 0, 0, 1], port).into())));
    wait_for("the core", async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()).await;
    format!("http://127.0.0.1:{port}")
}
