//! What became of it? By number where it is known, else by key.

use contract::order::GetPaymentRequest;
use contract::order::get_payment_request::By;
use rand::Rng as _;

use super::Shopper;

pub(super) async fn run(shopper: &mut Shopper) {
    let copy = shopper.rng.random_range(0..shopper.world.callers.len());
    let Some(place) = shopper.draw() else { return };
    let Some(purchase) = shopper.at(place) else { return };
    let request = purchase.request.clone();
    let by = match &purchase.pay_no {
        Some(pay_no) => By::PayNo(pay_no.clone()),
        None => By::IdempotencyKey(request.idempotency_key.clone()),
    };
    let asked = GetPaymentRequest { merchant_id: request.merchant_id.clone(), by: Some(by) };
    let Some(caller) = shopper.world.callers.get(copy) else { return };
    let call = shopper.shadow.call();
    let answer = caller.client().get_payment(asked).await;
    drop(call);
    let Ok(Some(payment)) = answer.map(|response| response.into_inner().payment) else { return };
    shopper.shadow.seen(&payment);
}
