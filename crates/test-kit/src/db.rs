//! A database for each test, copied from a migrated template.
//!
//! The template's name holds a hash of the migrations, so it is made once for each shape of the schema, by whichever test
//! comes first; an advisory lock makes the others wait, also those of other processes.

use std::str::FromStr as _;
use std::time::Duration;

use service_kit::config::Secret;
use sha2::{Digest as _, Sha256};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::{background, env, name};

/// Connections of a test's own pool; services under test bring their own.
const POOL_CONNECTIONS_MAX: u32 = 8;
/// Key of the lock under which templates are made: "template", the first seven letters.
const TEMPLATE_LOCK: i64 = 0x0074_656d_706c_6174;
/// Tries to make a database before giving up; a try fails when another checkout removes a template between two steps.
const CREATE_TRIES_MAX: usize = 5;

#[derive(Debug, Clone, Copy)]
enum Schema {
    Payment,
    Ledger,
}

impl Schema {
    fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Ledger => "ledger",
        }
    }

    fn test_prefix(self) -> String {
        format!("oncepay_test_{}", self.name())
    }

    fn template_prefix(self) -> String {
        format!("oncepay_template_{}", self.name())
    }
}

/// A database of one test, dropped with it.
#[derive(Debug)]
pub struct Db {
    name: String,
    pool: PgPool,
}

impl Db {
    /// A migrated database `payment`.
    pub async fn payment() -> Self {
        Self::create(Schema::Payment).await
    }

    /// A migrated database `ledger`.
    pub async fn ledger() -> Self {
        Self::create(Schema::Ledger).await
    }

    /// A pool of the tables' owner, for arranging and looking.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of this database for a service's role (`payment_core`, `outbox_relay`, `ledger_consumer`,
    /// `ledger_service`) or for the owner (`oncepay`).
    ///
    /// # Panics
    /// When there is no such role.
    #[must_use]
    pub fn url_as(&self, role: &str) -> Secret {
        let variable = match role {
            "payment_core" | "outbox_relay" | "ledger_consumer" | "ledger_service" => {
                format!("ONCEPAY_{}__DATABASE_URL", role.to_uppercase())
            }
            "oncepay" => "TEST_DATABASE_URL".to_owned(),
            _ => panic!("there is no database role {role}"),
        };
        Secret::new(with_database(&env::address(&variable), &self.name))
    }

    async fn create(schema: Schema) -> Self {
        let mut admin = admin().await;
        let name = name::unique(&schema.test_prefix());
        let mut tries = 0_usize;
        loop {
            let template = template(&mut admin, schema).await;
            let statement = format!(r#"CREATE DATABASE "{name}" TEMPLATE "{template}""#);
            tries = tries.saturating_add(1);
            match run(&mut admin, &statement).await {
                Ok(()) => break,
                Err(error) => assert!(tries < CREATE_TRIES_MAX, "cannot make a test database: {error}"),
            }
        }
        drop(admin.close().await);
        let options = options(&with_database(&env::address("TEST_DATABASE_URL"), &name));
        let pool = PgPoolOptions::new()
            .max_connections(POOL_CONNECTIONS_MAX)
            .acquire_timeout(Duration::from_secs(30))
            .connect_lazy_with(options);
        Self { name, pool }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        let name = self.name.clone();
        background::finish(async move {
            let mut admin = admin().await;
            drop_database(&mut admin, &name).await;
        });
    }
}

async fn admin() -> PgConnection {
    PgConnection::connect_with(&options(&env::address("TEST_DATABASE_URL"))).await.unwrap_or_else(|error| {
        panic!("the test stack's PostgreSQL does not answer, run `make test`: {error}")
    })
}

fn options(url: &str) -> PgConnectOptions {
    PgConnectOptions::from_str(url).expect("the stack's database address can be read")
}

/// The same address with another database.
fn with_database(url: &str, database: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let (server, _) = address.rsplit_once('/').expect("a database address names its database");
    query.map_or_else(|| format!("{server}/{database}"), |query| format!("{server}/{database}?{query}"))
}

async fn run(connection: &mut PgConnection, statement: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(connection).await.map(|_| ())
}

async fn drop_database(admin: &mut PgConnection, name: &str) {
    let statement = format!(r#"DROP DATABASE IF EXISTS "{name}" WITH (FORCE)"#);
    if let Err(error) = run(admin, &statement).await {
        eprintln!("the test database {name} stays for a later run to remove: {error}");
    }
}

/// The name of the template with the newest schema; made if it is not there.
async fn template(admin: &mut PgConnection, schema: Schema) -> String {
    let hash = migrations_hash(schema);
    if let Some(name) = find_template(admin, schema, &hash).await {
        return name;
    }
    sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut *admin).await.unwrap();
    let name = match find_template(admin, schema, &hash).await {
        Some(name) => name,
        None => make_template(admin, schema, &hash).await,
    };
    remove_left_behind(admin, schema, &hash).await;
    sqlx::query("SELECT pg_advisory_unlock($1)").bind(TEMPLATE_LOCK).execute(&mut *admin).await.unwrap();
    name
}

async fn names_with_prefix(admin: &mut PgConnection, prefix: &str) -> Vec<String> {
    sqlx::query_scalar("SELECT datname::TEXT FROM pg_database WHERE starts_with(datname::TEXT, $1)")
        .bind(format!("{prefix}_"))
        .fetch_all(admin)
        .await
        .unwrap()
}

async fn find_template(admin: &mut PgConnection, schema: Schema, hash: &str) -> Option<String> {
    let names = names_with_prefix(admin, &schema.template_prefix()).await;
    names.into_iter().find(|name| name.ends_with(hash))
}

/// Makes the template under a working name and renames it when it is complete: half a template is never found.
async fn make_template(admin: &mut PgConnection, schema: Schema, hash: &str) -> String {
    let name = format!("{}_{}_{hash}", schema.template_prefix(), name::now_seconds());
    let unfinished = name::unique(&schema.test_prefix());
    run(admin, &format!(r#"CREATE DATABASE "{unfinished}""#)).await.unwrap();
    let url = with_database(&env::address("TEST_DATABASE_URL"), &unfinished);
    let mut connection = PgConnection::connect_with(&options(&url)).await.unwrap();
    let folder = env::workspace().join("migrations").join(schema.name());
    let migrator = sqlx::migrate::Migrator::new(folder).await.expect("the migrations can be read");
    if let Err(error) = migrator.run(&mut connection).await {
        panic!("the migrations of {} fail: {error}", schema.name());
    }
    connection.close().await.unwrap();
    run(admin, &format!(r#"ALTER DATABASE "{unfinished}" RENAME TO "{name}""#)).await.unwrap();
    name
}

/// Removes what killed tests left, and templates of older schemas.
async fn remove_left_behind(admin: &mut PgConnection, schema: Schema, hash: &str) {
    for prefix in [schema.test_prefix(), schema.template_prefix()] {
        for name in names_with_prefix(admin, &prefix).await {
            if name::is_left_behind(&name, &prefix) && !name.ends_with(hash) {
                drop_database(admin, &name).await;
            }
        }
    }
}

fn migrations_hash(schema: Schema) -> String {
    let folder = env::workspace().join("migrations").join(schema.name());
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update([0]);
        hash.update(std::fs::read(&file).unwrap());
    }
    hex::encode(hash.finalize()).get(..16).expect("a digest is longer").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_an_address_changes() {
        assert_eq!(with_database("postgres://u:p@h:1/a?x=1/2", "b"), "postgres://u:p@h:1/b?x=1/2");
        assert_eq!(with_database("postgres://u@h/a", "b"), "postgres://u@h/b");
    }
}
