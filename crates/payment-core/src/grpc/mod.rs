//! Transport: one file for each call; wire types stop here.

mod apply_channel_result;
mod convert;
mod create_payment;
mod get_payment;
mod list_payments;
mod record_refused_notice;
mod status;

use std::sync::Arc;
use std::time::Duration;

use contract::core::payment_core_server::PaymentCore;
use contract::core::{
    ApplyChannelResultRequest, ApplyChannelResultResponse, RecordRefusedNoticeRequest,
    RecordRefusedNoticeResponse,
};
use contract::order::{
    CreatePaymentRequest, CreatePaymentResponse, GetPaymentRequest, GetPaymentResponse, ListPaymentsRequest,
    ListPaymentsResponse,
};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use crate::payment::create::{self, Create};
use crate::payment::dispatch::Channels;
use crate::payment::gather::Gather;

/// The service behind the wire.
#[derive(Debug, Clone)]
pub(crate) struct Core {
    pub(crate) channels: Channels,
    /// Places for channel calls of new payments.
    pub(crate) dispatches: Arc<Semaphore>,
    pub(crate) dispatch_wait_max: Duration,
    /// Where payments are created, together with those that arrive at the same time.
    pub(crate) creating: Gather<Create, create::Answer>,
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
