//! The benchmark; see the README beside it.
#![expect(clippy::print_stdout, reason = "a benchmark speaks to a person")]

mod load;
mod pgbench;

use std::time::Duration;

use clap::Parser;
use serde_json::json;

use crate::load::Orders;

/// Measures payments a second beside the same rows written by pgbench.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Callers at one time; pgbench uses as many clients.
    #[arg(long, default_value_t = 32)]
    callers: usize,
    #[arg(long, env = "ORDER_API_URL")]
    order_api_url: String,
    #[arg(long, env = "PAYMENT_DATABASE_URL", hide_env_values = true)]
    payment_database_url: String,
    /// File to write; its folder is made.
    #[arg(long)]
    out: std::path::PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let time = Duration::from_secs(arguments.seconds);
    println!("warming up · 预热 …");
    let (url, callers) = (arguments.order_api_url.as_str(), arguments.callers);
    let merchant = || format!("bench-{:08x}", rand::random::<u32>());
    load::create(url, callers, Duration::from_secs(2), Orders::New(merchant())).await?;
    println!("creating payments for {time:?} with {} callers · 下单 …", arguments.callers);
    let merchant = merchant();
    let create = load::create(url, callers, time, Orders::New(merchant.clone())).await?;
    println!("the same requests again · 重复 …");
    let count = create.per_second.saturating_mul(arguments.seconds).checked_div(2).unwrap_or(0).max(1);
    let repeat = load::create(url, callers, time, Orders::Known { merchant, count }).await?;
    println!("the same rows by pgbench, one transaction for each payment · 对照 …");
    let single = pgbench::run(&arguments.payment_database_url, arguments.callers, arguments.seconds).await?;
    let permille = ratio_permille(create.per_second, single);
    println!("\n  create through order-api · 经 order-api 下单      {:>8} payments/s", create.per_second);
    println!("    p50 {:?}  p99 {:?}  errors {}", create.p50, create.p99, create.errors);
    println!("  repeats of them · 重复请求                        {:>8} requests/s", repeat.per_second);
    println!("    p50 {:?}  p99 {:?}  errors {}", repeat.p50, repeat.p99, repeat.errors);
    println!("  pgbench, one transaction a payment · pgbench 单笔 {single:>8} payments/s");
    println!(
        "  ratio · 比值                                      {:>4}.{:03}\n",
        permille / 1000,
        permille % 1000
    );
    let report = json!({
        "seconds": arguments.seconds,
        "callers": arguments.callers,
        "create": {
            "per_second": create.per_second, "p50_us": micros(create.p50), "p99_us": micros(create.p99),
            "errors": create.errors,
        },
        "repeat": {
            "per_second": repeat.per_second, "p50_us": micros(repeat.p50), "p99_us": micros(repeat.p99),
            "errors": repeat.errors,
        },
        "pgbench_single": { "per_second": single },
        "ratios": {
            "create_vs_pgbench_single_permille": permille,
            "create_vs_repeat_permille": ratio_permille(create.per_second, repeat.per_second),
        },
    });
    if let Some(folder) = arguments.out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&arguments.out, serde_json::to_string_pretty(&report)?)?;
    println!("  written to {}", arguments.out.display());
    Ok(())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Thousandths, so that no float is needed.
fn ratio_permille(value: u64, yardstick: u64) -> u64 {
    value.saturating_mul(1000).checked_div(yardstick).unwrap_or(0)
}
