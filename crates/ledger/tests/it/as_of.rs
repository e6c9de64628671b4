//! Questions about the past, by both clocks.

use ledger::store::report::balance::{of_account, trial};
use ledger::store::report::{AsOf, Basis};
use sqlx::PgPool;
use test_kit::Db;
use time::OffsetDateTime;

use crate::{at, cny, paid, pool_as, post};

async fn balance(pool: &PgPool, as_of: Option<AsOf>) -> i64 {
    let mut conn = pool.acquire().await.unwrap();
    let code = "payable:M1:CNY".parse().unwrap();
    of_account(&mut conn, &code, as_of).await.unwrap().unwrap().balance
}

async fn posted_at(db: &Db, number: u32) -> OffsetDateTime {
    sqlx::query_scalar("SELECT posted_at FROM entry WHERE order_no = $1")
        .bind(format!("O{number}"))
        .fetch_one(db.pool())
        .await
        .unwrap()
}

/// A fact of second 10 is booked after a fact of second 20: by POSTED it is the later one, by OCCURRED the earlier one.
/// Fails when the basis is passed over.
#[tokio::test]
async fn a_late_entry_changes_the_past_by_occurrence_and_not_by_booking() {
    let db = Db::ledger().await;
    let (writer, reader) = (pool_as(&db, "ledger_consumer"), pool_as(&db, "ledger_service"));
    post(&writer, 0, &[paid("M1", 20, cny(200))]).await;
    let first_booked = posted_at(&db, 20).await;
    post(&writer, 1, &[paid("M1", 10, cny(50))]).await;
    let second_booked = posted_at(&db, 10).await;

    let as_of = |at, basis| Some(AsOf { at, basis });
    assert_eq!(balance(&reader, None).await, 250);
    assert_eq!(balance(&reader, as_of(first_booked, Basis::Posted)).await, 200);
    assert_eq!(balance(&reader, as_of(second_booked, Basis::Posted)).await, 250);
    assert_eq!(balance(&reader, as_of(at(9), Basis::Occurred)).await, 0);
    // "Before or at": the very second belongs.
    assert_eq!(balance(&reader, as_of(at(10), Basis::Occurred)).await, 50);
    assert_eq!(balance(&reader, as_of(at(19), Basis::Occurred)).await, 50);
    assert_eq!(balance(&reader, as_of(at(20), Basis::Occurred)).await, 250);
}

/// The trial balance holds at any time, by either clock, and an account without postings is in it with zero.
#[tokio::test]
async fn the_trial_balance_is_zero_at_any_time_in_the_past() {
    let db = Db::ledger().await;
    let (writer, reader) = (pool_as(&db, "ledger_consumer"), pool_as(&db, "ledger_service"));
    for number in [30, 10, 20] {
        post(&writer, 0, &[paid("M1", number, cny(i64::from(number)))]).await;
    }
    let mut conn = reader.acquire().await.unwrap();
    for (seconds, debit) in [(0, 0), (10, 10), (25, 30), (99, 60)] {
        let as_of = AsOf { at: at(seconds), basis: Basis::Occurred };
        let trial = trial(&mut conn, Some(as_of), 10).await.unwrap();
        assert_eq!(trial.lines.len(), 2);
        assert_eq!((trial.totals[0].debit, trial.totals[0].difference), (debit, 0), "at second {seconds}");
    }
    let as_of = AsOf { at: posted_at(&db, 10).await, basis: Basis::Posted };
    let past = trial(&mut conn, Some(as_of), 10).await.unwrap();
    assert_eq!((past.totals[0].debit, past.totals[0].difference), (40, 0));
    let now = trial(&mut conn, None, 10).await.unwrap();
    assert_eq!((now.totals[0].debit, now.totals[0].difference), (60, 0));
}
