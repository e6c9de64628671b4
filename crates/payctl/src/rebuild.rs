//! `payctl ledger rebuild --check`: the topic, read from its first record into an empty database, gives the same ledger.

use std::process::ExitCode;
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use futures::TryStreamExt as _;
use futures::stream::BoxStream;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, task};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgPool};

static SCHEMA: Migrator = sqlx::migrate!("../../migrations/ledger");

/// Differences that are told.
const TOLD_MAX: usize = 20;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Rebuilds the ledger from the topic beside the real one, compares both, and throws the copy away.
    Rebuild {
        /// Says that nothing is to be changed; there is no other way to run it yet.
        #[arg(long, required = true)]
        check: bool,
        #[arg(long, env = "KAFKA_BROKERS")]
        kafka_brokers: String,
        #[arg(long, default_value = contract::event::TOPIC)]
        topic: String,
        /// The rebuild is done when nothing came for so long; a consumer joins its group within a few seconds.
        #[arg(long, default_value_t = 15)]
        quiet_seconds: u64,
    },
}

pub(crate) async fn run(url: &str, ledger: &PgPool, command: Command) -> anyhow::Result<ExitCode> {
    let Command::Rebuild { check: _, kafka_brokers, topic, quiet_seconds } = command;
    let name = format!("ledger_rebuild_{:08x}", rand::random::<u32>());
    let owner = PgConnectOptions::from_str(url)?;
    let mut admin = owner.clone().connect().await?;
    admin
        .execute(AssertSqlSafe(format!("CREATE DATABASE {name}")))
        .await
        .context("the owner may not create databases")?;
    let result = rebuild_and_compare(
        url,
        (&owner, &name),
        ledger,
        (&kafka_brokers, &topic),
        Duration::from_secs(quiet_seconds),
    )
    .await;
    admin.execute(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await?;
    admin.close().await?;
    result
}

async fn rebuild_and_compare(
    url: &str,
    (owner, name): (&PgConnectOptions, &str),
    ledger: &PgPool,
    (brokers, topic): (&str, &str),
    quiet: Duration,
) -> anyhow::Result<ExitCode> {
    let copy = PgPoolOptions::new().max_connections(2).connect_with(owner.clone().database(name)).await?;
    SCHEMA.run(&copy).await?;
    let (server, _) = url.rsplit_once('/').context("the ledger's address names no database")?;
    let settings = serde_json::from_value(serde_json::json!({
        "admin_listen": "127.0.0.1:0", "database_url": format!("{server}/{name}"), "kafka_brokers": brokers,
        "topic": topic, "group_id": name,
    }))?;
    let consumer = ledger_consumer::App::build(settings, Clock::system(), Switches::all_on()).await?;
    let stop = CancellationToken::new();
    let running = task::spawn("payctl.rebuild", consumer.run(stop.clone()));
    wait_quiet(&copy, quiet).await?;
    stop.cancel();
    if let Some(Err(error)) = running.await? {
        bail!("the consumer failed: {error}");
    }
    let differing = compare(ledger, &copy).await?;
    copy.close().await;
    for line in &differing {
        println!("  {line}");
    }
    if differing.is_empty() {
        println!("the rebuilt ledger is the same · 重建一致");
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "the rebuilt ledger differs · 重建不一致; records older than the topic's retention cannot be rebuilt"
    );
    Ok(ExitCode::FAILURE)
}

async fn wait_quiet(copy: &PgPool, quiet: Duration) -> anyhow::Result<()> {
    let (mut entries, mut since) = (0_i64, Instant::now());
    while since.elapsed() < quiet {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM entry").fetch_one(copy).await?;
        if now != entries {
            (entries, since) = (now, Instant::now());
            println!("  {entries} entries rebuilt · 已重建");
        }
    }
    Ok(())
}

/// Every posting as one line, by fact; what a ledger *says*, without numbers and times of booking.
const LINES: &str =
    "SELECT e.msg_key || ' ' || e.kind || ' ' || e.pay_no || ' ' || p.line_no || ' ' || p.side || ' '
            || p.account_code || ' ' || p.amount || ' ' || p.currency
     FROM entry e JOIN posting p ON p.entry_id = e.entry_id ORDER BY e.msg_key COLLATE \"C\", p.line_no";
const BALANCES: &str = "SELECT 'balance ' || account_code || ' ' || SUM(debit) || ' ' || SUM(credit)
     FROM account_balance GROUP BY account_code ORDER BY account_code COLLATE \"C\"";

async fn compare(ledger: &PgPool, copy: &PgPool) -> Result<Vec<String>, sqlx::Error> {
    let mut differing = Vec::new();
    for query in [LINES, BALANCES] {
        let mut ours: BoxStream<'_, _> = sqlx::query_scalar(query).fetch(ledger);
        let mut theirs: BoxStream<'_, _> = sqlx::query_scalar(query).fetch(copy);
        let (mut left, mut right): (Option<String>, Option<String>) =
            (ours.try_next().await?, theirs.try_next().await?);
        while differing.len() < TOLD_MAX && (left.is_some() || right.is_some()) {
            match (&left, &right) {
                (Some(a), Some(b)) if a == b => {
                    left = ours.try_next().await?;
                    right = theirs.try_next().await?;
                }
                (Some(a), b) if b.as_ref().is_none_or(|b| a < b) => {
                    differing.push(format!("only in the ledger: {a}"));
                    left = ours.try_next().await?;
                }
                (_, b) => {
                    differing.extend(b.as_ref().map(|b| format!("only rebuilt: {b}")));
                    right = theirs.try_next().await?;
                }
            }
        }
    }
    Ok(differing)
}
