//! A second device buys the same order with a key of its own, beside the first one.

use contract::order::CreatePaymentRequest;

use super::{Shopper, send};

pub(super) async fn run(shopper: &mut Shopper) {
    let Some(place) = shopper.draw() else { return };
    let Some(purchase) = shopper.at(place) else { return };
    purchase.keys = purchase.keys.saturating_add(1);
    let first = purchase.request.clone();
    let idempotency_key = format!("{}-{}", first.order_no, purchase.keys);
    let other = CreatePaymentRequest { idempotency_key, ..first.clone() };
    let (world, shadow) = (&shopper.world, &shopper.shadow);
    let (told, _) = futures::join!(send(world, shadow, &first, 0), send(world, shadow, &other, 1));
    if let (Some(payment), Some(purchase)) = (told, shopper.at(place)) {
        purchase.pay_no = Some(payment.pay_no);
    }
}
