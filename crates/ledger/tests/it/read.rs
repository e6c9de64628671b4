//! Pages, single entries, periods, limits.

use ledger::store::report::entry::{self, Filter, Period};
use ledger::store::report::{Basis, Error, account, balance, health};
use ledger::{BalancedEntry, EntryId};
use sqlx::PgConnection;
use test_kit::Db;

use crate::{at, cny, entry as new_entry, paid, payable, pool_as, post};

async fn books() -> Db {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    for round in 0..5_u32 {
        let batch: Vec<_> =
            (0..7_u32).map(|n| paid(&format!("M{}", n % 3), round * 7 + n, cny(i64::from(n) + 1))).collect();
        post(&pool, 0, &batch).await;
    }
    db
}

/// All pages of a filter, `rows` at a time, by entry number.
async fn pages(conn: &mut PgConnection, filter: &Filter, rows: usize) -> Vec<EntryId> {
    let mut all = Vec::new();
    loop {
        let page = entry::page(conn, filter, all.last().copied(), rows).await.unwrap();
        if page.is_empty() {
            return all;
        }
        assert!(page.len() <= rows);
        all.extend(page.iter().map(|entry| entry.entry_id));
    }
}

/// Every page size walks over every entry once, newest first, under each filter. Fails when the page's key is not
/// unique or not strict.
#[tokio::test]
async fn pages_cover_every_entry_once_newest_first() {
    let db = books().await;
    let pool = pool_as(&db, "ledger_service");
    let mut conn = pool.acquire().await.unwrap();
    let merchant = |id: &str| Filter { merchant_id: Some(id.to_owned()), ..Filter::default() };
    let account = |code: &str| Filter { account_code: Some(code.to_owned()), ..Filter::default() };
    let filters = [
        (Filter::default(), 35),
        (merchant("M0"), 15),
        (merchant("M9"), 0),
        (account("payable:M1:CNY"), 10),
        (account("clearing:generic:main:CNY"), 35),
        (Filter { merchant_id: Some("M2".to_owned()), ..account("clearing:generic:main:CNY") }, 10),
        (Filter { order_no: Some("O8".to_owned()), ..merchant("M1") }, 1),
    ];
    for (filter, wanted) in filters {
        for rows in [1, 2, 7, 100] {
            let ids = pages(&mut conn, &filter, rows).await;
            assert_eq!(ids.len(), wanted, "{filter:?} by {rows}");
            assert!(ids.windows(2).all(|pair| pair[0] > pair[1]), "{filter:?} by {rows}");
        }
    }
}

/// An entry with two postings to one account comes once. Fails without `DISTINCT`.
#[tokio::test]
async fn an_entry_with_two_postings_to_an_account_is_listed_once() {
    let db = Db::ledger().await;
    let pool = pool_as(&db, "ledger_consumer");
    let body = BalancedEntry::transfer(payable("M1", cny(5)), payable("M1", cny(5)), cny(5)).unwrap();
    post(&pool, 0, &[new_entry("M1", 1, body)]).await;
    let mut conn = pool.acquire().await.unwrap();
    let filter = Filter { account_code: Some("payable:M1:CNY".to_owned()), ..Filter::default() };
    let page = entry::page(&mut conn, &filter, None, 10).await.unwrap();
    assert_eq!(page.iter().map(|entry| entry.postings.len()).collect::<Vec<_>>(), [2]);
}

/// A found entry has its postings in order, and both ways of asking find the same one.
#[tokio::test]
async fn an_entry_is_found_by_number_and_by_key_with_its_postings() {
    let db = books().await;
    let pool = pool_as(&db, "ledger_service");
    let mut conn = pool.acquire().await.unwrap();
    let wanted = paid("M1", 8, cny(2));
    let found = entry::by_msg_key(&mut conn, wanted.msg_key.as_str()).await.unwrap().unwrap();
    assert_eq!(entry::by_id(&mut conn, found.entry_id).await.unwrap().unwrap(), found);
    assert_eq!((found.order_no.as_str(), found.occurred_at), ("O8", at(8)));
    let lines: Vec<_> =
        found.postings.iter().map(|p| (p.line_no, p.account_code.as_str(), p.amount)).collect();
    assert_eq!(lines, [(1, "clearing:generic:main:CNY", 2), (2, "payable:M1:CNY", 2)]);
    assert!(entry::by_msg_key(&mut conn, "no").await.unwrap().is_none());
    assert!(entry::by_id(&mut conn, EntryId::new(0)).await.unwrap().is_none());
}

/// A period holds its first time and not its last, each entry once, oldest first, whatever the size of the chunks; many
/// entries of one batch share one booking time. Fails when the key leaves out the number.
#[tokio::test]
async fn chunks_of_a_period_cover_it_once_oldest_first() {
    let db = books().await;
    let pool = pool_as(&db, "ledger_service");
    let mut conn = pool.acquire().await.unwrap();
    let whole = |basis| Period { from: at(-1_000_000), until: at(1_000_000_000), basis };
    let periods = [
        (whole(Basis::Posted), 35),
        (whole(Basis::Occurred), 35),
        (Period { from: at(10), until: at(20), basis: Basis::Occurred }, 10),
        (Period { from: at(10), until: at(10), basis: Basis::Occurred }, 0),
    ];
    for (period, wanted) in periods {
        for rows in [1, 3, 100] {
            let mut keys = Vec::new();
            let mut place = None;
            loop {
                let (entries, next) = entry::chunk(&mut conn, period, place, rows).await.unwrap();
                keys.extend(entries.iter().map(|entry| match period.basis {
                    Basis::Posted => (entry.posted_at, entry.entry_id),
                    Basis::Occurred => (entry.occurred_at, entry.entry_id),
                }));
                if next.is_none() {
                    break;
                }
                place = next;
            }
            assert_eq!(keys.len(), wanted, "{period:?} by {rows}");
            assert!(keys.is_sorted_by(|a, b| a < b), "{period:?} by {rows}");
        }
    }
}

#[tokio::test]
async fn accounts_are_listed_by_code_and_prefix() {
    let db = books().await;
    let pool = pool_as(&db, "ledger_service");
    let mut conn = pool.acquire().await.unwrap();
    let mut all: Vec<String> = Vec::new();
    loop {
        let page = account::page(&mut conn, "", all.last().map(String::as_str), 3).await.unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page.into_iter().map(|account| account.code));
    }
    assert_eq!(all, ["clearing:generic:main:CNY", "payable:M0:CNY", "payable:M1:CNY", "payable:M2:CNY"]);
    assert_eq!(account::page(&mut conn, "payable:", None, 10).await.unwrap().len(), 3);
    // Not a pattern: its signs mean themselves.
    assert_eq!(account::page(&mut conn, "pay%", None, 10).await.unwrap(), []);
}

/// A report beyond its limit is refused whole; half a trial balance would look like a wrong one.
#[tokio::test]
async fn a_trial_balance_beyond_its_limit_is_refused() {
    let db = books().await;
    let pool = pool_as(&db, "ledger_service");
    let mut conn = pool.acquire().await.unwrap();
    assert_eq!(balance::trial(&mut conn, None, 4).await.unwrap().lines.len(), 4);
    let refused = balance::trial(&mut conn, None, 3).await;
    assert!(matches!(refused, Err(Error::TooLarge { rows_max: 3 })), "{refused:?}");
}

/// Shards that fit, whose sum does not: the cast refuses it.
#[tokio::test]
async fn a_sum_over_shards_beyond_64_bits_is_an_error() {
    let db = books().await;
    post(&pool_as(&db, "ledger_consumer"), 1, &[paid("M1", 99, cny(1))]).await;
    let huge =
        "UPDATE account_balance SET credit = 9223372036854775807 WHERE account_code = 'payable:M1:CNY'";
    sqlx::query(huge).execute(db.pool()).await.unwrap();
    let pool = pool_as(&db, "ledger_service");
    let mut conn = pool.acquire().await.unwrap();
    let refused = balance::of_account(&mut conn, &"payable:M1:CNY".parse().unwrap(), None).await;
    let Err(Error::Store(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.as_database_error().unwrap().code().unwrap(), "22003");
}

/// The gauge that must be zero shows a difference that somebody made behind our back.
#[tokio::test]
async fn a_difference_in_the_totals_is_seen() {
    let db = books().await;
    let pool = pool_as(&db, "ledger_service");
    let mut conn = pool.acquire().await.unwrap();
    assert_eq!(health::differences(&mut conn).await.unwrap(), [("CNY".to_owned(), 0)]);
    assert_eq!(health::parked(&mut conn).await.unwrap(), 0);
    let off = "UPDATE account_balance SET debit = debit + 3 WHERE account_code LIKE 'clearing:%'";
    sqlx::query(off).execute(db.pool()).await.unwrap();
    assert_eq!(health::differences(&mut conn).await.unwrap(), [("CNY".to_owned(), 3)]);
}
