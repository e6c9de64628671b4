//! The trouble-maker: breaks lines and kills services, one trouble after another, from its own stream.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::Rng as _;
use rand::rngs::StdRng;
use service_kit::CancellationToken;
use test_kit::Proxy;
use tokio::time::sleep;

use super::shadow::Shadow;
use super::world::{Lines, Service, World};
use super::{auditor, kill_points};

/// Troubles by name, and how often each was made.
pub(super) type Made = BTreeMap<String, u64>;

/// One trouble.
#[derive(Debug, Clone)]
enum Trouble {
    Cut(&'static str, u64),
    Freeze(&'static str, u64),
    Delay(&'static str, u64, u64),
    Kill(Service),
    /// Started anew so that it dies at the n-th pass of a point.
    KillPoint(Service, &'static str, u32),
}

const LINES: [&str; 4] = ["payment db", "ledger db", "redis", "kafka"];

impl Trouble {
    /// Every draw is made whatever the others give, so that changing one kind does not change all that follow.
    fn draw(rng: &mut StdRng) -> Self {
        let kind = rng.random_range(0..100);
        let line = LINES.get(rng.random_range(0..LINES.len())).copied().unwrap_or("redis");
        let (lasts_ms, delay_ms) = (rng.random_range(150..900), rng.random_range(5..60));
        let service = Service::ALL.get(rng.random_range(0..Service::ALL.len())).copied();
        let service = service.unwrap_or(Service::PaymentCore);
        let points = kill_points::of(service);
        let point = points.get(rng.random_range(0..points.len().max(1))).copied().unwrap_or_default();
        let pass = rng.random_range(1..=4);
        match kind {
            0..20 => Self::Cut(line, lasts_ms),
            20..35 => Self::Freeze(line, lasts_ms),
            35..45 => Self::Delay(line, delay_ms, lasts_ms),
            45..65 => Self::Kill(service),
            _ => Self::KillPoint(service, point, pass),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Cut(line, _) => format!("line cut: {line}"),
            Self::Freeze(line, _) => format!("line frozen: {line}"),
            Self::Delay(line, ..) => format!("line slow: {line}"),
            Self::Kill(service) => format!("killed: {}", service.name()),
            Self::KillPoint(service, ..) => format!("armed with a kill point: {}", service.name()),
        }
    }
}

/// Makes troubles until the run is over; gives what was made.
pub(super) async fn run(world: &World, shadow: &Shadow, mut rng: StdRng, over: CancellationToken) -> Made {
    let mut made = Made::new();
    let Some(lines) = &world.lines else { return made };
    while !over.is_cancelled() {
        let (trouble, pause_ms) = (Trouble::draw(&mut rng), rng.random_range(100..700));
        count(&mut made, trouble.name(), 1);
        make(world, lines, &trouble).await;
        sleep(Duration::from_millis(pause_ms)).await;
        count(&mut made, "died at a kill point".to_owned(), auditor::tend(world, shadow).await);
    }
    made
}

fn count(made: &mut Made, name: String, times: u64) {
    let count = made.entry(name).or_default();
    *count = count.saturating_add(times);
}

async fn make(world: &World, lines: &Lines, trouble: &Trouble) {
    match trouble {
        Trouble::Cut(line, ms) => {
            let line = of(lines, line);
            line.cut().await;
            sleep(Duration::from_millis(*ms)).await;
            line.restore().await;
        }
        Trouble::Freeze(line, ms) => {
            let line = of(lines, line);
            line.freeze();
            sleep(Duration::from_millis(*ms)).await;
            line.restore().await;
        }
        Trouble::Delay(line, delay_ms, ms) => {
            let line = of(lines, line);
            line.delay(*delay_ms);
            sleep(Duration::from_millis(*ms)).await;
            line.restore().await;
        }
        Trouble::Kill(service) => world.kill(*service, None).await,
        Trouble::KillPoint(service, point, pass) => {
            world.kill(*service, Some(format!("{point}:{pass}"))).await;
        }
    }
}

fn of<'a>(lines: &'a Lines, name: &str) -> &'a Proxy {
    match name {
        "payment db" => &lines.payment_db,
        "ledger db" => &lines.ledger_db,
        "kafka" => &lines.kafka,
        _ => &lines.redis,
    }
}
