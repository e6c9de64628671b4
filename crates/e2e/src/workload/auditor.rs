//! What is in flight, and driving it to rest.

use std::fmt;
use std::time::Duration;

use channel_simulator::{PayOptions, Status};
use rand::Rng as _;
use rand::rngs::StdRng;

use super::shadow::Shadow;
use super::world::World;
use crate::count;
use crate::wait::holds_within;

/// Longest way to rest: a group that lost its consumer waits six seconds, a notice that was refused often some more.
const REST_MAX: Duration = Duration::from_secs(60);

/// What is under way somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InFlight {
    calls: u64,
    /// Payments in process.
    processing: i64,
    /// Refunds that have not ended.
    refunds: i64,
    /// Orders at the channel that are neither paid nor closed.
    open_orders: usize,
    /// Notices that the channel still wants to send.
    notices: u64,
    outbox: i64,
    /// Records that the consumer has not committed.
    unread: i64,
}

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "in flight: {} calls, {} payments in process, {} refunds, {} open orders, {} notices, {} events in the outbox, {} in the topic",
            self.calls,
            self.processing,
            self.refunds,
            self.open_orders,
            self.notices,
            self.outbox,
            self.unread
        )
    }
}

impl InFlight {
    fn is_rest(&self) -> bool {
        self.calls == 0
            && self.processing == 0
            && self.refunds == 0
            && self.open_orders == 0
            && self.notices == 0
            && self.outbox == 0
            && self.unread == 0
    }
}

/// Looks everywhere.
pub(super) async fn in_flight(world: &World, shadow: &Shadow) -> InFlight {
    let (_, calls) = shadow.calls();
    let book = world.book().await;
    let refunds = "SELECT COUNT(*) FROM refund WHERE state NOT IN ('SUCCESS', 'FAIL')";
    InFlight {
        calls,
        processing: count(world.payments(), "SELECT COUNT(*) FROM payment WHERE state = 'PROCESSING'").await,
        refunds: count(world.payments(), refunds).await,
        open_orders: book.orders.iter().filter(|order| order.status == Status::Created).count(),
        notices: book.totals.pending,
        outbox: count(world.payments(), "SELECT COUNT(*) FROM outbox").await,
        unread: world.topic.unread(world.topic.name()).await,
    }
}

/// Mends everything, lets the buyers pay, or else the channel close, what is open, and waits until nothing moves.
pub(super) async fn rest(world: &World, shadow: &Shadow, rng: &mut StdRng, paid_percent: u32) {
    if let Some(lines) = &world.lines {
        lines.restore().await;
    }
    let mut last = None;
    let rested = holds_within(REST_MAX, async || {
        tend(world, shadow).await;
        end_orders(world, rng, paid_percent).await;
        let now = in_flight(world, shadow).await;
        let rested = now.is_rest();
        last = Some(now);
        rested
    })
    .await;
    if let (false, Some(last)) = (rested, last) {
        shadow.found(format!("no rest within {REST_MAX:?}; {last}"));
    }
}

/// Starts what has ended; what ended without being told to is a finding.
pub(super) async fn tend(world: &World, shadow: &Shadow) -> u64 {
    let mut died = 0_u64;
    for told in world.tend().await {
        match told {
            Ok(_) => died = died.saturating_add(1),
            Err(words) => shadow.found(words),
        }
    }
    died
}

/// Ends the orders that nobody has paid or closed.
async fn end_orders(world: &World, rng: &mut StdRng, paid_percent: u32) {
    let book = world.book().await;
    for order in book.orders.iter().filter(|order| order.status == Status::Created) {
        let paid = order.charges > 0 || rng.random_range(0..100) < paid_percent;
        let call = if paid { "pay" } else { "close" };
        world.control(&format!("orders/{}/{call}", order.pay_no), &PayOptions::default()).await;
    }
}
