//! The buyer chooses again: the next attempt of the order, whatever became of the one before. It is refused while that one
//! lives or is paid.

use super::Shopper;

/// Attempts of one order; a person gives up, too.
const ATTEMPTS_MAX: i32 = 4;

pub(super) async fn run(shopper: &mut Shopper) {
    let Some(place) = shopper.draw() else { return };
    let Some(purchase) = shopper.at(place) else { return };
    if purchase.request.attempt_no >= ATTEMPTS_MAX {
        return;
    }
    purchase.keys = purchase.keys.saturating_add(1);
    purchase.request.attempt_no = purchase.request.attempt_no.saturating_add(1);
    purchase.request.idempotency_key = format!("{}-{}", purchase.request.order_no, purchase.keys);
    purchase.pay_no = None;
    shopper.send(place).await;
}
