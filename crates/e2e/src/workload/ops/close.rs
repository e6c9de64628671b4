//! The channel closes an unpaid order and tells of it.

use channel_simulator::PayOptions;

use super::Shopper;

pub(super) async fn run(shopper: &mut Shopper) {
    let Some(place) = shopper.draw() else { return };
    let Some(pay_no) = shopper.at(place).and_then(|purchase| purchase.pay_no.clone()) else { return };
    shopper.world.control(&format!("orders/{pay_no}/close"), &PayOptions::default()).await;
}
