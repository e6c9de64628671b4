//! Settling on a real PostgreSQL: orders of words, races, batches.

use bytes::Bytes;
use pay_types::{AttemptNo, Bucket, ChannelCode, Currency, Gate, Money, PayNo, PaymentState};
use service_kit::Clock;
use service_kit::switch::Switches;
use sqlx::PgPool;
use test_kit::Db;

use crate::payment::judge::{ChannelResult, Fact, Source};
use crate::payment::settle::{Outcome, settle};
use crate::payment::{NewPayment, event};
use crate::store;

pub(crate) fn money(minor: i64) -> Money {
    Money::try_new(minor, Currency::from_code("CNY").unwrap()).unwrap()
}

pub(crate) async fn payment(pool: &PgPool, ordinal: u8) -> PayNo {
    let now = Clock::system().now();
    let (merchant_id, order_no) = ("M1".parse().unwrap(), format!("O{ordinal}").parse().unwrap());
    let new = NewPayment {
        pay_no: PayNo::new(1, [ordinal; 10], Bucket::of(&merchant_id, &order_no)),
        merchant_id,
        order_no,
        attempt_no: AttemptNo::try_new(1).unwrap(),
        amount: money(100),
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
    new.pay_no
}

pub(crate) fn said(pay_no: &PayNo, fact: Fact) -> ChannelResult {
    let channel_txn_id = match &fact {
        Fact::Paid { channel_txn_id, .. } => Some(channel_txn_id.clone()),
        Fact::Closed | Fact::Failed | Fact::Declined | Fact::RefundedTotal(_) | Fact::Refund(_) => None,
    };
    ChannelResult {
        channel: ChannelCode::Generic,
        channel_account: "main".parse().unwrap(),
        source: Source::Notice,
        fact,
        pay_no: pay_no.to_string(),
        merchant_id: None,
        channel_txn_id,
        occurred_at: Clock::system().now(),
        raw: Bytes::from_static(b"raw"),
        nonce: None,
        detail: "words".to_owned(),
    }
}

fn paid(txn: &str) -> Fact {
    Fact::Paid { amount: money(100), channel_txn_id: txn.parse().unwrap() }
}

async fn apply(pool: &PgPool, results: &[ChannelResult]) -> Vec<Outcome> {
    let settled = settle(pool, results, Switches::all_on(), Clock::system().now()).await.unwrap();
    settled.into_iter().map(|settled| settled.outcome).collect()
}

async fn state(pool: &PgPool, pay_no: &PayNo) -> PaymentState {
    store::payment::by_number(pool, pay_no).await.unwrap().unwrap().state
}

async fn count(pool: &PgPool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

/// *Declined once, then paid, then the old decline again*, in all six orders: the end is the same. Fails when a decline
/// moves a payment, or a late word undoes a newer state.
#[tokio::test]
async fn all_orders_of_declined_paid_and_the_old_decline_end_the_same() {
    let db = Db::payment().await;
    let words = || [Fact::Declined, paid("T1"), Fact::Declined];
    for (ordinal, order) in
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].into_iter().enumerate()
    {
        let pay_no = payment(db.pool(), u8::try_from(ordinal).unwrap() + 1).await;
        for place in order {
            let fact = words().into_iter().nth(place).unwrap();
            let fact = match fact {
                Fact::Paid { amount, .. } => {
                    Fact::Paid { amount, channel_txn_id: format!("T{ordinal}").parse().unwrap() }
                }
                other @ (Fact::Declined
                | Fact::Closed
                | Fact::Failed
                | Fact::RefundedTotal(_)
                | Fact::Refund(_)) => other,
            };
            apply(db.pool(), &[said(&pay_no, fact)]).await;
        }
        assert_eq!(state(db.pool(), &pay_no).await, PaymentState::Success, "{order:?}");
    }
    assert_eq!(count(db.pool(), "SELECT COUNT(*) FROM payment_event WHERE type = 'PAY_SUCCEEDED'").await, 6);
    assert_eq!(count(db.pool(), "SELECT COUNT(*) FROM payment_event WHERE type = 'PAY_FAILED'").await, 0);
}

/// *Failed for good* and *paid* in both orders, and at the same instant: one end, and the money is never forgotten. Fails
/// without the compare-and-set, and when a late success is dropped.
#[tokio::test(flavor = "multi_thread")]
async fn failed_and_paid_race_to_one_end_and_the_money_is_booked() {
    let db = Db::payment().await;
    for ordinal in 1..=20_u8 {
        let pay_no = payment(db.pool(), ordinal).await;
        let run = |fact: Fact| {
            let (pool, result) = (db.pool().clone(), said(&pay_no, fact));
            service_kit::task::spawn("word", async move { apply(&pool, &[result]).await })
        };
        let txn = format!("T{ordinal}");
        let (a, b) = (run(Fact::Closed), run(paid(&txn)));
        let (closed, paid) = (a.await.unwrap().unwrap(), b.await.unwrap().unwrap());
        match state(db.pool(), &pay_no).await {
            PaymentState::Success => {
                assert_eq!((closed, paid), (vec![Outcome::Ignored], vec![Outcome::Applied]))
            }
            PaymentState::Closed => {
                assert_eq!((closed, paid), (vec![Outcome::Applied], vec![Outcome::UnexpectedReceipt]));
            }
            other @ (PaymentState::Processing | PaymentState::Fail) => panic!("{other}"),
        }
    }
    let money = "SELECT (SELECT COUNT(*) FROM payment WHERE state = 'SUCCESS') + (SELECT COUNT(*) FROM unexpected_receipt)";
    assert_eq!(count(db.pool(), money).await, 20, "every receipt of money is a payment's or in suspense");
    assert_eq!(
        count(db.pool(), "SELECT COUNT(*) FROM payment_event WHERE from_state = 'PROCESSING'").await,
        20
    );
}

/// A batch with several words about one payment behaves as the words one by one. Fails when they share a transaction.
#[tokio::test]
async fn a_batch_of_words_behaves_as_the_words_one_by_one() {
    let db = Db::payment().await;
    let (one, two) = (payment(db.pool(), 1).await, payment(db.pool(), 2).await);
    let batch = [
        said(&one, paid("T1")),
        said(&two, Fact::Closed),
        said(&one, paid("T1")),
        said(&one, Fact::Closed),
        said(&two, paid("T2")),
        said(&one, paid("T3")),
        said(&two, paid("T2")),
    ];
    use Outcome::{Applied, Duplicate, Ignored, UnexpectedReceipt};
    let outcomes = apply(db.pool(), &batch).await;
    assert_eq!(
        outcomes,
        [Applied, Applied, Duplicate, Ignored, UnexpectedReceipt, UnexpectedReceipt, Duplicate]
    );
}

/// G6 off, and the trigger still refuses: a terminal state is never left. Fails when the trigger is dropped.
#[tokio::test]
async fn with_the_compare_and_set_off_the_trigger_still_holds() {
    let db = Db::payment().await;
    let pay_no = payment(db.pool(), 1).await;
    apply(db.pool(), &[said(&pay_no, paid("T1"))]).await;
    let update = "UPDATE payment SET state = 'FAIL', version = version + 1";
    let refused = sqlx::query(update).execute(db.pool()).await.unwrap_err();
    assert_eq!(service_kit::pg::constraint(&refused), Some(store::constraint::TR_TERMINAL_STATE));
    let ignored =
        settle(db.pool(), &[said(&pay_no, Fact::Failed)], Switches::off(&[Gate::G6]), Clock::system().now())
            .await
            .unwrap();
    assert_eq!(ignored.first().map(|settled| settled.outcome), Some(Outcome::Ignored));
    assert_eq!(state(db.pool(), &pay_no).await, PaymentState::Success);
}
