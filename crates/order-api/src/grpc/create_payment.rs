//! `CreatePayment`: every field checked (gate G1: the key is required), then the use case within the caller's deadline.

use std::time::Duration;

use contract::order::{CreatePaymentRequest, CreatePaymentResponse};
use contract::reason::{Reason, Refusal};
use contract::validate;
use service_kit::grpc;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::Api;

/// How long a caller should wait when all places are taken.
const OVERLOAD_RETRY: Duration = Duration::from_millis(250);

pub(super) async fn handle(
    api: &Api,
    request: Request<CreatePaymentRequest>,
) -> Result<Response<CreatePaymentResponse>, Status> {
    let Ok(_place) = api.creates.try_acquire() else {
        return Err(Refusal::new(
            Reason::Overloaded,
            "more payments come than can be taken; send the same key again",
        )
        .retry_after(OVERLOAD_RETRY)
        .into());
    };
    let now = Instant::now();
    let left = grpc::time_left(request.metadata(), grpc::CALL_DEFAULT);
    let deadline = now.checked_add(left).unwrap_or(now);
    let wire = request.into_inner();
    let checked = validate::payment_request(wire.clone(), api.clock.now())?;
    api.begin.begin(&checked, wire, deadline).await
}
