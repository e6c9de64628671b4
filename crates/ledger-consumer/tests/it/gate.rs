//! Gate 8: delivered twice, booked once. Each of its two guards is tried alone.

use contract::event::PaymentEvent;
use pay_types::Gate;
use service_kit::switch::Switches;
use test_kit::Db;

use ledger_consumer::apply::Applier;

use crate::{applier, apply, assert_books_agree, books, count, entries, fact, messages, paid, pool};

fn batch() -> Vec<broker::Message> {
    let events: Vec<_> = (0..20).map(|n| paid(&format!("M{}", n % 3), n, 100 + i64::from(n))).collect();
    messages(&events)
}

/// Both guards on. Fails when neither is.
#[tokio::test]
async fn a_batch_delivered_twice_is_booked_once() {
    let db = Db::ledger().await;
    let applier = applier(&db);
    apply(&applier, &batch()).await;
    let before = books(&db).await;
    assert_eq!((before.postings.len(), before.marks.len()), (40, 20));
    apply(&applier, &batch()).await;
    assert_eq!(books(&db).await, before);
    assert_books_agree(&db).await;
}

/// The log alone: the key of an entry is not unique any more, and still nothing is booked twice. Fails when the gate is
/// switched off, or when marks and entries are committed apart.
#[tokio::test]
async fn the_log_alone_holds() {
    let db = Db::ledger().await;
    let applier = applier(&db);
    apply(&applier, &batch()).await;
    let before = books(&db).await;
    sqlx::raw_sql("ALTER TABLE entry DROP CONSTRAINT uk_entry_msg_key").execute(db.pool()).await.unwrap();
    apply(&applier, &batch()).await;
    assert_eq!(books(&db).await, before);
    assert_books_agree(&db).await;
}

/// The unique key alone: the log was purged, and on top of that is switched off. Fails without `uk_entry_msg_key`.
#[tokio::test]
async fn the_unique_key_alone_holds() {
    let db = Db::ledger().await;
    apply(&applier(&db), &batch()).await;
    let before = books(&db).await;
    sqlx::query("DELETE FROM idempotent_log").execute(db.pool()).await.unwrap();
    // The purged mark comes back with the repeat; nothing is booked.
    apply(&applier(&db), &batch()).await;
    assert_eq!(books(&db).await, before);
    sqlx::query("DELETE FROM idempotent_log").execute(db.pool()).await.unwrap();
    let without_log = Applier::new(pool(&db), Switches::off(&[Gate::G8]));
    apply(&without_log, &batch()).await;
    assert_eq!(count(&db, "SELECT count(*) FROM idempotent_log").await, 0);
    assert_eq!(books(&db).await.balances, before.balances);
    assert_eq!(entries(&db).await, 20);
}

/// H2: a rebalance gives one batch to two consumers in the middle of it. The second waits for the first, learns of its
/// marks, and books nothing. Fails when the claim is not in the transaction of the entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_in_two_consumers_at_once_is_booked_once() {
    let db = Db::ledger().await;
    for round in 0..10 {
        let events: Vec<_> = (0..50).map(|n| paid("M1", round * 50 + n, 7)).collect();
        let batch = messages(&events);
        let (one, two, three) = (applier(&db), applier(&db), applier(&db));
        let mut reversed = batch.clone();
        reversed.reverse();
        tokio::join!(apply(&one, &batch), apply(&two, &reversed), apply(&three, &batch));
    }
    assert_eq!(entries(&db).await, 500);
    assert_eq!(count(&db, "SELECT SUM(debit)::BIGINT FROM account_balance").await, 3500);
    assert_books_agree(&db).await;
}

/// The same key with another value is no repeat: one of the two is wrong, and a person must see it. Nothing is booked
/// for it, and its neighbours are. Fails when the log's hash is not compared.
#[tokio::test]
async fn the_same_key_with_another_body_is_parked() {
    let db = Db::ledger().await;
    let applier = applier(&db);
    let batch = messages(&[paid("M1", 1, 100), paid("M1", 1, 200), paid("M1", 1, 100), paid("M1", 2, 5)]);
    assert_eq!(apply(&applier, &batch).await, ["CONFLICTING_BODY"]);
    let after = books(&db).await;
    assert_eq!(after.parked.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [1]);
    let debits: i64 = after.balances.iter().map(|(_, _, debit, _)| debit).sum();
    assert_eq!(debits, 105);
    // Again, whole: it is parked once.
    assert_eq!(apply(&applier, &batch).await, [""; 0]);
    assert_eq!(books(&db).await, after);
}

/// Money that was received without need, and taken back for its wrong amount, are facts of their own.
#[tokio::test]
async fn a_receipt_and_its_withdrawal_are_two_entries_that_cancel() {
    let db = Db::ledger().await;
    let events = [fact("RECEIPT_UNEXPECTED", "M1", 1, 70), fact("RECEIPT_WITHDRAWN", "M1", 1, 70)];
    apply(&applier(&db), &messages(&events)).await;
    let balances = books(&db).await.balances;
    let row = |code: &str| (code.to_owned(), 0, 70, 70);
    assert_eq!(balances, [row("clearing:generic:main:CNY"), row("suspense:generic:main:CNY")]);
}

/// A receipt that goes back leaves nothing in any account, in whatever order its facts come; one whose refund fails is in
/// suspense again. Fails when a rule names another account, or waits for an earlier fact.
#[tokio::test]
async fn a_receipt_that_went_back_is_in_no_account_any_more() {
    for (end, suspense) in [("REFUND_SUCCEEDED", 0), ("REFUND_FAILED", 70)] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let db = Db::ledger().await;
            let events =
                [fact("RECEIPT_UNEXPECTED", "M1", 1, 70), refund("REFUND_SUBMITTED", 70), refund(end, 70)];
            let events = order.map(|place| events[place].clone());
            assert_eq!(apply(&applier(&db), &messages(&events)).await, [""; 0]);
            assert_eq!(apply(&applier(&db), &messages(&events)).await, [""; 0], "told again");
            for (code, _, debit, credit) in books(&db).await.balances {
                let left = match code.split(':').next().unwrap() {
                    "suspense" => suspense,
                    "clearing" => -suspense,
                    _ => 0,
                };
                assert_eq!(credit - debit, left, "{end} {order:?} {code}");
            }
            let numbered = "SELECT COUNT(*) FROM entry WHERE refund_no IS NOT NULL AND kind LIKE 'REFUND%'";
            let numbered: i64 = sqlx::query_scalar(numbered).fetch_one(db.pool()).await.unwrap();
            assert_eq!(numbered, 2);
        }
    }
}

fn refund(kind: &str, amount: i64) -> PaymentEvent {
    let refund_no = "R0000000000000000000000000000";
    PaymentEvent {
        msg_key: format!("{kind}:{refund_no}"),
        refund_no: refund_no.into(),
        refund_kind: "RECEIPT".into(),
        ..fact(kind, "M1", 1, amount)
    }
}

/// Facts without money leave no trace, not even a mark.
#[tokio::test]
async fn facts_that_move_no_money_are_passed_over() {
    let db = Db::ledger().await;
    let events = ["PAY_CREATED", "PAY_FAILED", "PAY_CLOSED"].map(|kind| fact(kind, "M1", 1, 70));
    assert_eq!(apply(&applier(&db), &messages(&events)).await, [""; 0]);
    let books = books(&db).await;
    assert!(books.postings.is_empty() && books.marks.is_empty() && books.parked.is_empty(), "{books:?}");
}
