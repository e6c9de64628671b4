//! The shop gives a part of a purchase back, if it was paid: stored first, the same key until the answer is final.

use contract::order::{
    CreateRefundRequest, GetPaymentRequest, Payment, PaymentState, Refund, get_payment_request::By,
};
use contract::reason::{Reason, of_status};
use rand::Rng as _;
use tokio::time::{Instant, sleep};

use super::{PATIENCE, RETRY, Shopper};
use crate::refund_request;
use crate::workload::shadow::Shadow;
use crate::workload::world::World;

pub(super) async fn run(shopper: &mut Shopper) {
    let Some(place) = shopper.draw() else { return };
    let Some((merchant_id, pay_no)) = shopper
        .at(place)
        .and_then(|purchase| Some((purchase.request.merchant_id.clone(), purchase.pay_no.clone()?)))
    else {
        return;
    };
    let copy = shopper.rng.random_range(0..shopper.world.callers.len());
    let Some(payment) = read(&shopper.world, copy, merchant_id, pay_no).await else { return };
    if payment.state() != PaymentState::Success {
        return;
    }
    shopper.shadow.seen(&payment);
    let amount = payment.amount.as_ref().map_or(1, |money| money.amount);
    let part = if shopper.rng.random() { amount } else { shopper.rng.random_range(1..=amount) };
    shopper.made = shopper.made.saturating_add(1);
    let request = refund_request(&payment, part, &format!("Q{}", shopper.made));
    let again = shopper.rng.random();
    let first = give_back(&shopper.world, &shopper.shadow, &request, copy).await;
    if again && first.is_some() {
        give_back(&shopper.world, &shopper.shadow, &request, copy).await;
    }
}

async fn read(world: &World, copy: usize, merchant_id: String, pay_no: String) -> Option<Payment> {
    let request = GetPaymentRequest { merchant_id, by: Some(By::PayNo(pay_no)) };
    let answer = world.callers.get(copy)?.client().get_payment(request).await;
    answer.ok()?.into_inner().payment
}

/// Sends a request to refund through one copy of order-api until it is answered or the patience is over.
pub(in crate::workload) async fn give_back(
    world: &World,
    shadow: &Shadow,
    request: &CreateRefundRequest,
    copy: usize,
) -> Option<Refund> {
    let caller = world.callers.get(copy)?;
    let started = Instant::now();
    loop {
        let call = shadow.call();
        let answer = caller.refund(request.clone()).await;
        drop(call);
        match answer {
            Ok(response) => {
                let refund = response.refund?;
                if refund.refund_request_no != request.refund_request_no {
                    // Another refund of the payment is in flight: nothing was created, and the shop leaves it at that.
                    return None;
                }
                shadow.given_back(request, &refund);
                return Some(refund);
            }
            Err(status) => match of_status(&status) {
                None
                | Some(Reason::InProgress | Reason::Unavailable | Reason::Overloaded | Reason::Internal) => {}
                // Earlier parts have used it up.
                Some(Reason::RefundExceedsPaid) => return None,
                Some(reason) => {
                    shadow.found(format!(
                        "refund {} was refused: {}",
                        request.refund_request_no,
                        reason.as_str()
                    ));
                    return None;
                }
            },
        }
        if started.elapsed() > PATIENCE {
            return None;
        }
        sleep(RETRY).await;
    }
}
