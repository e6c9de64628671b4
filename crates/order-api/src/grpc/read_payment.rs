//! `GetPayment` and `ListPayments`: the core's answers, passed on.

use contract::order::{GetPaymentRequest, GetPaymentResponse, ListPaymentsRequest, ListPaymentsResponse};
use tonic::{Request, Response, Status};

use super::Api;
use crate::begin::of_core;

pub(super) async fn get(
    api: &Api,
    request: Request<GetPaymentRequest>,
) -> Result<Response<GetPaymentResponse>, Status> {
    api.core.clone().get_payment(request.into_inner()).await.map_err(of_core)
}

pub(super) async fn list(
    api: &Api,
    request: Request<ListPaymentsRequest>,
) -> Result<Response<ListPaymentsResponse>, Status> {
    api.core.clone().list_payments(request.into_inner()).await.map_err(of_core)
}
