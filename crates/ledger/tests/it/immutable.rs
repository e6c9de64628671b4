//! Invariant 8: every entry balances per currency, and no entry is ever changed, whoever asks.

use sqlx::PgPool;
use test_kit::Db;

use crate::{cny, paid, pool_as, post};

/// The constraint that refused a statement.
async fn refused_by(pool: &PgPool, statement: &'static str) -> Option<String> {
    let error = sqlx::raw_sql(statement).execute(pool).await.expect_err(statement);
    error.as_database_error().and_then(|error| error.constraint()).map(str::to_owned)
}

async fn booked() -> Db {
    let db = Db::ledger().await;
    post(&pool_as(&db, "ledger_consumer"), 0, &[paid("M1", 1, cny(100))]).await;
    db
}

/// The type refuses it too (`posting.rs`); this is for whoever writes past the type. Fails without the trigger
/// `tr_entry_balanced`.
#[tokio::test]
async fn an_unbalanced_entry_is_refused_by_the_database() {
    let db = booked().await;
    let one_sided = "WITH e AS (
        INSERT INTO entry (msg_key, kind, merchant_id, order_no, pay_no, occurred_at)
        VALUES ('K', 'PAY_SUCCEEDED', 'M1', 'O', 'P', now()) RETURNING entry_id
      ) INSERT INTO posting SELECT entry_id, 1, 'payable:M1:CNY', 'C', 5, 'CNY' FROM e";
    assert_eq!(refused_by(db.pool(), one_sided).await.as_deref(), Some("tr_entry_balanced"));
    // Nor by a second statement that adds to an entry in the books.
    let added = "INSERT INTO posting SELECT entry_id, 3, 'payable:M1:CNY', 'C', 5, 'CNY' FROM entry";
    assert_eq!(refused_by(db.pool(), added).await.as_deref(), Some("tr_entry_balanced"));
}

/// An entry whose postings come in a later statement would stand in the books without them for a moment. Fails without
/// the trigger `tr_entry_not_empty`.
#[tokio::test]
async fn an_entry_without_postings_is_refused_by_the_database() {
    let db = booked().await;
    let empty = "INSERT INTO entry (msg_key, kind, merchant_id, order_no, pay_no, occurred_at)
                 VALUES ('K', 'PAY_SUCCEEDED', 'M1', 'O', 'P', now())";
    assert_eq!(refused_by(db.pool(), empty).await.as_deref(), Some("tr_entry_not_empty"));
}

/// An account holds one currency; an amount is positive. Fails without `fk_posting_account`, `ck_posting_positive`.
#[tokio::test]
async fn a_posting_in_another_currency_or_of_nothing_is_refused_by_the_database() {
    let db = booked().await;
    let other = "INSERT INTO posting SELECT entry_id, l, 'payable:M1:CNY', s, 5, 'JPY' FROM entry, (VALUES (3, 'C'), (4, 'D')) v (l, s)";
    assert_eq!(refused_by(db.pool(), other).await.as_deref(), Some("fk_posting_account"));
    let nothing = "INSERT INTO posting SELECT entry_id, 3, 'payable:M1:CNY', 'C', 0, 'CNY' FROM entry";
    assert_eq!(refused_by(db.pool(), nothing).await.as_deref(), Some("ck_posting_positive"));
}

/// Books are corrected by a new entry. Fails without the triggers `tr_immutable`, which bind the owner too.
#[tokio::test]
async fn a_change_to_the_books_is_refused_also_for_the_owner() {
    let db = booked().await;
    for statement in [
        "UPDATE entry SET kind = 'X'",
        "DELETE FROM entry",
        "TRUNCATE entry CASCADE",
        "UPDATE posting SET amount = amount + 1",
        "DELETE FROM posting",
        "TRUNCATE posting",
        // Even where no row would be touched.
        "DELETE FROM posting WHERE FALSE",
    ] {
        assert_eq!(refused_by(db.pool(), statement).await.as_deref(), Some("tr_immutable"), "{statement}");
    }
}

/// The writer's role may add and nothing else; the reader's role may not even add. Fails when the grants are widened.
#[tokio::test]
async fn no_service_may_change_the_books_and_the_reader_may_write_nothing() {
    let db = booked().await;
    let code = async |role: &str, statement: &'static str| {
        let error = sqlx::raw_sql(statement).execute(&pool_as(&db, role)).await.expect_err(statement);
        error.as_database_error().and_then(|error| error.code()).unwrap().into_owned()
    };
    for statement in [
        "UPDATE entry SET kind = 'X'",
        "DELETE FROM posting",
        "TRUNCATE posting",
        "ALTER TABLE posting DISABLE TRIGGER ALL",
        "DELETE FROM idempotent_log",
        "UPDATE account SET normal_side = 'D'",
    ] {
        assert_eq!(code("ledger_consumer", statement).await, "42501", "{statement}");
    }
    // The role is read-only twice: by its default (25006), and by its grants where a session lifts that (42501).
    for statement in [
        "INSERT INTO account VALUES ('x', 'ASSET', 'CNY', 'D')",
        "INSERT INTO entry (msg_key, kind, merchant_id, order_no, pay_no, occurred_at) VALUES ('K', 'X', 'M', 'O', 'P', now())",
        "UPDATE account_balance SET debit = 0",
        "DELETE FROM parked_message",
        "INSERT INTO idempotent_log VALUES ('k', '', 'n')",
        "CREATE TABLE own (x INT)",
    ] {
        assert_eq!(code("ledger_service", statement).await, "25006", "{statement}");
        let mut connection = pool_as(&db, "ledger_service").acquire().await.unwrap();
        sqlx::query("SET default_transaction_read_only = off").execute(&mut *connection).await.unwrap();
        let error = sqlx::raw_sql(statement).execute(&mut *connection).await.expect_err(statement);
        assert_eq!(error.as_database_error().unwrap().code().unwrap(), "42501", "{statement}");
    }
}
