//! Every invariant against a real PostgreSQL: a violation is planted, past the constraint that forbids it, and exactly that
//! finding comes. Fails when a query finds nothing, finds its neighbour's rows, or asks for what no service writes.
#![cfg(test)]

mod arms;
mod books;
mod payment;

use std::collections::BTreeSet;

use audit::{COMPARISONS, Finding, INVARIANTS, audit};
use sqlx::{AssertSqlSafe, PgPool};
use test_kit::Db;

/// What the design books for each fact of the world: key, kind, payment, refund, amount, debit, credit.
const TO_BOOK: &str = "SELECT e.msg_key, e.type, e.aggregate_id, f.refund_no, (e.payload::JSON ->> 'amount')::BIGINT, s.debit, s.credit
    FROM payment_event e
    LEFT JOIN refund f ON f.refund_no = e.payload::JSON ->> 'refundNo'
    CROSS JOIN LATERAL (SELECT 'clearing:generic:main:CNY' AS clearing, 'suspense:generic:main:CNY' AS suspense,
                               'transit:generic:main:CNY' AS transit,
                               CASE f.kind WHEN 'PAYMENT' THEN 'payable:M1:CNY' ELSE 'suspense:generic:main:CNY' END AS source) AS a
    JOIN LATERAL (VALUES ('PAY_SUCCEEDED', a.clearing, 'payable:M1:CNY'), ('RECEIPT_UNEXPECTED', a.clearing, a.suspense),
                         ('RECEIPT_WITHDRAWN', a.suspense, a.clearing), ('REFUND_SUBMITTED', a.source, a.transit),
                         ('REFUND_SUCCEEDED', a.transit, a.clearing), ('REFUND_FAILED', a.transit, a.source),
                         ('REFUND_RETURNED', a.clearing, a.source)) AS s (type, debit, credit) ON s.type = e.type
    ORDER BY e.event_id";

/// Where a violation is planted.
pub(crate) enum Step {
    /// In the payments, before they are booked: the books follow.
    First(&'static str),
    /// In the payments, behind the back of the books.
    Payment(&'static str),
    /// In the books.
    Ledger(&'static str),
}

/// Both databases, with the small world in them.
pub(crate) struct World {
    pub(crate) payment: Db,
    ledger: Db,
}

impl World {
    pub(crate) async fn with(steps: &[Step]) -> Self {
        let world = Self { payment: Db::payment().await, ledger: Db::ledger().await };
        run(world.payment.pool(), include_str!("payment.sql")).await;
        run(world.ledger.pool(), include_str!("ledger.sql")).await;
        for step in steps {
            if let Step::First(statements) = step {
                run(world.payment.pool(), statements).await;
            }
        }
        world.book().await;
        for step in steps {
            match step {
                Step::First(_) => {}
                Step::Payment(statements) => run(world.payment.pool(), statements).await,
                Step::Ledger(statements) => run(world.ledger.pool(), statements).await,
            }
        }
        world
    }

    async fn book(&self) {
        type Line = (String, String, String, Option<String>, i64, String, String);
        let lines: Vec<Line> = sqlx::query_as(TO_BOOK).fetch_all(self.payment.pool()).await.unwrap();
        for (key, kind, pay_no, refund_no, amount, debit, credit) in lines {
            sqlx::query("SELECT world_entry($1, $2, $3, $4, $5, $6, $7)")
                .bind(key)
                .bind(kind)
                .bind(pay_no)
                .bind(refund_no)
                .bind(amount)
                .bind(debit)
                .bind(credit)
                .execute(self.ledger.pool())
                .await
                .unwrap();
        }
    }

    /// What the audit finds, rows sorted.
    pub(crate) async fn findings(&self) -> Vec<Finding> {
        let mut findings = audit(self.payment.pool(), self.ledger.pool()).await.unwrap();
        findings.iter_mut().for_each(|finding| finding.rows.sort());
        findings
    }
}

async fn run(pool: &PgPool, statements: &'static str) {
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(pool).await.unwrap();
}

/// The plant is found by its rule, by its rows, and by nothing else.
pub(crate) async fn planted(number: u8, rule: &str, steps: &[Step], rows: &[&str]) {
    let found = World::with(steps).await.findings().await;
    let found: Vec<_> = found.iter().map(|f| (f.number, f.rule, f.rows.clone())).collect();
    let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
    assert_eq!(found, [(number, rule, rows)]);
}

/// One test for each plant, and the list of the rules that are tried.
macro_rules! plants {
    ($($name:ident: $number:literal, $rule:literal, [$($step:expr),+ $(,)?] => [$($row:literal),+];)+) => {
        $(#[tokio::test]
        async fn $name() {
            crate::planted($number, $rule, &[$($step),+], &[$($row),+]).await;
        })+
        pub(crate) const RULES: &[&str] = &[$($rule),+];
    };
}
pub(crate) use plants;

/// Nothing is found where nothing is, and nothing in a world in every state.
#[tokio::test]
async fn clean_databases_give_no_finding() {
    let (payment, ledger) = (Db::payment().await, Db::ledger().await);
    assert_eq!(audit(payment.pool(), ledger.pool()).await.unwrap(), []);
    assert_eq!(World::with(&[]).await.findings().await, []);
}

/// A new invariant comes with a plant of its own.
#[test]
fn every_invariant_is_tried() {
    let rules = INVARIANTS.iter().map(|invariant| invariant.rule).chain(COMPARISONS.map(|(_, rule)| rule));
    let tried = payment::RULES.iter().chain(books::RULES).copied().chain([books::CURRENCY_RULE]);
    assert_eq!(rules.collect::<BTreeSet<_>>(), tried.collect::<BTreeSet<_>>());
}

/// Rows beyond the limit are cut, not told.
#[tokio::test]
async fn a_finding_tells_a_bounded_number_of_rows() {
    let steps = [Step::Payment(
        "INSERT INTO idempotent_log SELECT 'PAY:CREATE:M1:stray-' || n, '', 'P-none' FROM generate_series(1, 50) AS n",
    )];
    let found = World::with(&steps).await.findings().await;
    assert_eq!(found.iter().map(|finding| finding.rows.len()).collect::<Vec<_>>(), [audit::ROWS_TOLD_MAX]);
}
