//! `GetRefund` and `ListRefunds`: the core's answers, passed on.

use contract::order::{GetRefundRequest, GetRefundResponse, ListRefundsRequest, ListRefundsResponse};
use tonic::{Request, Response, Status};

use super::Api;
use crate::begin::of_core;

pub(super) async fn get(
    api: &Api,
    request: Request<GetRefundRequest>,
) -> Result<Response<GetRefundResponse>, Status> {
    api.core.clone().get_refund(request.into_inner()).await.map_err(of_core)
}

pub(super) async fn list(
    api: &Api,
    request: Request<ListRefundsRequest>,
) -> Result<Response<ListRefundsResponse>, Status> {
    api.core.clone().list_refunds(request.into_inner()).await.map_err(of_core)
}
