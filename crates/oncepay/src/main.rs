//! `oncepay`: every service in one process, and the migrations.

mod migrate;
mod up;

use clap::{Parser, Subcommand};

/// A payment platform in which one purchase is charged once and booked once.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Brings both databases to the newest schema (`PAYMENT_DATABASE_URL`, `LEDGER_DATABASE_URL`: the owner's role).
    Migrate {
        #[arg(long, env = "PAYMENT_DATABASE_URL", hide_env_values = true)]
        payment_database_url: String,
        #[arg(long, env = "LEDGER_DATABASE_URL", hide_env_values = true)]
        ledger_database_url: String,
    },
    /// Runs every service in this one process until SIGTERM or SIGINT. Settings are those of the single services.
    Up,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let _telemetry = service_kit::telemetry::init("oncepay")?;
    match arguments.command {
        Command::Migrate { payment_database_url, ledger_database_url } => {
            migrate::run(&payment_database_url, &ledger_database_url).await
        }
        Command::Up => up::run().await,
    }
}
