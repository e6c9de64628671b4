//! Transport: one file for each call; wire types stop here.

mod apply_channel_result;
mod convert;
mod create_payment;
mod create_refund;
mod decide_refund;
mod get_payment;
mod get_refund;
mod list_payments;
mod list_refunds;
mod page;
mod record_refused_notice;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contract::core::payment_core_server::PaymentCore;
use contract::core::{
    ApplyChannelResultRequest, ApplyChannelResultResponse, DecideRefundRequest, DecideRefundResponse,
    RecordRefusedNoticeRequest, RecordRefusedNoticeResponse,
};
use contract::order::{
    CreatePaymentRequest, CreatePaymentResponse, CreateRefundRequest, CreateRefundResponse,
    GetPaymentRequest, GetPaymentResponse, GetRefundRequest, GetRefundResponse, ListPaymentsRequest,
    ListPaymentsResponse, ListRefundsRequest, ListRefundsResponse,
};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use crate::payment::create::{self, Create};
use crate::payment::dispatch::Channels;
use crate::payment::gather::Gather;
use crate::refund;

/// The service behind the wire.
#[derive(Debug, Clone)]
pub(crate) struct Core {
    pub(crate) channels: Channels,
    /// Places for channel calls of new payments.
    pub(crate) dispatches: Arc<Semaphore>,
    pub(crate) dispatch_wait_max: Duration,
    /// Where payments are created, together with those that arrive at the same time.
    pub(crate) creating: Gather<Create, create::Answer>,
    /// Where refunds are created.
    pub(crate) refunding: Gather<refund::create::Create, refund::create::Answer>,
    /// By currency, minor units: a refund above it waits for a second person.
    pub(crate) approval_above: Arc<BTreeMap<String, i64>>,
    /// Longest wait for a command's transaction.
    pub(crate) command_wait_max: Duration,
    /// When a job first looks at a new payment.
    pub(crate) first_look: time::Duration,
    /// How long keys are known at least.
    pub(crate) keys_kept: time::Duration,
}

#[tonic::async_trait]
impl PaymentCore for Core {
    async fn create_payment(
        &self,
        request: Request<CreatePaymentRequest>,
    ) -> Result<Response<CreatePaymentResponse>, Status> {
        create_payment::handle(self, request).await.map_err(status::of)
    }

    async fn get_payment(
        &self,
        request: Request<GetPaymentRequest>,
    ) -> Result<Response<GetPaymentResponse>, Status> {
        get_payment::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn list_payments(
        &self,
        request: Request<ListPaymentsRequest>,
    ) -> Result<Response<ListPaymentsResponse>, Status> {
        list_payments::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn create_refund(
        &self,
        request: Request<CreateRefundRequest>,
    ) -> Result<Response<CreateRefundResponse>, Status> {
        create_refund::handle(self, request).await.map_err(status::of)
    }

    async fn get_refund(
        &self,
        request: Request<GetRefundRequest>,
    ) -> Result<Response<GetRefundResponse>, Status> {
        get_refund::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn list_refunds(
        &self,
        request: Request<ListRefundsRequest>,
    ) -> Result<Response<ListRefundsResponse>, Status> {
        list_refunds::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn decide_refund(
        &self,
        request: Request<DecideRefundRequest>,
    ) -> Result<Response<DecideRefundResponse>, Status> {
        decide_refund::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn apply_channel_result(
        &self,
        request: Request<ApplyChannelResultRequest>,
    ) -> Result<Response<ApplyChannelResultResponse>, Status> {
        apply_channel_result::handle(self, request).await.map(Response::new).map_err(status::of)
    }

    async fn record_refused_notice(
        &self,
        request: Request<RecordRefusedNoticeRequest>,
    ) -> Result<Response<RecordRefusedNoticeResponse>, Status> {
        record_refused_notice::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }
}
