//! A person clicks again, a gateway tries again: the stored request several times at once, over all copies of order-api.

use futures::future::join_all;
use rand::Rng as _;

use super::{Shopper, send};

pub(super) async fn run(shopper: &mut Shopper) {
    let times = shopper.rng.random_range(2..=6_usize);
    let Some(place) = shopper.draw() else { return };
    let Some(request) = shopper.at(place).map(|purchase| purchase.request.clone()) else { return };
    let (world, shadow) = (&shopper.world, &shopper.shadow);
    let copies = (0..world.callers.len()).cycle().take(times);
    let answers = join_all(copies.map(|copy| send(world, shadow, &request, copy))).await;
    let told = answers.into_iter().flatten().next().map(|payment| payment.pay_no);
    if let (Some(told), Some(purchase)) = (told, shopper.at(place)) {
        purchase.pay_no = Some(told);
    }
}
