//! Gate 8: delivered twice, booked once. Each of its two guards is tried alone.

use contract::event::PaymentEvent;
use pay_types::Gate;
use service_kit::switch::Switches;
use test_kit::Db;

use ledger_consumer::apply::Applier;

use crate::{
    applier, apply, assert_books_agree, books, count, entries, fact, message, messages, paid, pool, refund,
};

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

/// How a refund's life may go, and what it leaves: of what was received, how much is owed or in suspense at its end.
const LIVES: [(&str, &[&str], i64); 7] = [
    ("PAYMENT", &["REFUND_CREATED", "REFUND_SUBMITTED", "REFUND_ACCEPTED", "REFUND_SUCCEEDED"], 70),
    ("PAYMENT", &["REFUND_CREATED", "REFUND_SUBMITTED", "REFUND_FAILED"], 100),
    ("PAYMENT", &["REFUND_CREATED", "REFUND_REJECTED"], 100),
    ("PAYMENT", &["REFUND_SUBMITTED", "REFUND_SUCCEEDED", "REFUND_RETURNED"], 100),
    ("RECEIPT", &["REFUND_SUBMITTED", "REFUND_ACCEPTED", "REFUND_SUCCEEDED"], 0),
    ("RECEIPT", &["REFUND_SUBMITTED", "REFUND_FAILED"], 30),
    ("RECEIPT", &["REFUND_SUBMITTED", "REFUND_SUCCEEDED", "REFUND_RETURNED"], 30),
];

/// Every life of a refund of either kind, in every order of its facts: nothing stays in transit, what was given back is in
/// no account any more, and what was not is where it came from. Fails when a rule names another account, or waits for an
/// earlier fact.
#[tokio::test]
async fn a_refund_leaves_what_it_should_in_whatever_order_it_is_told() {
    for (kind, steps, left) in LIVES {
        let db = Db::ledger().await;
        let applier = applier(&db);
        let orders = orders(steps.len() + 1);
        let lives: Vec<Vec<PaymentEvent>> =
            (0..).zip(&orders).map(|(number, order)| life(kind, steps, number, order)).collect();
        // One transaction for the first fact of each life, one for the second, and so on; and all of it again.
        for _ in 0..2 {
            for place in 0..=steps.len() {
                let events: Vec<_> = lives.iter().map(|life| life[place].clone()).collect();
                assert_eq!(apply(&applier, &messages(&events)).await, [""; 0]);
            }
        }
        for (code, _, debit, credit) in books(&db).await.balances {
            let wanted = match code.split(':').next().unwrap() {
                "payable" | "suspense" => left,
                "clearing" => -left,
                _ => 0,
            };
            assert_eq!(credit - debit, wanted, "{kind} {steps:?} {code}");
        }
        let booked = steps.iter().filter(|step| !["CREATED", "ACCEPTED", "REJECTED"].contains(&&step[7..]));
        let numbered = "SELECT COUNT(*) FROM entry WHERE (refund_no IS NOT NULL) = (kind LIKE 'REFUND%')";
        let wanted = i64::try_from((booked.count() + 1) * orders.len()).unwrap();
        assert_eq!((count(&db, numbered).await, entries(&db).await), (wanted, wanted), "{kind} {steps:?}");
        assert_books_agree(&db).await;
    }
}

/// What was received and the steps of its refund, in the given order; each life with a merchant and an account of its own.
fn life(kind: &str, steps: &[&str], number: u32, order: &[usize]) -> Vec<PaymentEvent> {
    let merchant = format!("M{number}");
    let (received, amount) =
        if kind == "PAYMENT" { ("PAY_SUCCEEDED", 100) } else { ("RECEIPT_UNEXPECTED", 30) };
    let mut events = vec![fact(received, &merchant, number, amount)];
    events.extend(steps.iter().map(|step| refund(step, kind, &merchant, number, 30)));
    let events = order.iter().map(|place| events[*place].clone());
    events.map(|event| PaymentEvent { channel_account: format!("a{number}"), ..event }).collect()
}

/// Every order of so many things.
fn orders(things: usize) -> Vec<Vec<usize>> {
    (0..things).fold(vec![Vec::new()], |orders, thing| {
        let with = |order: &Vec<usize>, place: usize| {
            let mut longer = order.clone();
            longer.insert(place, thing);
            longer
        };
        orders.iter().flat_map(|order| (0..=order.len()).map(move |place| with(order, place))).collect()
    })
}

/// A refund whose kind no rule knows is poison in each of its facts, with money and without: it is parked, not guessed.
/// Fails when an unknown kind is booked as one of the known ones.
#[tokio::test]
async fn a_refund_of_an_unknown_kind_is_parked() {
    let db = Db::ledger().await;
    for (offset, kind) in (0..).zip(["", "COUPON", "payment"]) {
        for (step, of) in (0..).zip(["REFUND_SUBMITTED", "REFUND_ACCEPTED", "REFUND_RETURNED"]) {
            let event = refund(of, kind, "M1", 1, 30);
            let codes = apply(&applier(&db), &[message(offset * 3 + step, &event)]).await;
            assert_eq!(codes, ["FIELD_INVALID"], "{of} {kind}");
        }
    }
    let books = books(&db).await;
    assert!(books.postings.is_empty() && books.marks.is_empty(), "{books:?}");
    assert!(books.parked.iter().all(|(_, error)| error.contains("refund_kind must be")), "{books:?}");
}

/// Facts without money leave no trace, not even a mark.
#[tokio::test]
async fn facts_that_move_no_money_are_passed_over() {
    let db = Db::ledger().await;
    let mut events: Vec<_> =
        ["PAY_CREATED", "PAY_FAILED", "PAY_CLOSED"].map(|kind| fact(kind, "M1", 1, 70)).into();
    for kind in ["PAYMENT", "RECEIPT"] {
        let steps = ["REFUND_CREATED", "REFUND_ACCEPTED", "REFUND_REJECTED"];
        events.extend(steps.map(|step| refund(step, kind, "M1", 1, 70)));
    }
    assert_eq!(apply(&applier(&db), &messages(&events)).await, [""; 0]);
    let books = books(&db).await;
    assert!(books.postings.is_empty() && books.marks.is_empty() && books.parked.is_empty(), "{books:?}");
}
