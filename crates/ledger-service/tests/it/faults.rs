//! When the database is away, and when the books are wrong.

use contract::ledger::{GetBalanceRequest, ListAccountsRequest, TrialBalanceRequest};
use contract::reason::{Reason, of_status};
use service_kit::config::Secret;
use service_kit::pg::PoolSettings;
use test_kit::{Db, Proxy, wait_for};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::{Service, post};

/// A caller is told to ask again, with a time; `/readyz` tells operators; and the service recovers by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_told_as_such_and_recovered_from() {
    let db = Db::ledger().await;
    post(&db, 0..3).await;
    let url = db.url_as("ledger_service");
    let (before, after) = url.expose().rsplit_once('@').unwrap();
    let (server, database) = after.split_once('/').unwrap();
    let proxy = Proxy::start(server).await;
    let url = Secret::new(format!("{before}@{}/{database}", proxy.addr()));
    let pool = PoolSettings { acquire_ms_max: 500, ..PoolSettings::default() };
    let service = Service::start_at(url, pool).await;
    let list = async || service.client().list_accounts(ListAccountsRequest::default()).await;
    list().await.unwrap();
    proxy.cut().await;
    let status = list().await.unwrap_err();
    assert_eq!((status.code(), of_status(&status)), (Code::Unavailable, Some(Reason::Unavailable)));
    assert!(status.get_error_details().retry_info().is_some());
    let ready =
        async || reqwest::get(format!("http://{}/readyz", service.admin)).await.unwrap().status().as_u16();
    assert_eq!(ready().await, 503);
    proxy.restore().await;
    wait_for("the service to answer again", async || list().await.is_ok()).await;
    assert_eq!(ready().await, 200);
}

/// A total that does not fit is an error of ours, never a wrapped number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_total_beyond_64_bits_is_never_told() {
    let db = Db::ledger().await;
    post(&db, 0..1).await;
    sqlx::raw_sql(
        "UPDATE account_balance SET debit = 9223372036854775807 WHERE account_code LIKE 'clearing:%';
         INSERT INTO account_balance VALUES ('clearing:generic:main:CNY', 1, 9223372036854775807, 0)",
    )
    .execute(db.pool())
    .await
    .unwrap();
    let service = Service::start(&db).await;
    let account_code = "clearing:generic:main:CNY".to_owned();
    let request = GetBalanceRequest { account_code, ..Default::default() };
    let status = service.client().get_balance(request).await.unwrap_err();
    assert_eq!(of_status(&status), Some(Reason::Internal));
    let status = service.client().trial_balance(TrialBalanceRequest::default()).await.unwrap_err();
    assert_eq!(of_status(&status), Some(Reason::Internal));
}
