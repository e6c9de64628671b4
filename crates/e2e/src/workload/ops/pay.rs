//! The buyer pays at the channel, which tells of it well, late, twice, lost at first, or not at all.

use channel_simulator::PayOptions;
use rand::Rng as _;

use super::Shopper;

pub(super) async fn run(shopper: &mut Shopper) {
    let rng = &mut shopper.rng;
    let options = PayOptions {
        silent: rng.random_range(0..100) < 15,
        repeats: Some(rng.random_range(1..=4)),
        notice_delay_ms: Some(rng.random_range(0..300)),
        lose: Some(rng.random_range(0..100) < 15),
    };
    let Some(place) = shopper.draw() else { return };
    let Some(purchase) = shopper.at(place) else { return };
    let Some(pay_no) = purchase.pay_no.clone() else { return };
    if options.silent {
        purchase.silent = Some(pay_no.clone());
    }
    // False: the order is not there yet, or has ended.
    if shopper.world.control(&format!("orders/{pay_no}/pay"), &options).await {
        shopper.shadow.count("  of them taken by the channel");
    }
}
