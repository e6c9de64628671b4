//! `payctl outbox`: events that the broker refused for their own sake, and the later ones held behind them.

use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use sqlx::PgPool;

/// Rows that a list shows.
const ROWS_MAX: i64 = 200;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows parked events, and how many later ones of the same order wait behind each.
    List,
    /// Puts a parked event back into the queue.
    Retry { event_id: i64 },
    /// Leaves a parked event out for good; later events of its order flow again. Kept as a resolved anomaly.
    Skip {
        event_id: i64,
        /// Why it may be left out.
        #[arg(long)]
        reason: String,
        /// Who decided.
        #[arg(long)]
        by: String,
    },
}

pub(crate) async fn run(payment: &PgPool, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List => list(payment).await?,
        Command::Retry { event_id } => retry(payment, event_id).await?,
        Command::Skip { event_id, reason, by } => skip(payment, event_id, &reason, &by).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(payment: &PgPool) -> anyhow::Result<()> {
    let rows: Vec<(i64, String, String, i32, String, i64)> = sqlx::query_as(
        "SELECT p.event_id, e.msg_key, p.partition_key, p.tries, p.error,
                (SELECT COUNT(*) FROM outbox o JOIN payment_event h ON h.bucket = o.bucket AND h.event_id = o.event_id
                 WHERE o.bucket = p.bucket AND h.partition_key = p.partition_key)
         FROM outbox_parked p JOIN payment_event e ON e.bucket = p.bucket AND e.event_id = p.event_id
         ORDER BY p.event_id LIMIT $1",
    )
    .bind(ROWS_MAX)
    .fetch_all(payment)
    .await?;
    println!("{} parked events · 搁置事件", rows.len());
    for (event_id, msg_key, order, tries, error, held) in rows {
        println!(
            "  {event_id:>10}  {msg_key}  order {order}  tries {tries}  held behind it {held}\n{:14}{error}",
            ""
        );
    }
    Ok(())
}

async fn retry(payment: &PgPool, event_id: i64) -> anyhow::Result<()> {
    let moved = sqlx::query(
        "WITH back AS (DELETE FROM outbox_parked WHERE event_id = $1 RETURNING bucket, event_id, shard)
         INSERT INTO outbox (bucket, event_id, shard) SELECT bucket, event_id, shard FROM back",
    )
    .bind(event_id)
    .execute(payment)
    .await?;
    if moved.rows_affected() != 1 {
        bail!("event {event_id} is not parked: see `payctl outbox list`");
    }
    println!("event {event_id} is queued again");
    Ok(())
}

async fn skip(payment: &PgPool, event_id: i64, reason: &str, by: &str) -> anyhow::Result<()> {
    if reason.trim().is_empty() || by.trim().is_empty() {
        bail!("--reason and --by must say why, and who");
    }
    let mut tx = payment.begin().await?;
    let gone: Option<(String, String)> = sqlx::query_as(
        "WITH gone AS (DELETE FROM outbox_parked WHERE event_id = $1 RETURNING bucket, event_id, error)
         SELECT e.msg_key, g.error FROM gone g JOIN payment_event e ON e.bucket = g.bucket AND e.event_id = g.event_id",
    )
    .bind(event_id)
    .fetch_optional(&mut *tx)
    .await?;
    let Some((msg_key, error)) = gone else {
        bail!("event {event_id} is not parked: see `payctl outbox list`")
    };
    sqlx::query(
        "INSERT INTO anomaly (kind, subject, detail, state, resolved_by, resolved_at, note)
         VALUES ('EVENT_SKIPPED', $1, JSONB_BUILD_OBJECT('error', $2::TEXT), 'RESOLVED', $3, now(), $4)",
    )
    .bind(&msg_key)
    .bind(error)
    .bind(by)
    .bind(reason)
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    println!("{msg_key} is left out; it is kept as an anomaly, resolved by {by}");
    Ok(())
}
