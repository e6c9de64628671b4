//! Transport: one file for each call; wire types stop here and at the core's client.

mod create_payment;
mod create_refund;
mod place;
mod read_payment;
mod read_refund;

use std::sync::Arc;

use contract::order::order_api_server::OrderApi;
use contract::order::{
    CreatePaymentRequest, CreatePaymentResponse, CreateRefundRequest, CreateRefundResponse,
    GetPaymentRequest, GetPaymentResponse, GetRefundRequest, GetRefundResponse, ListPaymentsRequest,
    ListPaymentsResponse, ListRefundsRequest, ListRefundsResponse,
};
use service_kit::Clock;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use crate::begin::{Begin, Core, CreatePayment, CreateRefund};

/// The service behind the wire.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) core: Core,
    pub(crate) payments: Begin<CreatePayment>,
    pub(crate) refunds: Begin<CreateRefund>,
    pub(crate) clock: Clock,
    /// Places for create calls.
    pub(crate) creates: Arc<Semaphore>,
}

#[tonic::async_trait]
impl OrderApi for Api {
    async fn create_payment(
        &self,
        request: Request<CreatePaymentRequest>,
    ) -> Result<Response<CreatePaymentResponse>, Status> {
        create_payment::handle(self, request).await
    }

    async fn get_payment(
        &self,
        request: Request<GetPaymentRequest>,
    ) -> Result<Response<GetPaymentResponse>, Status> {
        read_payment::get(self, request).await
    }

    async fn list_payments(
        &self,
        request: Request<ListPaymentsRequest>,
    ) -> Result<Response<ListPaymentsResponse>, Status> {
        read_payment::list(self, request).await
    }

    async fn create_refund(
        &self,
        request: Request<CreateRefundRequest>,
    ) -> Result<Response<CreateRefundResponse>, Status> {
        create_refund::handle(self, request).await
    }

    async fn get_refund(
        &self,
        request: Request<GetRefundRequest>,
    ) -> Result<Response<GetRefundResponse>, Status> {
        read_refund::get(self, request).await
    }

    async fn list_refunds(
        &self,
        request: Request<ListRefundsRequest>,
    ) -> Result<Response<ListRefundsResponse>, Status> {
        read_refund::list(self, request).await
    }
}
