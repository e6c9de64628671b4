//! `payctl`: for operators.
#![expect(clippy::print_stdout, reason = "a command speaks to a person")]

mod audit;
mod notice;
mod outbox;
mod rebuild;
mod refund;
mod show;
mod trace;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

/// Traces payments, audits, lists and mends what is stuck.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    #[command(flatten)]
    databases: Databases,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Databases {
    /// Database `payment`, as its owner. `source .local/env` sets it.
    #[arg(long, env = "PAYMENT_DATABASE_URL", hide_env_values = true)]
    payment_database_url: String,
    /// Database `ledger`, as its owner. `source .local/env` sets it.
    #[arg(long, env = "LEDGER_DATABASE_URL", hide_env_values = true)]
    ledger_database_url: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows one payment through every gate.
    Trace {
        /// A `pay_no`, an `order_no`, a `refund_no`, or an idempotency key of either.
        what: String,
        /// Only payments of this merchant.
        #[arg(long)]
        merchant: Option<String>,
    },
    /// Checks every invariant over live data; ends with status 1 when one is broken.
    Audit,
    /// Events that the broker refused, and those held behind them.
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// Stored words of channels.
    #[command(subcommand)]
    Notice(notice::Command),
    /// Refunds above the limit, and money that goes back and is not settled.
    #[command(subcommand)]
    Refund(refund::Command),
    /// The books themselves.
    #[command(subcommand)]
    Ledger(rebuild::Command),
}

async fn pool(name: &str, url: &str) -> anyhow::Result<PgPool> {
    PgPoolOptions::new()
        .max_connections(2)
        .connect(url)
        .await
        .with_context(|| format!("database {name} does not answer: is the stack up, and the address right?"))
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let payment = pool("payment", &arguments.databases.payment_database_url).await?;
    let ledger = pool("ledger", &arguments.databases.ledger_database_url).await?;
    match arguments.command {
        Command::Trace { what, merchant } => trace::run(&payment, &ledger, &what, merchant.as_deref()).await,
        Command::Audit => audit::run(&payment, &ledger).await,
        Command::Outbox(command) => outbox::run(&payment, command).await,
        Command::Notice(command) => notice::run(&payment, command).await,
        Command::Refund(command) => refund::run(&payment, &ledger, command).await,
        Command::Ledger(command) => {
            rebuild::run(&arguments.databases.ledger_database_url, &ledger, command).await
        }
    }
}
