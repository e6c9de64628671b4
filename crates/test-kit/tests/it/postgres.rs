use std::str::FromStr as _;

use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use test_kit::Db;

/// Each test has its own tables: rows of one database are not in another.
#[tokio::test]
async fn two_databases_share_nothing_and_are_migrated() {
    let (one, two) = (Db::payment().await, Db::payment().await);
    let key = "INSERT INTO idempotent_log (biz_key, request_hash, result_no) VALUES ('k', '', 'n')";
    sqlx::query(key).execute(one.pool()).await.unwrap();
    let count = "SELECT count(*) FROM idempotent_log";
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(one.pool()).await.unwrap(), 1);
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(two.pool()).await.unwrap(), 0);
}

/// A service's address gives that service's rights and no more.
#[tokio::test]
async fn an_address_as_a_role_has_that_roles_grants() {
    let db = Db::ledger().await;
    let options = PgConnectOptions::from_str(db.url_as("ledger_service").expose()).unwrap();
    let mut reader = PgConnection::connect_with(&options).await.unwrap();
    sqlx::query("SELECT 1 FROM entry").execute(&mut reader).await.unwrap();
    sqlx::query("DELETE FROM account").execute(&mut reader).await.unwrap_err();
    reader.close().await.unwrap();
}

/// A database goes with its test.
#[tokio::test]
async fn a_dropped_database_is_gone() {
    let kept = Db::ledger().await;
    let dropped = Db::ledger().await;
    let name = dropped.name().to_owned();
    drop(dropped);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_database WHERE datname = $1")
        .bind(name)
        .fetch_one(kept.pool())
        .await
        .unwrap();
    assert_eq!(left, 0);
}
