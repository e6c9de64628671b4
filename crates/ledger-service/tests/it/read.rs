//! What finance sees.

use contract::ledger::get_entry_request::By;
use contract::ledger::{
    ExportEntriesRequest, GetBalanceRequest, GetEntryRequest, ListAccountsRequest, ListEntriesRequest, Side,
    TimeBasis, TrialBalanceRequest,
};
use service_kit::pg::PoolSettings;
use test_kit::{Db, wait_for};

use crate::{Service, at, paid, post};

/// Every page size walks over every entry once, newest first, under each filter; the last page has no token. Fails when
/// the token's row is repeated or passed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_cover_every_entry_once() {
    let db = Db::ledger().await;
    post(&db, 0..30).await;
    let service = Service::start(&db).await;
    let mut client = service.client();
    let filters = [
        (ListEntriesRequest::default(), 30),
        (ListEntriesRequest { merchant_id: "M1".into(), ..Default::default() }, 10),
        (ListEntriesRequest { account_code: "payable:M2:CNY".into(), ..Default::default() }, 10),
        (ListEntriesRequest { pay_no: paid(7).pay_no.to_string(), ..Default::default() }, 1),
        (ListEntriesRequest { merchant_id: "M1".into(), order_no: "O7".into(), ..Default::default() }, 1),
        (ListEntriesRequest { merchant_id: "M2".into(), order_no: "O7".into(), ..Default::default() }, 0),
    ];
    for (filter, wanted) in filters {
        for page_size in [1, 7, 10, 500, 0] {
            let mut ids = Vec::new();
            let mut page_token = String::new();
            loop {
                let request = ListEntriesRequest { page_size, page_token, ..filter.clone() };
                let page = client.list_entries(request).await.unwrap().into_inner();
                ids.extend(page.entries.iter().map(|entry| entry.entry_id));
                page_token = page.next_page_token;
                if page_token.is_empty() {
                    break;
                }
                assert_eq!(page.entries.len(), usize::try_from(page_size).unwrap());
            }
            assert_eq!(ids.len(), wanted, "{filter:?} by {page_size}");
            assert!(ids.is_sorted_by(|a, b| a > b), "{filter:?} by {page_size}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_cover_every_account_once() {
    let db = Db::ledger().await;
    post(&db, 0..3).await;
    let service = Service::start(&db).await;
    let mut client = service.client();
    for page_size in [1, 2, 3, 4, 5] {
        let (mut codes, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = ListAccountsRequest { page_size, page_token, ..Default::default() };
            let page = client.list_accounts(request).await.unwrap().into_inner();
            codes.extend(page.accounts.into_iter().map(|account| account.code));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let all = ["clearing:generic:main:CNY", "payable:M0:CNY", "payable:M1:CNY", "payable:M2:CNY"];
        assert_eq!(codes, all, "by {page_size}");
    }
    let request = ListAccountsRequest { code_prefix: "payable:M1".into(), ..Default::default() };
    assert_eq!(client.list_accounts(request).await.unwrap().into_inner().accounts.len(), 1);
}

/// A balance now, and as of a time by both clocks: numbers 0 to 9 were booked first, 10 to 19 later, and each happened at
/// its own second. Fails when the basis is lost on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balances_are_told_now_and_as_of_a_time_by_both_clocks() {
    let db = Db::ledger().await;
    // The later facts are booked first.
    post(&db, 10..20).await;
    let first_booked = contract::timestamp(
        sqlx::query_scalar("SELECT max(posted_at) FROM entry").fetch_one(db.pool()).await.unwrap(),
    );
    post(&db, 0..10).await;
    let service = Service::start(&db).await;
    let balance = async |as_of: Option<prost_types::Timestamp>, basis: TimeBasis| {
        let account_code = "clearing:generic:main:CNY".to_owned();
        let request = GetBalanceRequest { account_code, as_of, basis: basis.into() };
        let balance = service.client().get_balance(request).await.unwrap().into_inner().balance.unwrap();
        assert_eq!(balance.debit - balance.credit, balance.balance);
        balance.balance
    };
    let (early, late) = ((1..=10).sum::<i64>(), (11..=20).sum::<i64>());
    assert_eq!(balance(None, TimeBasis::Unspecified).await, early + late);
    assert_eq!(balance(Some(first_booked), TimeBasis::Unspecified).await, late);
    assert_eq!(balance(Some(first_booked), TimeBasis::Posted).await, late);
    assert_eq!(balance(Some(at(9)), TimeBasis::Occurred).await, early);
    assert_eq!(balance(Some(at(-1)), TimeBasis::Occurred).await, 0);

    // A liability grows on credit.
    let account_code = "payable:M1:CNY".to_owned();
    let request = GetBalanceRequest { account_code, ..Default::default() };
    let payable = service.client().get_balance(request).await.unwrap().into_inner().balance.unwrap();
    assert_eq!((payable.debit, payable.balance), (0, payable.credit));

    for (as_of, basis, total) in [
        (None, TimeBasis::Unspecified, early + late),
        (Some(first_booked), TimeBasis::Posted, late),
        (Some(at(9)), TimeBasis::Occurred, early),
    ] {
        let request = TrialBalanceRequest { as_of, basis: basis.into() };
        let trial = service.client().trial_balance(request).await.unwrap().into_inner();
        assert_eq!(trial.lines.len(), 4);
        assert_eq!(
            (trial.totals[0].debit, trial.totals[0].credit, trial.totals[0].difference),
            (total, total, 0)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_is_found_by_number_and_by_key_with_its_postings() {
    let db = Db::ledger().await;
    post(&db, 0..3).await;
    let service = Service::start(&db).await;
    let get = async |by| {
        let request = GetEntryRequest { by: Some(by) };
        service.client().get_entry(request).await.unwrap().into_inner().entry.unwrap()
    };
    let entry = get(By::MsgKey(paid(1).msg_key.to_string())).await;
    assert_eq!(get(By::EntryId(entry.entry_id)).await, entry);
    assert_eq!((entry.order_no.as_str(), entry.occurred_at), ("O1", Some(at(1))));
    let lines: Vec<_> =
        entry.postings.iter().map(|p| (p.line_no, p.account_code.as_str(), p.side(), p.amount)).collect();
    let wanted = [(1, "clearing:generic:main:CNY", Side::Debit, 2), (2, "payable:M1:CNY", Side::Credit, 2)];
    assert_eq!(lines, wanted);
}

/// An export longer than two chunks has each entry of the period once, oldest first. All of a batch share one booking
/// time, so the number must be part of the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_has_each_entry_of_its_period_once_oldest_first() {
    let db = Db::ledger().await;
    post(&db, 600..1300).await;
    post(&db, 0..600).await;
    let service = Service::start(&db).await;
    let export = async |from, until, basis: TimeBasis| {
        let request = ExportEntriesRequest { from: Some(from), until: Some(until), basis: basis.into() };
        let mut stream = service.client().export_entries(request).await.unwrap().into_inner();
        let mut entries = Vec::new();
        while let Some(response) = stream.message().await.unwrap() {
            entries.push(response.entry.unwrap());
        }
        entries
    };
    let all = export(at(-10), at(1_000_000_000), TimeBasis::Posted).await;
    assert_eq!(all.len(), 1300);
    let key = |entry: &contract::ledger::Entry| {
        let posted_at = entry.posted_at.unwrap();
        (posted_at.seconds, posted_at.nanos, entry.entry_id)
    };
    assert!(all.is_sorted_by(|a, b| key(a) < key(b)));
    let part = export(at(100), at(1200), TimeBasis::Occurred).await;
    let seconds: Vec<_> = part.iter().map(|entry| entry.occurred_at.unwrap().seconds).collect();
    let wanted: Vec<_> = (100..1200).map(|second| at(second).seconds).collect();
    assert_eq!(seconds, wanted, "the first second belongs, the last does not");
}

/// An export that nobody reads on holds neither rows nor a connection: with one connection in the pool the other calls go
/// on. Fails when the export keeps a cursor open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_export_holds_no_connection() {
    let db = Db::ledger().await;
    post(&db, 0..2000).await;
    let pool = PoolSettings { connections_max: 1, ..PoolSettings::default() };
    let service = Service::start_at(db.url_as("ledger_service"), pool).await;
    let request =
        ExportEntriesRequest { from: Some(at(0)), until: Some(at(5000)), basis: TimeBasis::Occurred.into() };
    let mut stream = service.client().export_entries(request).await.unwrap().into_inner();
    let mut read = usize::from(stream.message().await.unwrap().is_some());
    for _ in 0..5 {
        service.client().trial_balance(TrialBalanceRequest::default()).await.unwrap();
    }
    while stream.message().await.unwrap().is_some() {
        read += 1;
    }
    assert_eq!(read, 2000);
}

/// The gauges that must be zero are told, and show what is wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_difference_and_parked_messages_are_shown_to_operators() {
    let db = Db::ledger().await;
    post(&db, 0..3).await;
    // Behind the service's back, in a currency that no other test of this process has.
    sqlx::raw_sql(
        "INSERT INTO account VALUES ('x', 'ASSET', 'XOF', 'D');
         INSERT INTO account_balance VALUES ('x', 0, 7, 3)",
    )
    .execute(db.pool())
    .await
    .unwrap();
    let service = Service::start(&db).await;
    wait_for("the gauges", async || {
        let url = format!("http://{}/metrics", service.admin);
        let text = reqwest::get(url).await.unwrap().text().await.unwrap();
        text.contains("oncepay_trial_balance_difference{currency=\"XOF\"} 4")
            && text.contains("oncepay_parked_messages 0")
    })
    .await;
}
