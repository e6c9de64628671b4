//! A new purchase: its request is stored, then sent.

use super::Shopper;

pub(super) async fn run(shopper: &mut Shopper) {
    let place = shopper.new_purchase();
    shopper.send(place).await;
}
