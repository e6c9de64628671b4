//! A client's fault: a key that was answered goes out again for another amount, or for another order. It must be refused as
//! that, and write nothing.

use contract::reason::{Reason, of_status};
use rand::Rng as _;

use super::Shopper;

pub(super) async fn run(shopper: &mut Shopper) {
    let (copy, other_order) =
        (shopper.rng.random_range(0..shopper.world.callers.len()), shopper.rng.random());
    let Some(place) = shopper.draw() else { return };
    // Only after an answer is it sure that the key is taken.
    let Some(purchase) = shopper.at(place).filter(|purchase| purchase.pay_no.is_some()) else { return };
    let mut request = purchase.request.clone();
    if other_order {
        request.order_no.push_str("-other");
    } else if let Some(money) = &mut request.amount {
        money.amount = money.amount.saturating_add(1);
    }
    let Some(caller) = shopper.world.callers.get(copy) else { return };
    let call = shopper.shadow.call();
    let answer = caller.create(request.clone()).await;
    drop(call);
    let wrong = match answer {
        Ok(response) => Some(format!("gave {:?}", response.payment.map(|payment| payment.pay_no))),
        Err(status) => match of_status(&status) {
            None
            | Some(
                Reason::IdempotencyKeyReused
                | Reason::InProgress
                | Reason::Unavailable
                | Reason::Overloaded
                | Reason::Internal,
            ) => None,
            Some(reason) => Some(format!("was refused as {}", reason.as_str())),
        },
    };
    if let Some(words) = wrong {
        shopper.shadow.found(format!("key {} for another purchase {words}", request.idempotency_key));
    }
}
