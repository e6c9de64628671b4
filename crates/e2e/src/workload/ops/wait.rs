//! Nothing, for a moment: what was begun comes to its end meanwhile.

use std::time::Duration;

use rand::Rng as _;
use tokio::time::sleep;

use super::Shopper;

pub(super) async fn run(shopper: &mut Shopper) {
    sleep(Duration::from_millis(shopper.rng.random_range(10..200))).await;
}
