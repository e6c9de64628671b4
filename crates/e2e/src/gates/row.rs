//! Rows of the table: which gates are off, and what else is taken away in the row's own databases.

use pay_types::Gate;
use sqlx::{AssertSqlSafe, PgPool};

use super::Scenario;
use crate::Stack;

/// One row.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    /// Which guards are removed, for people.
    pub removed: &'static str,
    pub off: &'static [Gate],
    /// G1 off: clients make a new key for each retry.
    pub fresh_keys: bool,
    payment_sql: &'static str,
    ledger_sql: &'static str,
    /// Scenarios that must fail; none: nothing may change.
    pub must_fail: &'static [Scenario],
}

const ON: Row = Row {
    name: "all on · 全开",
    removed: "nothing",
    off: &[],
    fresh_keys: false,
    payment_sql: "",
    ledger_sql: "",
    must_fail: &[],
};

/// The key's uniqueness is voided, not dropped: the statement names it in ON CONFLICT. An earlier entry of the same key gives
/// its key away just before the next one is inserted.
const VOID_ENTRY_KEY: &str = "
    DROP TRIGGER tr_immutable ON entry;
    CREATE FUNCTION give_key_away() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        UPDATE entry SET msg_key = msg_key || '#' || entry_id WHERE msg_key = NEW.msg_key;
        RETURN NEW;
    END $$;
    CREATE TRIGGER tr_give_key_away BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION give_key_away()";

/// All rows, in the order of the table.
pub const ROWS: &[Row] = &[
    ON,
    Row { name: "G1 off", removed: "clients make a new key for each retry", fresh_keys: true, ..ON },
    Row { name: "G2 off", removed: "single flight", off: &[Gate::G2], ..ON },
    Row { name: "G3 off", removed: "lease", off: &[Gate::G3], ..ON },
    Row {
        name: "G1 G2 G3 off",
        removed: "new keys, single flight, lease: the database alone",
        off: &[Gate::G2, Gate::G3],
        fresh_keys: true,
        ..ON
    },
    Row {
        name: "G4 off",
        removed: "claim of the key in idempotent_log",
        off: &[Gate::G4],
        must_fail: &[Scenario::KeyReused],
        ..ON
    },
    Row {
        name: "G5 off",
        removed: "uk_order_attempt, uk_order_live",
        payment_sql: "ALTER TABLE payment DROP CONSTRAINT uk_order_attempt; DROP INDEX uk_order_live",
        must_fail: &[Scenario::TwoDevices, Scenario::TwoAttempts],
        ..ON
    },
    Row { name: "G6 half off", removed: "compare-and-set; tr_terminal_state holds", off: &[Gate::G6], ..ON },
    Row {
        name: "G6 off",
        removed: "compare-and-set, tr_terminal_state",
        off: &[Gate::G6],
        payment_sql: "DROP TRIGGER tr_terminal_state ON payment",
        must_fail: &[Scenario::LateClosed],
        ..ON
    },
    Row {
        name: "G7 off",
        removed: "business state before the effect",
        off: &[Gate::G7],
        must_fail: &[Scenario::NoticeStorm],
        ..ON
    },
    Row { name: "G8 half off (1)", removed: "CONSUME mark; uk_entry_msg_key holds", off: &[Gate::G8], ..ON },
    Row {
        name: "G8 half off (2)",
        removed: "uk_entry_msg_key voided; the mark holds",
        ledger_sql: VOID_ENTRY_KEY,
        ..ON
    },
    Row {
        name: "G8 off",
        removed: "CONSUME mark, uk_entry_msg_key voided",
        off: &[Gate::G8],
        ledger_sql: VOID_ENTRY_KEY,
        must_fail: &[Scenario::EventTwice],
        ..ON
    },
];

impl Row {
    /// Takes away what stands in the databases of the row's own stack.
    pub(super) async fn remove_guards(&self, stack: &Stack) {
        run(stack.payments(), self.payment_sql).await;
        run(stack.books(), self.ledger_sql).await;
    }
}

async fn run(pool: &PgPool, sql: &'static str) {
    if !sql.is_empty() {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.expect("the row's owner may change its tables");
    }
}
