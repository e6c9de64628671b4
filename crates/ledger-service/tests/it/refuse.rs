//! Wrong questions are refused with their field and rule, before the database is asked.

use contract::ledger::get_entry_request::By;
use contract::ledger::{
    ExportEntriesRequest, GetBalanceRequest, GetEntryRequest, ListAccountsRequest, ListEntriesRequest,
    TrialBalanceRequest,
};
use contract::reason::{Reason, of_status};
use prost_types::Timestamp;
use test_kit::Db;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{Service, at, post};

/// The one field that a refusal names.
fn field(status: &Status) -> String {
    assert_eq!((status.code(), of_status(status)), (Code::InvalidArgument, Some(Reason::FieldInvalid)));
    status.get_error_details().bad_request().unwrap().field_violations[0].field.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_list_names_its_field() {
    let db = Db::ledger().await;
    let service = Service::start(&db).await;
    let mut client = service.client();
    for (page_size, page_token, code_prefix, wanted) in [
        (-1, "", "", "page_size"),
        (501, "", "", "page_size"),
        (0, "xyz", "", "page_token"),
        (0, "00", "", "page_token"),
        (0, "", "a\0", "code_prefix"),
    ] {
        let request =
            ListAccountsRequest { page_size, page_token: page_token.into(), code_prefix: code_prefix.into() };
        assert_eq!(field(&client.list_accounts(request).await.unwrap_err()), wanted);
    }
    let filters = [
        (ListEntriesRequest { page_size: -5, ..Default::default() }, "page_size"),
        (ListEntriesRequest { page_token: "ff".into(), ..Default::default() }, "page_token"),
        // A token of the list of accounts.
        (ListEntriesRequest { page_token: "7061".into(), ..Default::default() }, "page_token"),
        (ListEntriesRequest { pay_no: "\0".into(), ..Default::default() }, "pay_no"),
        (ListEntriesRequest { order_no: "O1".into(), ..Default::default() }, "merchant_id"),
    ];
    for (request, wanted) in filters {
        assert_eq!(field(&client.list_entries(request).await.unwrap_err()), wanted);
    }
}

/// A time that PostgreSQL could not take is refused as the caller's fault, not told as ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_time_names_its_field() {
    let db = Db::ledger().await;
    post(&db, 0..1).await;
    let service = Service::start(&db).await;
    let mut client = service.client();
    for seconds in [i64::MIN, -62_135_596_801, 253_402_300_800, i64::MAX] {
        let as_of = Some(Timestamp { seconds, nanos: 0 });
        let request = TrialBalanceRequest { as_of, basis: 2 };
        assert_eq!(field(&client.trial_balance(request).await.unwrap_err()), "as_of", "{seconds}");
        let account_code = "payable:M0:CNY".to_owned();
        let request = GetBalanceRequest { account_code, as_of, basis: 1 };
        assert_eq!(field(&client.get_balance(request).await.unwrap_err()), "as_of", "{seconds}");
    }
    for seconds in [-62_135_596_800, 253_402_300_799] {
        let request = TrialBalanceRequest { as_of: Some(Timestamp { seconds, nanos: 0 }), basis: 2 };
        client.trial_balance(request).await.unwrap();
    }
    let request = TrialBalanceRequest { as_of: None, basis: 9 };
    assert_eq!(field(&client.trial_balance(request).await.unwrap_err()), "basis");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_needs_a_period() {
    let db = Db::ledger().await;
    let service = Service::start(&db).await;
    for (from, until, wanted) in [
        (None, Some(at(1)), "from"),
        (Some(at(1)), None, "until"),
        (Some(at(1)), Some(at(1)), "until"),
        (Some(at(2)), Some(at(1)), "until"),
    ] {
        let request = ExportEntriesRequest { from, until, basis: 0 };
        assert_eq!(field(&service.client().export_entries(request).await.unwrap_err()), wanted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_is_not_found() {
    let db = Db::ledger().await;
    let service = Service::start(&db).await;
    let mut client = service.client();
    let request = GetBalanceRequest { account_code: "payable:none:CNY".into(), ..Default::default() };
    let status = client.get_balance(request).await.unwrap_err();
    assert_eq!((status.code(), of_status(&status)), (Code::NotFound, Some(Reason::AccountNotFound)));
    for by in [By::EntryId(0), By::EntryId(i64::MIN), By::MsgKey("no".into()), By::MsgKey(String::new())] {
        let status = client.get_entry(GetEntryRequest { by: Some(by) }).await.unwrap_err();
        assert_eq!((status.code(), of_status(&status)), (Code::NotFound, Some(Reason::EntryNotFound)));
    }
    assert_eq!(field(&client.get_entry(GetEntryRequest { by: None }).await.unwrap_err()), "by");
    let request = GetBalanceRequest { account_code: "a b".into(), ..Default::default() };
    assert_eq!(field(&client.get_balance(request).await.unwrap_err()), "account_code");
}
