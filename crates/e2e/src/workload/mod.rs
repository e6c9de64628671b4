//! Chaos: purchases with repeats, drawn from one seed, while lines to the parts break and processes die.
//!
//! What each shopper and the trouble-maker do is drawn from the seed alone, never from time, so a run is repeated by its
//! seed; how their steps fall together is the machine's luck. Afterwards everything is driven to rest and the oracle looks.
//!
//! - `ops` has one file for each thing that a shopper, a client or a channel does;
//! - `shadow` knows what should be true, from what was asked and answered;
//! - `invariants` are cheap and looked at all the while;
//! - `auditor` knows what is in flight, and drives it to rest;
//! - `oracle` compares everything with everything, at rest.

mod auditor;
mod faults;
mod invariants;
pub mod kill_points;
mod ops;
mod oracle;
pub mod report;
mod shadow;
mod world;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use service_kit::CancellationToken;
use tokio::time::{Instant, sleep, sleep_until};

use self::ops::Shopper;
pub use self::report::Report;
use self::shadow::Shadow;
pub use self::world::Service;
use self::world::World;

/// Spreads neighbouring numbers over the whole range of seeds (2^64 divided by the golden ratio, odd).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Looks at the invariants this often: each look is a handful of counts.
const TICK: Duration = Duration::from_millis(250);

/// Of a hundred orders that are open at the end, how many are paid; the others are closed.
const PAID_PERCENT: u32 = 70;

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub seed: u64,
    /// How long purchases are begun and things break.
    pub duration: Duration,
    /// Shoppers at one time.
    pub shoppers: u64,
    /// Tells how it goes.
    pub talks: bool,
    /// Gates of the killable services that are off, for example `G7,G8`: the run must then find something.
    pub gates_off: String,
}

/// The stream of draws of one actor.
fn stream(seed: u64, actor: u64) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_add(actor.wrapping_mul(SPREAD)))
}

/// Runs, drives to rest, and looks at everything.
///
/// # Panics
/// When the stack cannot be started; the message names the seed.
pub async fn run(settings: Settings) -> Report {
    let seed = settings.seed;
    let result = std::panic::AssertUnwindSafe(run_unnamed(settings)).catch_unwind().await;
    result.unwrap_or_else(|panic| panic!("seed {seed}: {}", words(&panic)))
}

/// What a panic said.
fn words(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

async fn run_unnamed(settings: Settings) -> Report {
    let world = Arc::new(World::start(true, &settings.gates_off).await);
    world.misbehave(settings.seed).await;
    let shadow = Arc::new(Shadow::default());
    let end = Instant::now().checked_add(settings.duration).expect("a run ends within centuries");
    let over = CancellationToken::new();
    let shoppers = join_all((1..=settings.shoppers).map(|number| {
        let (world, shadow) = (Arc::clone(&world), Arc::clone(&shadow));
        async move { Shopper::new(world, shadow, stream(settings.seed, number)).shop(end).await }
    }));
    let faults = faults::run(&world, &shadow, stream(settings.seed, 0), over.clone());
    let watch = watch(&world, &shadow, settings.talks, over.clone());
    let shopping = async {
        shoppers.await;
        sleep_until(end).await;
        over.cancel();
    };
    let (faults, (), ()) = futures::join!(Box::pin(faults), Box::pin(watch), Box::pin(shopping));
    auditor::rest(&world, &shadow, &mut stream(settings.seed, u64::MAX), PAID_PERCENT).await;
    oracle::look(&world, &shadow).await;
    let report = Report::collect(settings.seed, &world, &shadow, faults).await;
    tokio::task::spawn_blocking(move || drop(world)).await.expect("a world can be dropped");
    report
}

/// Looks at the invariants until the run is over.
async fn watch(world: &World, shadow: &Shadow, talks: bool, over: CancellationToken) {
    let mut invariants = invariants::Invariants::default();
    let mut ticks = 0_u32;
    while !over.is_cancelled() {
        invariants.look(world, shadow).await;
        ticks = ticks.saturating_add(1);
        if talks && ticks.is_multiple_of(40) {
            println!("  {}", auditor::in_flight(world, shadow).await);
        }
        sleep(TICK).await;
    }
}
