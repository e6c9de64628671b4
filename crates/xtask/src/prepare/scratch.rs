//! Databases that live as long as one run.

use std::path::Path;
use std::str::FromStr as _;

use anyhow::Context as _;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

/// Key of the lock that one run holds: "prepared". A second run on the same server waits, so the names can be fixed, and
/// what a killed run left behind is found by the next one.
const LOCK: i64 = 0x7072_6570_6172_6564;

pub(super) struct Scratch {
    options: PgConnectOptions,
    admin: PgConnection,
    made: Vec<String>,
}

impl Scratch {
    /// Connects to the server and waits for its turn.
    pub(super) async fn begin(server: &str) -> anyhow::Result<Self> {
        let options = PgConnectOptions::from_str(server).context("the database address cannot be read")?;
        let mut admin =
            options.connect().await.context("PostgreSQL does not answer: start it with `make test`")?;
        sqlx::query("SELECT pg_advisory_lock($1)").bind(LOCK).execute(&mut admin).await?;
        Ok(Self { options, admin, made: Vec::new() })
    }

    /// Makes a database by its migrations; gives its address.
    pub(super) async fn make(&mut self, name: &str, migrations: &Path) -> anyhow::Result<String> {
        let name = format!("oncepay_prepare_{name}");
        self.drop_database(&name).await?;
        self.admin_statement(&format!(r#"CREATE DATABASE "{name}""#)).await?;
        self.made.push(name.clone());
        let options = self.options.clone().database(&name);
        let mut connection = options.connect().await?;
        let migrator = Migrator::new(migrations)
            .await
            .with_context(|| format!("{} cannot be read", migrations.display()))?;
        migrator.run(&mut connection).await.with_context(|| format!("{} fails", migrations.display()))?;
        connection.close().await?;
        Ok(options.to_url_lossy().to_string())
    }

    /// Drops what was made; the lock goes with the connection.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        for name in std::mem::take(&mut self.made) {
            self.drop_database(&name).await?;
        }
        self.admin.close().await.context("PostgreSQL went away")
    }

    async fn drop_database(&mut self, name: &str) -> anyhow::Result<()> {
        self.admin_statement(&format!(r#"DROP DATABASE IF EXISTS "{name}" WITH (FORCE)"#)).await
    }

    async fn admin_statement(&mut self, statement: &str) -> anyhow::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
            .execute(&mut self.admin)
            .await
            .with_context(|| format!("{statement} fails"))?;
        Ok(())
    }
}
