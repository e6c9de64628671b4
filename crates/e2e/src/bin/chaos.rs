//! `make chaos`: purchases with repeats while lines break and processes die; or, with `--kill-points`, every named point in
//! turn. Ends with 1 when anything is found.
#![expect(clippy::print_stdout, reason = "it speaks to a person")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use e2e::workload::{self, Settings, kill_points};

/// Purchases with repeats, broken lines, killed processes; then everything is compared with everything.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seed of everything that is done.
    #[arg(long, default_value_t = rand::random())]
    seed: u64,
    /// How long, seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Shoppers at one time.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=64))]
    shoppers: u64,
    /// Gates that are off, for example G7,G8: what the run finds then is what it would find if they were broken.
    #[arg(long, default_value = "")]
    gates_off: String,
    /// Instead: die at every named point, so many times each.
    #[arg(long)]
    kill_points: bool,
    /// Runs of each kill point.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Only the kill points whose names hold this, for example `.refund`.
    #[arg(long, default_value = "")]
    only: String,
    /// Kill points at one time.
    #[arg(long, default_value_t = 4)]
    at_once: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !cfg!(debug_assertions) {
        println!("a release build has no kill points: build this in debug mode");
        return ExitCode::from(2);
    }
    let good = if arguments.kill_points {
        println!("every kill point, {} runs each, seed {} · 逐点断电", arguments.rounds, arguments.seed);
        let reports =
            kill_points::run(arguments.seed, arguments.rounds, arguments.at_once, &arguments.only).await;
        kill_points::print(&reports)
    } else {
        println!("chaos for {} s, seed {} · 混沌", arguments.seconds, arguments.seed);
        let duration = Duration::from_secs(arguments.seconds);
        let settings = Settings {
            seed: arguments.seed,
            duration,
            shoppers: arguments.shoppers,
            talks: true,
            gates_off: arguments.gates_off,
        };
        let report = workload::run(settings).await;
        report.print();
        report.findings.is_empty()
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
