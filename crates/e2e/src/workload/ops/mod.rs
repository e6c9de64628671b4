//! What happens to purchases, one file for each thing. Each is drawn from the shopper's own stream.

mod close;
mod create;
mod new_attempt;
mod other_key;
mod pay;
mod read;
pub(super) mod refund;
mod repeat;
mod reuse_key;
mod second_transaction;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use contract::order::{CreatePaymentRequest, Payment};
use contract::reason::{Reason, of_status};
use rand::Rng as _;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};

use super::shadow::Shadow;
use super::world::World;
use crate::request;

/// How long a shopper goes on sending one key while something is broken; then it is left for later.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause before the same key is sent again.
const RETRY: Duration = Duration::from_millis(50);
/// Purchases that a shopper still thinks of.
const REMEMBERED: usize = 4;

/// What can happen.
#[derive(Debug, Clone, Copy)]
enum Op {
    Create,
    Repeat,
    OtherKey,
    NewAttempt,
    ReuseKey,
    Read,
    Pay,
    SecondTransaction,
    Refund,
    Close,
    Wait,
}

/// Each with its share.
const SHARES: [(Op, u32); 11] = [
    (Op::Create, 22),
    (Op::Repeat, 18),
    (Op::OtherKey, 12),
    (Op::NewAttempt, 8),
    (Op::ReuseKey, 6),
    (Op::Read, 12),
    (Op::Pay, 20),
    (Op::SecondTransaction, 4),
    (Op::Refund, 8),
    (Op::Close, 4),
    (Op::Wait, 8),
];

impl Op {
    fn draw(rng: &mut StdRng) -> Self {
        let all = SHARES.iter().fold(0_u32, |sum, (_, share)| sum.saturating_add(*share));
        let mut left = rng.random_range(0..all);
        for (op, share) in SHARES {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return op,
            }
        }
        Self::Wait
    }

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Repeat => "repeat with the same key",
            Self::OtherKey => "repeat with another key",
            Self::NewAttempt => "new attempt",
            Self::ReuseKey => "key reused for another purchase",
            Self::Read => "read",
            Self::Pay => "pay at the channel",
            Self::SecondTransaction => "second transaction",
            Self::Refund => "refund",
            Self::Close => "close at the channel",
            Self::Wait => "wait",
        }
    }
}

/// A purchase as its shopper knows it.
#[derive(Debug, Clone)]
pub(super) struct Purchase {
    /// The newest stored request.
    pub(super) request: CreatePaymentRequest,
    /// Number of its payment, once heard.
    pub(super) pay_no: Option<String>,
    /// Keys that were made for it.
    keys: u32,
    /// A payment that the channel was told not to tell of.
    silent: Option<String>,
}

/// A person with a client, and a stream of draws.
#[derive(Debug)]
pub(super) struct Shopper {
    world: Arc<World>,
    shadow: Arc<Shadow>,
    rng: StdRng,
    merchant: String,
    purchases: Vec<Purchase>,
    made: u32,
}

impl Shopper {
    pub(super) fn new(world: Arc<World>, shadow: Arc<Shadow>, mut rng: StdRng) -> Self {
        let merchant = format!("M{:016x}", rng.random::<u64>());
        Self { world, shadow, rng, merchant, purchases: Vec::new(), made: 0 }
    }

    /// Does one thing after another until `end`.
    pub(super) async fn shop(mut self, end: Instant) {
        while Instant::now() < end {
            let op = if self.purchases.is_empty() { Op::Create } else { Op::draw(&mut self.rng) };
            self.shadow.count(op.name());
            match op {
                Op::Create => create::run(&mut self).await,
                Op::Repeat => repeat::run(&mut self).await,
                Op::OtherKey => other_key::run(&mut self).await,
                Op::NewAttempt => new_attempt::run(&mut self).await,
                Op::ReuseKey => reuse_key::run(&mut self).await,
                Op::Read => read::run(&mut self).await,
                Op::Pay => pay::run(&mut self).await,
                Op::Refund => refund::run(&mut self).await,
                Op::SecondTransaction => second_transaction::run(&mut self).await,
                Op::Close => close::run(&mut self).await,
                Op::Wait => wait::run(&mut self).await,
            }
        }
    }

    /// A new purchase, remembered in place of the oldest one.
    pub(super) fn new_purchase(&mut self) -> usize {
        self.made = self.made.saturating_add(1);
        let order_no = format!("O{}", self.made);
        let mut request = request(&self.merchant, &order_no, &format!("{order_no}-1"));
        if let Some(money) = &mut request.amount {
            // Every amount differs, so that one booked for another shows in the sums.
            money.amount = self.rng.random_range(1_000..1_000_000);
        }
        request.channel_account = if self.rng.random() { "main" } else { "second" }.to_owned();
        if self.purchases.len() >= REMEMBERED {
            self.purchases.remove(0);
        }
        self.purchases.push(Purchase { request, pay_no: None, keys: 1, silent: None });
        self.purchases.len().saturating_sub(1)
    }

    /// One of the remembered purchases.
    fn draw(&mut self) -> Option<usize> {
        let place = self.rng.random_range(0..self.purchases.len().max(1));
        (place < self.purchases.len()).then_some(place)
    }

    fn at(&mut self, place: usize) -> Option<&mut Purchase> {
        self.purchases.get_mut(place)
    }

    /// Sends the purchase's stored request until it is answered or the patience is over.
    pub(super) async fn send(&mut self, place: usize) {
        let copy = self.rng.random_range(0..self.world.callers.len());
        let Some(request) = self.at(place).map(|purchase| purchase.request.clone()) else { return };
        let told = send(&self.world, &self.shadow, &request, copy).await;
        if let (Some(payment), Some(purchase)) = (told, self.at(place)) {
            purchase.pay_no = Some(payment.pay_no);
        }
    }
}

/// Sends a request through one copy of order-api: stored first, the same key until the answer is final.
pub(super) async fn send(
    world: &World,
    shadow: &Shadow,
    request: &CreatePaymentRequest,
    copy: usize,
) -> Option<Payment> {
    shadow.asked(request);
    let caller = world.callers.get(copy)?;
    let started = Instant::now();
    loop {
        let call = shadow.call();
        let answer = caller.create(request.clone()).await;
        drop(call);
        match answer {
            Ok(response) => {
                let payment = response.payment?;
                shadow.answered(request, &payment);
                return Some(payment);
            }
            Err(status) => match of_status(&status) {
                // A broken line, a part that is down, or the first call still running: the same key is safe.
                None
                | Some(Reason::InProgress | Reason::Unavailable | Reason::Overloaded | Reason::Internal) => {}
                Some(reason) => {
                    shadow.refused(request, reason);
                    return None;
                }
            },
        }
        if started.elapsed() > PATIENCE {
            return None;
        }
        sleep(RETRY).await;
    }
}
