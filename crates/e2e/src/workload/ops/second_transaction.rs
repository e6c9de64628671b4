//! The channel takes money once more for one order, in another transaction, paid or closed as it is.
//!
//! An order that was paid without a word is left out: the payment would end by the second transaction's notice, and nobody
//! would ask about the first. Only a statement tells of such money.

use channel_simulator::PayOptions;

use super::Shopper;

pub(super) async fn run(shopper: &mut Shopper) {
    let Some(place) = shopper.draw() else { return };
    let Some(purchase) = shopper.at(place) else { return };
    let Some(pay_no) = purchase.pay_no.clone().filter(|pay_no| purchase.silent.as_ref() != Some(pay_no))
    else {
        return;
    };
    let told = PayOptions::default();
    shopper.world.control(&format!("orders/{pay_no}/pay"), &told).await;
    shopper.world.control(&format!("orders/{pay_no}/second-transaction"), &told).await;
}
