//! What operators do about refunds, as they run it: the program beside real databases, and a core that answers as told.
#![cfg(test)]

mod core;
mod refund;
mod trace;

use std::process::{Command, Output};

use sqlx::{AssertSqlSafe, PgPool};
use test_kit::Db;

/// Both databases with the small world of the audit's tests: payments, receipts and refunds in every state.
struct World {
    payment: Db,
    ledger: Db,
}

impl World {
    async fn new() -> Self {
        let world = Self { payment: Db::payment().await, ledger: Db::ledger().await };
        run(world.payment.pool(), include_str!("../../../audit/tests/it/payment.sql")).await;
        run(world.ledger.pool(), include_str!("../../../audit/tests/it/ledger.sql")).await;
        world
    }

    /// Runs `payctl` on these databases; gives what it printed.
    async fn payctl(&self, core: &str, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_payctl"));
        command
            .args(words)
            .env("PAYMENT_DATABASE_URL", self.payment.url_as("oncepay").expose())
            .env("LEDGER_DATABASE_URL", self.ledger.url_as("oncepay").expose())
            .env("PAYMENT_CORE_URL", core);
        let run = tokio::task::spawn_blocking(move || command.output().unwrap());
        let Output { status, stdout, stderr } = run.await.unwrap();
        let text = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (status.success(), text)
    }
}

async fn run(pool: &PgPool, statements: &'static str) {
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(pool).await.unwrap();
}

/// The one line that begins like this.
fn line<'a>(text: &'a str, start: &str) -> &'a str {
    let mut found = text.lines().filter(|line| line.trim_start().starts_with(start));
    let line = found.next().unwrap_or_else(|| panic!("no line begins with {start}:\n{text}"));
    assert_eq!(found.next(), None, "one line begins with {start}:\n{text}");
    line
}
