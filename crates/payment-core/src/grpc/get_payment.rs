//! `GetPayment`: by number, by order and attempt, or by key.

use contract::order::get_payment_request::By as WireBy;
use contract::order::{GetPaymentRequest, GetPaymentResponse};
use contract::reason::{Reason, Refusal};
use contract::validate;
use pay_types::{AttemptNo, Invalid};

use super::{Core, convert};
use crate::Error;
use crate::payment::find::{self, By};

pub(super) async fn handle(core: &Core, request: GetPaymentRequest) -> Result<GetPaymentResponse, Error> {
    let merchant_id = validate::merchant_id(&request.merchant_id)?;
    let by = by(request.by)?;
    let found = find::find(&core.channels.pool, &merchant_id, &by).await?;
    let payment = found.ok_or_else(|| {
        Refusal::new(Reason::PaymentNotFound, "no payment of this merchant has this number, order or key")
    })?;
    Ok(GetPaymentResponse { payment: Some(convert::payment(payment)) })
}

fn by(by: Option<WireBy>) -> Result<By, Refusal> {
    let attempt = |value: i32| AttemptNo::try_new(i64::from(if value == 0 { 1 } else { value }));
    match by {
        Some(WireBy::PayNo(number)) => number.parse().map(By::PayNo).map_err(validate::invalid),
        Some(WireBy::IdempotencyKey(key)) => validate::idempotency_key(&key).map(By::Key),
        Some(WireBy::Order(order)) => order
            .order_no
            .parse()
            .and_then(|order_no| Ok(By::Attempt(order_no, attempt(order.attempt_no)?)))
            .map_err(validate::invalid),
        None => Err(validate::invalid(Invalid::new("by", "must be pay_no, order or idempotency_key"))),
    }
}
