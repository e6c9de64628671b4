//! What the guard lets through, tries again and leaves alone. The far side is a script, and time is tokio's, stopped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use channel::breaker::{FAILURES_IN_A_ROW_MAX, OPEN_FOR, QUERIES_ONLY_FOR};
use channel::guard::{CIRCUIT_OPEN, NO_PLACE};
use channel::{
    CALLS_PER_ACCOUNT_MAX, ChannelClient, Closed, CreateOrder, CreateRefund, Created, Credential, FindOrder,
    FindRefund, Guard, Outcome, Queried, RefundTold,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::call::{order, pay_no, refund};
use crate::support::account;

const LIMIT: Duration = Duration::from_secs(5);

/// What the far side does with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Accepts,
    Rejects,
    AsksToWait,
    /// The outcome is not known, after so many milliseconds.
    Fails(u64),
    Hangs,
}

/// Follows its script, and then does the last thing in it for ever. Keeps what each call asked.
#[derive(Debug)]
struct Script {
    does: Mutex<VecDeque<Does>>,
    asked: Mutex<Vec<String>>,
    at_once: AtomicUsize,
    at_once_max: AtomicUsize,
}

impl Script {
    fn play<T>(&self, asked: String, accepted: T) -> BoxFuture<'_, Outcome<T>>
    where
        T: Send + 'static,
    {
        async move {
            self.asked.lock().unwrap().push(asked);
            let now = self.at_once.fetch_add(1, Ordering::SeqCst).saturating_add(1);
            self.at_once_max.fetch_max(now, Ordering::SeqCst);
            let does = {
                let mut does = self.does.lock().unwrap();
                if does.len() > 1 { does.pop_front().unwrap() } else { does[0] }
            };
            let outcome = match does {
                Does::Accepts => Outcome::Accepted(accepted),
                Does::Rejects => Outcome::Rejected { code: "NO".to_owned(), message: String::new() },
                Does::AsksToWait => Outcome::RetryLater { code: "LATER".to_owned() },
                Does::Fails(ms) => {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    Outcome::Unknown { why: "script".to_owned() }
                }
                Does::Hangs => std::future::pending().await,
            };
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            outcome
        }
        .boxed()
    }

    fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl ChannelClient for Script {
    fn create<'a>(&'a self, order: &'a CreateOrder) -> BoxFuture<'a, Outcome<Created>> {
        let credential = Credential::PayUrl("http://h/pay".to_owned());
        self.play(format!("{order:?}"), Created { credential, channel_txn_id: None, channel_order_no: None })
    }

    fn query<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Queried>> {
        self.play(format!("{order:?}"), Queried::not_known())
    }

    fn close<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Closed>> {
        self.play(format!("{order:?}"), Closed::Closed)
    }

    fn refund<'a>(&'a self, refund: &'a CreateRefund) -> BoxFuture<'a, Outcome<RefundTold>> {
        self.play(format!("{refund:?}"), RefundTold::not_known())
    }

    fn query_refund<'a>(&'a self, refund: &'a FindRefund) -> BoxFuture<'a, Outcome<RefundTold>> {
        self.play(format!("{refund:?}"), RefundTold::not_known())
    }
}

fn guarded(does: &[Does]) -> (Guard, Arc<Script>) {
    let script = Arc::new(Script {
        does: Mutex::new(does.iter().copied().collect()),
        asked: Mutex::new(Vec::new()),
        at_once: AtomicUsize::new(0),
        at_once_max: AtomicUsize::new(0),
    });
    (Guard::new(Arc::<Script>::clone(&script), &account("http://h"), LIMIT), script)
}

async fn query(guard: &Guard) -> Outcome<Queried> {
    guard.query(&FindOrder::by(&pay_no())).await
}

/// A lost answer to a create or a query is asked for once more, in the same words. Fails when `may_repeat` says otherwise.
#[tokio::test(start_paused = true)]
async fn a_second_try_is_made_where_it_can_do_nothing_twice() {
    let (guard, script) = guarded(&[Does::Fails(0), Does::Accepts]);
    assert_eq!(guard.create(&order()).await.label(), "accepted");
    let asked = script.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0], asked[1], "the same request under the same number");

    let (guard, script) = guarded(&[Does::Fails(0), Does::Accepts]);
    assert_eq!(query(&guard).await.label(), "accepted");
    assert_eq!(script.calls(), 2);

    let (guard, script) = guarded(&[Does::Fails(0), Does::Accepts]);
    assert_eq!(guard.query_refund(&refund().find()).await.label(), "accepted");
    assert_eq!(script.calls(), 2);

    let (guard, script) = guarded(&[Does::Fails(0)]);
    assert_eq!(query(&guard).await.label(), "unknown");
    assert_eq!(script.calls(), 2, "and no third one");
}

/// Where money leaves, or where channels disagree about a repeat, nothing is sent twice here. Fails when `may_repeat` allows it.
#[tokio::test(start_paused = true)]
async fn a_refund_or_close_that_may_have_happened_is_not_sent_again() {
    let (guard, script) = guarded(&[Does::Fails(0), Does::Accepts]);
    assert_eq!(guard.refund(&refund()).await.label(), "unknown");
    assert_eq!(script.calls(), 1);

    let (guard, script) = guarded(&[Does::Fails(0), Does::Accepts]);
    assert_eq!(guard.close(&FindOrder::by(&pay_no())).await.label(), "unknown");
    assert_eq!(script.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_an_answer_and_is_not_asked_for_again() {
    for (does, label) in
        [(Does::Accepts, "accepted"), (Does::Rejects, "rejected"), (Does::AsksToWait, "retry_later")]
    {
        let (guard, script) = guarded(&[does]);
        assert_eq!(guard.create(&order()).await.label(), label);
        assert_eq!(script.calls(), 1, "{does:?}");
    }
}

/// The first try may have made the order; a refusal of the second does not undo that. Fails when `settled` returns the second.
#[tokio::test(start_paused = true)]
async fn a_refused_second_try_leaves_a_create_unknown() {
    for second in [Does::Rejects, Does::AsksToWait, Does::Fails(0)] {
        let (guard, _) = guarded(&[Does::Fails(0), second]);
        assert_eq!(guard.create(&order()).await.label(), "unknown", "{second:?}");
    }
    // A query's answer speaks of that call alone.
    let (guard, _) = guarded(&[Does::Fails(0), Does::AsksToWait]);
    assert_eq!(query(&guard).await.label(), "retry_later");
}

/// Fails without the limit in `once`, or without the half of it in `is_worth_another`.
#[tokio::test(start_paused = true)]
async fn no_call_outlasts_its_limit_and_a_slow_failure_is_not_tried_again() {
    let begun = tokio::time::Instant::now();
    let (guard, script) = guarded(&[Does::Hangs]);
    assert_eq!(guard.create(&order()).await.label(), "unknown");
    assert_eq!((begun.elapsed(), script.calls()), (LIMIT, 1));

    let (guard, script) = guarded(&[Does::Fails(2_600), Does::Accepts]);
    assert_eq!(guard.create(&order()).await.label(), "unknown");
    assert_eq!(script.calls(), 1);

    let begun = tokio::time::Instant::now();
    let (guard, script) = guarded(&[Does::Fails(2_000), Does::Hangs]);
    assert_eq!(guard.create(&order()).await.label(), "unknown");
    assert_eq!((begun.elapsed(), script.calls()), (LIMIT, 2), "both tries within one limit");
}

/// A channel that hangs holds a bounded number of our calls, and the rest is known not to have been sent. Fails without the
/// semaphore.
#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_were_surely_not_sent() {
    let (guard, script) = guarded(&[Does::Hangs]);
    let calls = (0..CALLS_PER_ACCOUNT_MAX + 5).map(|_| query(&guard));
    let outcomes = futures::future::join_all(calls).await;
    let unknown = outcomes.iter().filter(|outcome| outcome.label() == "unknown").count();
    let no_place = Outcome::RetryLater { code: NO_PLACE.to_owned() };
    let refused = outcomes.iter().filter(|outcome| **outcome == no_place).count();
    assert_eq!((unknown, refused), (CALLS_PER_ACCOUNT_MAX, 5));
    assert_eq!(script.at_once_max.load(Ordering::SeqCst), CALLS_PER_ACCOUNT_MAX);
    assert_eq!(script.calls(), CALLS_PER_ACCOUNT_MAX);
}

/// Nothing is sent while the circuit is open; then one query tries, and its success opens the way for all. Fails without
/// the breaker, or when a half-open circuit lets more than one call through.
#[tokio::test(start_paused = true)]
async fn a_channel_without_answers_is_left_alone_until_a_query_brings_one() {
    let (guard, script) = guarded(&[Does::Fails(0)]);
    for _ in 0..FAILURES_IN_A_ROW_MAX {
        assert_eq!(guard.refund(&refund()).await.label(), "unknown");
    }
    let sent = script.calls();
    let open = |outcome: &str| outcome.contains(CIRCUIT_OPEN);
    for _ in 0..3 {
        assert!(open(&format!("{:?}", guard.create(&order()).await)));
        assert!(open(&format!("{:?}", query(&guard).await)));
        assert!(open(&format!("{:?}", guard.refund(&refund()).await)));
    }
    assert_eq!(script.calls(), sent, "nothing was sent");

    tokio::time::advance(OPEN_FOR).await;
    assert!(open(&format!("{:?}", guard.create(&order()).await)), "only a query tries first");
    assert_eq!(query(&guard).await.label(), "unknown");
    assert_eq!(script.calls(), sent + 1, "a trial is not tried again");
    assert!(open(&format!("{:?}", query(&guard).await)), "the failed trial opened it anew");

    tokio::time::advance(OPEN_FOR).await;
    *script.does.lock().unwrap() = VecDeque::from([Does::AsksToWait]);
    let outcomes = futures::future::join_all((0..5).map(|_| query(&guard))).await;
    assert_eq!(script.calls(), sent + 2 + 4, "the first one closed it before the others came");
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::RetryLater { code: "LATER".to_owned() }));
    *script.does.lock().unwrap() = VecDeque::from([Does::Accepts]);
    assert_eq!(guard.refund(&refund()).await.label(), "accepted");
}

/// An account that is never asked about anything must recover too. Fails when only queries may try.
#[tokio::test(start_paused = true)]
async fn without_queries_a_create_tries_later() {
    let (guard, script) = guarded(&[Does::Fails(0)]);
    while !format!("{:?}", guard.create(&order()).await).contains(CIRCUIT_OPEN) {}
    assert_eq!(script.calls(), usize::try_from(FAILURES_IN_A_ROW_MAX).unwrap());
    *script.does.lock().unwrap() = VecDeque::from([Does::Accepts]);
    tokio::time::advance(OPEN_FOR + QUERIES_ONLY_FOR).await;
    assert_eq!(guard.create(&order()).await.label(), "accepted");
}

/// Only one call tries a half-open circuit, however many come. Fails when `leave` does not take the trial's place.
#[tokio::test(start_paused = true)]
async fn one_call_at_a_time_tries_a_half_open_circuit() {
    let (guard, script) = guarded(&[Does::Fails(0)]);
    for _ in 0..FAILURES_IN_A_ROW_MAX {
        assert_eq!(guard.refund(&refund()).await.label(), "unknown");
    }
    let sent = script.calls();
    tokio::time::advance(OPEN_FOR).await;
    *script.does.lock().unwrap() = VecDeque::from([Does::Fails(100)]);
    let outcomes = futures::future::join_all((0..20).map(|_| query(&guard))).await;
    assert_eq!(script.calls(), sent + 1);
    assert_eq!(outcomes.iter().filter(|outcome| outcome.label() == "unknown").count(), 1);
}
