//! `CreateRefund`: every field checked (gate G1: the key is required), then the use case within the caller's deadline.

use contract::order::{CreateRefundRequest, CreateRefundResponse};
use contract::validate;
use tonic::{Request, Response, Status};

use super::{Api, place};
use crate::begin::Asking;

pub(super) async fn handle(
    api: &Api,
    request: Request<CreateRefundRequest>,
) -> Result<Response<CreateRefundResponse>, Status> {
    let _place = place::take(api)?;
    let deadline = place::deadline(request.metadata());
    let wire = request.into_inner();
    let checked = validate::refund_request(&wire)?;
    api.refunds.begin(Asking::from(&checked), wire, deadline).await
}
