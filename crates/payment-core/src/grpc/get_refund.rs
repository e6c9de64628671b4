//! `GetRefund`: by number, by the merchant's request number, or by key.

use contract::order::get_refund_request::By as WireBy;
use contract::order::{GetRefundRequest, GetRefundResponse};
use contract::reason::{Reason, Refusal};
use contract::validate;
use pay_types::Invalid;

use super::{Core, convert};
use crate::Error;
use crate::refund::find::{self, By};

pub(super) async fn handle(core: &Core, request: GetRefundRequest) -> Result<GetRefundResponse, Error> {
    let merchant_id = validate::merchant_id(&request.merchant_id)?;
    let by = by(request.by)?;
    let found = find::find(&core.channels.pool, &merchant_id, &by).await?;
    let refund = found.ok_or_else(|| {
        Refusal::new(Reason::RefundNotFound, "no refund of this merchant has this number, request or key")
    })?;
    Ok(GetRefundResponse { refund: Some(convert::refund(refund)) })
}

fn by(by: Option<WireBy>) -> Result<By, Refusal> {
    match by {
        Some(WireBy::RefundNo(number)) => number.parse().map(By::RefundNo).map_err(validate::invalid),
        Some(WireBy::IdempotencyKey(key)) => validate::idempotency_key(&key).map(By::Key),
        Some(WireBy::Request(request)) => request
            .pay_no
            .parse()
            .and_then(|pay_no| Ok(By::Request(pay_no, request.refund_request_no.parse()?)))
            .map_err(validate::invalid),
        None => Err(validate::invalid(Invalid::new("by", "must be refund_no, request or idempotency_key"))),
    }
}
