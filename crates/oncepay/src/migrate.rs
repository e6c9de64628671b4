//! Migrations, built into the binary.

use anyhow::Context as _;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgPoolOptions;

static PAYMENT: Migrator = sqlx::migrate!("../../migrations/payment");
static LEDGER: Migrator = sqlx::migrate!("../../migrations/ledger");

/// Brings both databases to the newest schema; safe to run twice, and by two at once.
pub(crate) async fn run(payment_url: &str, ledger_url: &str) -> anyhow::Result<()> {
    for (name, url, migrator) in [("payment", payment_url, &PAYMENT), ("ledger", ledger_url, &LEDGER)] {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect(url)
            .await
            .with_context(|| format!("database {name} does not answer"))?;
        migrator.run(&pool).await.with_context(|| format!("database {name} could not be migrated"))?;
        tracing::info!(database = name, migrations = migrator.iter().count(), "schema is up to date");
    }
    Ok(())
}
