//! Refunds on a real PostgreSQL: words about them in every order, and the guards below the code.

use bytes::Bytes;
use pay_types::{
    AttemptNo, Bucket, ChannelCode, Currency, Money, PayNo, PaymentState, RefundNo, RefundState, RefundWord,
};
use service_kit::Clock;
use service_kit::switch::Switches;
use sqlx::PgPool;
use test_kit::Db;

use crate::payment::judge::{ChannelResult, Fact, RefundFact, Source, Unwanted};
use crate::payment::settle::{Outcome, settle};
use crate::payment::{NewPayment, Payment, event};
use crate::refund::{NewRefund, Refund};
use crate::store;

fn money(minor: i64, code: &str) -> Money {
    Money::try_new(minor, Currency::from_code(code).unwrap()).unwrap()
}

/// A payment that is closed.
async fn closed(pool: &PgPool) -> Payment {
    let now = Clock::system().now();
    let (merchant_id, order_no) = ("M1".parse().unwrap(), "O1".parse().unwrap());
    let new = NewPayment {
        pay_no: PayNo::new(1, [1; 10], Bucket::of(&merchant_id, &order_no)),
        merchant_id,
        order_no,
        attempt_no: AttemptNo::try_new(1).unwrap(),
        amount: money(100, "CNY"),
        channel: ChannelCode::Generic,
        channel_account: "main".parse().unwrap(),
        subject: "tea".parse().unwrap(),
        expire_at: now + time::Duration::hours(1),
        next_query_at: now,
        metadata: serde_json::json!({}),
        traceparent: None,
        created_at: now,
    };
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(store::payment::insert_in_tx(&mut tx, &[&new]).await.unwrap().len(), 1);
    store::event::append_in_tx(&mut tx, &[event::created(&new, "TEST").unwrap()], now).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(apply(pool, &[said(&new.pay_no, Fact::Closed, None)]).await, [Outcome::Applied]);
    store::payment::by_number(pool, &new.pay_no).await.unwrap().unwrap()
}

fn said(pay_no: &PayNo, fact: Fact, txn: Option<&str>) -> ChannelResult {
    ChannelResult {
        channel: ChannelCode::Generic,
        channel_account: "main".parse().unwrap(),
        source: Source::Notice,
        fact,
        pay_no: pay_no.to_string(),
        merchant_id: None,
        channel_txn_id: txn.map(|txn| txn.parse().unwrap()),
        occurred_at: Clock::system().now(),
        raw: Bytes::from_static(b"raw"),
        nonce: None,
        detail: String::new(),
    }
}

fn paid(minor: i64, txn: &str) -> Fact {
    Fact::Paid { amount: money(minor, "CNY"), channel_txn_id: txn.parse().unwrap() }
}

fn word(refund_no: &str, word: RefundWord) -> Fact {
    Fact::Refund(RefundFact {
        refund_no: refund_no.to_owned(),
        word,
        amount: money(100, "CNY"),
        channel_refund_no: Some("C1".to_owned()),
    })
}

async fn apply(pool: &PgPool, results: &[ChannelResult]) -> Vec<Outcome> {
    let settled = settle(pool, results, Switches::all_on(), Clock::system().now()).await.unwrap();
    settled.into_iter().map(|settled| settled.outcome).collect()
}

/// The one refund.
async fn refund(pool: &PgPool) -> Refund {
    let number: String = sqlx::query_scalar("SELECT refund_no FROM refund").fetch_one(pool).await.unwrap();
    let number: RefundNo = number.parse().unwrap();
    let mut connection = pool.acquire().await.unwrap();
    let found = store::refund::by_numbers_in_tx(&mut connection, std::slice::from_ref(&number)).await;
    found.unwrap().remove(&number).unwrap()
}

async fn count(pool: &PgPool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

/// A receipt and its refund commit together, in a batch with repeats too; a wrong amount is a person's to decide. Fails when
/// the refund is written for a receipt that was there, or for any reason.
#[tokio::test]
async fn an_unwanted_receipt_has_one_refund_and_a_wrong_amount_none() {
    let db = Db::payment().await;
    let payment = closed(db.pool()).await;
    let late = said(&payment.pay_no, paid(100, "T1"), Some("T1"));
    let wrong = said(&payment.pay_no, paid(99, "T2"), Some("T2"));
    let outcomes = apply(db.pool(), &[late.clone(), late.clone(), wrong, late]).await;
    use Outcome::{AmountMismatch, Duplicate, UnexpectedReceipt};
    assert_eq!(outcomes, [UnexpectedReceipt, Duplicate, AmountMismatch, Duplicate]);
    let refund = refund(db.pool()).await;
    assert_eq!(
        (refund.state, refund.amount, refund.reason.as_str()),
        (RefundState::Pending, payment.amount, "LATE_SUCCESS")
    );
    assert_eq!((refund.channel_txn_id.as_str(), refund.refund_no.bucket()), ("T1", payment.bucket()));
    let linked = "SELECT COUNT(*) FROM unexpected_receipt WHERE state = 'REFUNDING' AND channel_txn_id = 'T1'
                  AND refund_no = (SELECT refund_no FROM refund)";
    assert_eq!(count(db.pool(), linked).await, 1);
    let open = "SELECT COUNT(*) FROM unexpected_receipt WHERE state = 'OPEN' AND refund_no IS NULL";
    assert_eq!(count(db.pool(), open).await, 1);
}

/// A word goes to the refund with its number, and must be about what we asked for. Fails when a refund is found by its
/// amount or its payment, when a check of `judge` is left out, or when a refund's word reaches the payment.
#[tokio::test]
async fn a_refunds_word_must_be_the_refunds_own() {
    let db = Db::payment().await;
    let payment = closed(db.pool()).await;
    apply(db.pool(), &[said(&payment.pay_no, paid(100, "T1"), Some("T1"))]).await;
    let number = refund(db.pool()).await.refund_no.to_string();
    let good = || said(&payment.pay_no, word(&number, RefundWord::Succeeded), Some("T1"));
    let other_amount = |amount: Money| {
        let Fact::Refund(fact) = word(&number, RefundWord::Succeeded) else { panic!() };
        ChannelResult { fact: Fact::Refund(RefundFact { amount, ..fact }), ..good() }
    };
    let other_number = RefundNo::new(1, [9; 10], payment.bucket()).to_string();
    let other_pay_no = PayNo::new(1, [9; 10], payment.bucket()).to_string();
    for (said, outcome) in [
        (other_amount(money(99, "CNY")), Outcome::AmountMismatch),
        (other_amount(money(100, "USD")), Outcome::AmountMismatch),
        (ChannelResult { channel_txn_id: Some("T9".parse().unwrap()), ..good() }, Outcome::AmountMismatch),
        (ChannelResult { pay_no: other_pay_no, ..good() }, Outcome::AmountMismatch),
        (ChannelResult { channel_account: "second".parse().unwrap(), ..good() }, Outcome::CrossAccount),
        (ChannelResult { merchant_id: Some("M2".to_owned()), ..good() }, Outcome::CrossAccount),
        (ChannelResult { fact: word(&other_number, RefundWord::Succeeded), ..good() }, Outcome::Orphan),
        (ChannelResult { fact: word("no number", RefundWord::Failed), ..good() }, Outcome::Orphan),
    ] {
        assert_eq!(apply(db.pool(), std::slice::from_ref(&said)).await, [outcome], "{said:?}");
        assert_eq!(refund(db.pool()).await.state, RefundState::Pending, "{said:?}");
    }
    assert_eq!(count(db.pool(), "SELECT COUNT(*) FROM orphan_notice").await, 2);
    assert!(count(db.pool(), "SELECT COUNT(*) FROM anomaly WHERE kind = 'REFUND_MISMATCH'").await >= 1);
    // The right one, after all of them, without its transaction named.
    assert_eq!(
        apply(db.pool(), &[ChannelResult { channel_txn_id: None, ..good() }]).await,
        [Outcome::Applied]
    );
    assert_eq!(refund(db.pool()).await.state, RefundState::Success);
    let after = store::payment::by_number(db.pool(), &payment.pay_no).await.unwrap().unwrap();
    assert_eq!((after.state, after.version), (PaymentState::Closed, payment.version));
}

/// Words in both orders and at one instant: one move for each step, one end, one event for it. After *failed* the other word is a
/// contradiction, after *succeeded* it is money that came home, once; either is shown to a person. Fails when the rows of the
/// compare-and-set are not counted (seen at the step that writes no receipt; the end has the receipt's own row behind it), and
/// when an end is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_ends_once_and_a_contradiction_is_shown() {
    let db = Db::payment().await;
    let payment = closed(db.pool()).await;
    apply(db.pool(), &[said(&payment.pay_no, paid(100, "T1"), Some("T1"))]).await;
    let number = refund(db.pool()).await.refund_no.to_string();
    let taken = said(&payment.pay_no, word(&number, RefundWord::Taken), Some("T1"));
    let at_once = async |words: Vec<ChannelResult>| -> Vec<Outcome> {
        let words = words.into_iter().map(|result| {
            let pool = db.pool().clone();
            service_kit::task::spawn("word", async move { apply(&pool, &[result]).await })
        });
        let told = futures::future::join_all(words).await;
        told.into_iter().flat_map(|done| done.unwrap().unwrap()).collect()
    };
    let outcomes = at_once(vec![taken.clone(); 20]).await;
    let of = |outcome| outcomes.iter().filter(|told| **told == outcome).count();
    assert_eq!((of(Outcome::Applied), of(Outcome::Duplicate)), (1, 19));
    let words = (0..20).map(|place| {
        let told = if place % 2 == 0 { RefundWord::Succeeded } else { RefundWord::Failed };
        said(&payment.pay_no, word(&number, told), Some("T1"))
    });
    let outcomes = at_once(words.collect()).await;
    let of = |outcome| outcomes.iter().filter(|told| **told == outcome).count();
    let counts = (of(Outcome::Applied), of(Outcome::Duplicate), of(Outcome::AmountMismatch));
    let succeeded = refund(db.pool()).await.state == RefundState::Success;
    assert_eq!(counts, if succeeded { (2, 18, 0) } else { (1, 9, 10) });
    assert_eq!(apply(db.pool(), &[taken]).await, [Outcome::Ignored], "a late word");
    let ends = "SELECT COUNT(*) FROM payment_event WHERE type IN ('REFUND_SUCCEEDED', 'REFUND_FAILED')";
    assert_eq!(count(db.pool(), ends).await, 1);
    let told = "SELECT COUNT(*) FROM anomaly WHERE kind IN ('REFUND_CONTRADICTION', 'REFUND_RETURNED') AND state = 'OPEN'";
    assert_eq!(count(db.pool(), told).await, 1);
}

/// The guards below the code: one refund for one receipt, and an end that is never left. Fails when `uk_refund_receipt` or
/// the trigger is dropped.
#[tokio::test]
async fn the_database_alone_keeps_one_refund_and_its_end() {
    let db = Db::payment().await;
    let payment = closed(db.pool()).await;
    apply(db.pool(), &[said(&payment.pay_no, paid(100, "T1"), Some("T1"))]).await;
    let again = NewRefund::of_receipt(
        &payment,
        payment.amount,
        &"T1".parse().unwrap(),
        Unwanted::LateSuccess,
        None,
        Clock::system().now(),
    );
    let mut connection = db.pool().acquire().await.unwrap();
    let new = store::refund::insert_in_tx(&mut connection, &[&again], Clock::system().now()).await.unwrap();
    assert_eq!(new, 0, "the receipt has its refund");
    let number = refund(db.pool()).await.refund_no.to_string();
    apply(db.pool(), &[said(&payment.pay_no, word(&number, RefundWord::Succeeded), Some("T1"))]).await;
    for state in ["PENDING", "SUBMITTED", "PROCESSING", "FAIL"] {
        let update = "UPDATE refund SET state = $1, version = version + 1";
        let refused = sqlx::query(update).bind(state).execute(db.pool()).await.unwrap_err();
        let constraint = service_kit::pg::constraint(&refused);
        assert_eq!(constraint, Some(store::constraint::TR_REFUND_TERMINAL_STATE), "{state}");
    }
    let facts: Vec<String> =
        sqlx::query_scalar("SELECT type FROM payment_event WHERE type LIKE 'REFUND%' ORDER BY event_id")
            .fetch_all(db.pool())
            .await
            .unwrap();
    assert_eq!(facts, ["REFUND_SUBMITTED", "REFUND_SUCCEEDED"], "it left before it arrived");
}
