//! `CreatePayment`: every field checked (gate G1: the key is required), then the use case within the caller's deadline.

use contract::order::{CreatePaymentRequest, CreatePaymentResponse};
use contract::validate;
use tonic::{Request, Response, Status};

use super::{Api, place};
use crate::begin::Asking;

pub(super) async fn handle(
    api: &Api,
    request: Request<CreatePaymentRequest>,
) -> Result<Response<CreatePaymentResponse>, Status> {
    let _place = place::take(api)?;
    let deadline = place::deadline(request.metadata());
    let wire = request.into_inner();
    let checked = validate::payment_request(wire.clone(), api.clock.now())?;
    api.payments.begin(Asking::from(&checked), wire, deadline).await
}
