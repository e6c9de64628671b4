//! The yardstick: the same rows as one creation, in one transaction, by PostgreSQL's own load generator.

use std::str::FromStr as _;

use anyhow::{Context as _, bail};
use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use tokio::process::Command;

/// One creation's rows: log, payment, event, outbox. Numbers are made by the server, so that clients never collide.
const SCRIPT: &str = "\
\\set bucket random(0, 1023)
BEGIN;
INSERT INTO idempotent_log (biz_key, request_hash, result_no)
  VALUES ('BENCH:' || gen_random_uuid(), decode(repeat('ab', 69), 'hex'), 'B') ON CONFLICT DO NOTHING;
INSERT INTO payment (bucket, pay_no, merchant_id, order_no, attempt_no, amount, currency, channel, channel_account,
                     subject, expire_at, next_query_at)
  VALUES (:bucket, 'B' || gen_random_uuid(), 'pgbench', 'O' || gen_random_uuid(), 1, 1999, 'CNY', 'generic', 'main',
          'bench', now(), now() + interval '1 year') ON CONFLICT DO NOTHING;
WITH new AS (
  INSERT INTO payment_event (bucket, msg_key, aggregate_type, aggregate_id, type, to_state, version, cause,
                             partition_key, payload)
  VALUES (:bucket, 'BENCH:' || gen_random_uuid(), 'bench', 'B', 'BENCH', 'PROCESSING', 1, 'BENCH', 'pgbench-O',
          repeat('x', 500)) RETURNING bucket, event_id)
INSERT INTO outbox (bucket, event_id, shard) SELECT bucket, event_id, bucket / 64 FROM new;
COMMIT;
";
/// Where the yardstick's rows go: a database of its own beside ours, of the same schema, on the same disk.
const DATABASE: &str = "payment_bench";
static SCHEMA: Migrator = sqlx::migrate!("../../migrations/payment");

/// Transactions a second, whole ones.
pub(crate) async fn run(url: &str, clients: usize, seconds: u64) -> anyhow::Result<u64> {
    let owner = PgConnectOptions::from_str(url)?;
    let mut admin = owner.connect().await?;
    admin.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {DATABASE}"))).await?;
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {DATABASE}"))).await?;
    let mut bench = owner.database(DATABASE).connect().await?;
    SCHEMA.run(&mut bench).await?;
    bench.close().await?;
    let address = url
        .rsplit_once('/')
        .map(|(server, _)| format!("{server}/{DATABASE}"))
        .context("no database address")?;
    let script = std::env::temp_dir().join(format!("oncepay-bench-{:08x}.sql", rand::random::<u32>()));
    std::fs::write(&script, SCRIPT)?;
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
        .arg(format!("--client={clients}"))
        .arg(format!("--time={seconds}"))
        .arg(format!("--file={}", script.display()))
        .arg(address)
        .output()
        .await;
    std::fs::remove_file(&script)?;
    let output = output.context("pgbench cannot be run: it comes with PostgreSQL's server package")?;
    if !output.status.success() {
        bail!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    admin.execute(AssertSqlSafe(format!("DROP DATABASE {DATABASE}"))).await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(['.', ' ']).next()?.parse().ok())
        .with_context(|| format!("pgbench told no rate: {text}"))
}
