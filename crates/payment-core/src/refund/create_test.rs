//! Refund requests on a real PostgreSQL: batches against a sequential model, races, and the guards below the code.

use contract::reason::Reason;
use contract::validate::RefundRequest;
use pay_types::{PayNo, RefundNo, RefundWord};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use service_kit::Clock;
use service_kit::switch::Switches;
use sqlx::PgPool;
use test_kit::{Db, seed};

use crate::payment::judge::{Fact, RefundFact};
use crate::payment::settle::settle;
use crate::payment::settle_test::{money, payment, said};
use crate::refund::Approval;
use crate::refund::create::{Answer, Create, Outcome, biz_key, create};
use crate::refund::decide::{Decision, decide};

/// A paid payment of 100.
async fn paid(pool: &PgPool, ordinal: u8) -> PayNo {
    let pay_no = payment(pool, ordinal).await;
    let word = Fact::Paid { amount: money(100), channel_txn_id: format!("T{ordinal}").parse().unwrap() };
    settle(pool, &[said(&pay_no, word)], Switches::all_on(), Clock::system().now()).await.unwrap();
    pay_no
}

fn command(pay_no: &PayNo, key: u8, request_no: u8, minor: i64, ordinal: u8) -> Create {
    let now = Clock::system().now();
    Create {
        biz_key: biz_key("M1", &format!("k{key}")),
        request: RefundRequest {
            merchant_id: "M1".parse().unwrap(),
            idempotency_key: format!("k{key}").parse().unwrap(),
            pay_no: pay_no.clone(),
            refund_request_no: format!("Q{request_no}").parse().unwrap(),
            amount: money(minor),
            reason: "damaged".parse().unwrap(),
            requested_by: "anna".parse().unwrap(),
            expected_refunded_total: None,
            wait_if_in_progress: true,
            validate_only: false,
        },
        refund_no: RefundNo::new(1, [ordinal; 10], pay_no.bucket()),
        approval: Approval::NotNeeded,
        now,
        next_try_at: now,
        traceparent: None,
    }
}

fn told(answer: &Answer) -> (String, String) {
    match answer {
        Ok(Outcome::Created(refund)) => ("CREATED".to_owned(), refund.refund_no.to_string()),
        Ok(Outcome::Replayed(refund, _)) => ("REPLAYED".to_owned(), refund.refund_no.to_string()),
        Ok(Outcome::Joined(refund)) => ("JOINED".to_owned(), refund.refund_no.to_string()),
        Ok(Outcome::InFlight(refund)) => ("IN_FLIGHT".to_owned(), refund.refund_no.to_string()),
        Err(refusal) => (refusal.reason().as_str().to_owned(), refusal.message().to_owned()),
    }
}

async fn rows(pool: &PgPool) -> Vec<String> {
    let query = "SELECT refund_no || ':' || refund_request_no || ':' || amount || ':' || state FROM refund
                 UNION ALL SELECT pay_no || ' ' || refund_reserved || ' ' || refunded FROM payment
                 UNION ALL SELECT biz_key || '=' || result_no FROM idempotent_log
                 UNION ALL SELECT msg_key FROM payment_event
                 ORDER BY 1";
    sqlx::query_scalar(query).fetch_all(pool).await.unwrap()
}

async fn sums(pool: &PgPool, pay_no: &PayNo) -> (i64, i64) {
    sqlx::query_as("SELECT refund_reserved, refunded FROM payment WHERE pay_no = $1")
        .bind(pay_no.as_str())
        .fetch_one(pool)
        .await
        .unwrap()
}

/// The channel's word about a refund of 100's payment.
async fn word(pool: &PgPool, answer: &Answer, word: RefundWord) {
    let Ok(outcome) = answer else { panic!("{answer:?}") };
    let refund = outcome.refund();
    let fact = Fact::Refund(RefundFact {
        refund_no: refund.refund_no.to_string(),
        word,
        amount: refund.amount,
        channel_refund_no: Some("C1".to_owned()),
    });
    let mut told = said(&refund.pay_no, fact);
    told.channel_txn_id = Some(refund.channel_txn_id.clone());
    settle(pool, &[told], Switches::all_on(), Clock::system().now()).await.unwrap();
}

async fn one(pool: &PgPool, command: Create) -> Answer {
    create(pool, &[command], false).await.unwrap().remove(0)
}

/// A batch with conflicts inside behaves exactly as its commands one by one. Fails when commands that meet in a key or a
/// payment share a transaction.
#[tokio::test]
async fn a_batch_of_refunds_behaves_as_its_commands_one_by_one() {
    let mut rng = StdRng::seed_from_u64(seed());
    for round in 0..4 {
        let (batched, single) = tokio::join!(Db::payment(), Db::payment());
        let mut pay_nos = Vec::new();
        for ordinal in 1..=4 {
            let pay_no = paid(batched.pool(), ordinal).await;
            assert_eq!(pay_no, paid(single.pool(), ordinal).await);
            pay_nos.push(pay_no);
        }
        pay_nos.push(payment(batched.pool(), 5).await);
        payment(single.pool(), 5).await;
        let commands: Vec<Create> = (0..24)
            .map(|ordinal| {
                let pay_no = &pay_nos[rng.random_range(0..pay_nos.len())];
                let (key, request) = (rng.random_range(0..12), rng.random_range(0..4));
                command(pay_no, key, request, rng.random_range(1..=2) * 60, ordinal)
            })
            .collect();
        let together = create(batched.pool(), &commands, false).await.unwrap();
        let mut apart = Vec::new();
        for command in commands {
            apart.push(one(single.pool(), command).await);
        }
        let told_of = |answers: &[Answer]| answers.iter().map(told).collect::<Vec<_>>();
        assert_eq!(told_of(&together), told_of(&apart), "round {round}");
        assert_eq!(rows(batched.pool()).await, rows(single.pool()).await, "round {round}");
    }
}

/// Two requests at the same moment: 60 and 60 of 100, many rounds (bugs.md E1). One is accepted, the other is told which is in
/// flight. Fails when the payment's row is not held while it is decided and the unique keys are gone.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_refunds_at_once_one_is_accepted() {
    let db = Db::payment().await;
    for round in 1..=30_u8 {
        let pay_no = paid(db.pool(), round).await;
        let ask = |n: u8| {
            let (pool, command) = (db.pool().clone(), command(&pay_no, round * 4 + n, n, 60, round * 4 + n));
            service_kit::task::spawn("refund", async move { one(&pool, command).await })
        };
        let (a, b) = tokio::join!(ask(0), ask(1));
        let mut words = [told(&a.unwrap().unwrap()), told(&b.unwrap().unwrap())];
        words.sort();
        assert_eq!((words[0].0.as_str(), words[1].0.as_str()), ("CREATED", "IN_FLIGHT"), "round {round}");
        assert_eq!(words[0].1, words[1].1, "the other caller is told which");
        assert_eq!(sums(db.pool(), &pay_no).await, (60, 0));
    }
}

/// A refund that failed gives its part back once; one that succeeded counts; one more than what is left is refused. Fails when
/// a repeated word moves the sums again.
#[tokio::test]
async fn sums_follow_the_channels_words_once_each() {
    let db = Db::payment().await;
    let pay_no = paid(db.pool(), 1).await;
    let first = one(db.pool(), command(&pay_no, 1, 1, 60, 1)).await;
    for _ in 0..2 {
        word(db.pool(), &first, RefundWord::Failed).await;
        assert_eq!(sums(db.pool(), &pay_no).await, (0, 0));
    }
    let second = one(db.pool(), command(&pay_no, 2, 2, 60, 2)).await;
    for _ in 0..2 {
        word(db.pool(), &second, RefundWord::Succeeded).await;
        assert_eq!(sums(db.pool(), &pay_no).await, (60, 60));
    }
    let beyond = one(db.pool(), command(&pay_no, 3, 3, 41, 3)).await;
    assert_eq!(beyond.unwrap_err().reason(), Reason::RefundExceedsPaid);
    let rest = one(db.pool(), command(&pay_no, 3, 3, 40, 4)).await;
    assert!(matches!(rest, Ok(Outcome::Created(_))), "the key of the refused request is free: {rest:?}");
    assert_eq!(sums(db.pool(), &pay_no).await, (100, 60));
}

/// The money comes home after it had gone back: a new fact, once; what was refunded may be refunded again (bugs.md E4). Fails
/// when the state goes back, or when the second word takes the sums down again.
#[tokio::test]
async fn money_that_comes_home_is_a_new_fact_once() {
    let db = Db::payment().await;
    let pay_no = paid(db.pool(), 1).await;
    let refund = one(db.pool(), command(&pay_no, 1, 1, 100, 1)).await;
    word(db.pool(), &refund, RefundWord::Succeeded).await;
    for _ in 0..2 {
        word(db.pool(), &refund, RefundWord::Failed).await;
        assert_eq!(sums(db.pool(), &pay_no).await, (0, 0));
    }
    let (state, returned): (String, bool) =
        sqlx::query_as("SELECT state, returned_at IS NOT NULL FROM refund")
            .fetch_one(db.pool())
            .await
            .unwrap();
    assert_eq!((state.as_str(), returned), ("SUCCESS", true));
    let facts: Vec<String> =
        sqlx::query_scalar("SELECT type FROM payment_event WHERE type LIKE 'REFUND%' ORDER BY event_id")
            .fetch_all(db.pool())
            .await
            .unwrap();
    assert_eq!(facts, ["REFUND_CREATED", "REFUND_SUBMITTED", "REFUND_SUCCEEDED", "REFUND_RETURNED"]);
    assert!(matches!(one(db.pool(), command(&pay_no, 2, 2, 100, 2)).await, Ok(Outcome::Created(_))));
}

/// Stuck at the channel: the part stays reserved, nothing is booked, a person is told. Fails when *abnormal* ends a refund.
#[tokio::test]
async fn an_abnormal_refund_stays_reserved_and_a_person_is_told() {
    let db = Db::payment().await;
    let pay_no = paid(db.pool(), 1).await;
    let refund = one(db.pool(), command(&pay_no, 1, 1, 30, 1)).await;
    for before in [RefundWord::Taken, RefundWord::Abnormal, RefundWord::Abnormal] {
        word(db.pool(), &refund, before).await;
    }
    assert_eq!(sums(db.pool(), &pay_no).await, (30, 0));
    let state: String = sqlx::query_scalar("SELECT state FROM refund").fetch_one(db.pool()).await.unwrap();
    assert_eq!(state, "PROCESSING");
    let told: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM anomaly WHERE kind = 'REFUND_ABNORMAL' AND state = 'OPEN'")
            .fetch_one(db.pool())
            .await
            .unwrap();
    assert_eq!(told, 1);
}

/// Above the limit nothing goes to the channel before another person agrees. Fails when the one who asked may decide, when a
/// job takes a waiting refund, or when turning down leaves the part reserved.
#[tokio::test]
async fn a_refund_above_the_limit_waits_for_another_person() {
    let db = Db::payment().await;
    let pay_no = paid(db.pool(), 1).await;
    let waiting = |key, request, ordinal| Create {
        approval: Approval::Waiting,
        ..command(&pay_no, key, request, 60, ordinal)
    };
    let asked = one(db.pool(), waiting(1, 1, 1)).await.unwrap();
    let now = Clock::system().now();
    let due =
        crate::store::refund::take_due(db.pool(), now + time::Duration::days(400), 1, 1, 10).await.unwrap();
    assert!(due.is_empty(), "no job takes it");
    let decision = |by: &str, approve| Decision {
        refund_no: asked.refund().refund_no.clone(),
        decided_by: by.parse().unwrap(),
        note: "checked".parse().unwrap(),
        approve,
    };
    assert!(decide(db.pool(), &decision("anna", true), now).await.is_err(), "she asked for it herself");
    let rejected = decide(db.pool(), &decision("bert", false), now).await.unwrap();
    assert_eq!((rejected.state.as_str(), rejected.approval), ("FAIL", Approval::Rejected));
    assert_eq!(sums(db.pool(), &pay_no).await, (0, 0), "its part is free again");
    decide(db.pool(), &decision("bert", false), now).await.unwrap();
    assert!(decide(db.pool(), &decision("carl", true), now).await.is_err(), "it is decided");
    let second = one(db.pool(), waiting(2, 2, 2)).await.unwrap();
    let agree = Decision { refund_no: second.refund().refund_no.clone(), ..decision("bert", true) };
    let approved = decide(db.pool(), &agree, now).await.unwrap();
    assert_eq!((approved.state.as_str(), approved.approval), ("PENDING", Approval::Approved));
    assert_eq!(approved.decided_by.as_deref(), Some("bert"));
    let due =
        crate::store::refund::take_due(db.pool(), now + time::Duration::seconds(1), 1, 1, 10).await.unwrap();
    assert_eq!(due.len(), 1, "the job sends it");
}

/// A running total is kept as the highest one told, and one beyond what we know opens an anomaly (bugs.md E5). Fails when it is
/// added up, or when an older total takes it down.
#[tokio::test]
async fn a_running_total_is_no_delta() {
    let db = Db::payment().await;
    let pay_no = paid(db.pool(), 1).await;
    let refund = one(db.pool(), command(&pay_no, 1, 1, 10, 1)).await;
    word(db.pool(), &refund, RefundWord::Succeeded).await;
    for (total, kept, anomalies) in [(10, 10, 0), (3, 10, 0), (10, 10, 0), (40, 40, 1)] {
        let fact = Fact::RefundedTotal(money(total));
        settle(db.pool(), &[said(&pay_no, fact)], Switches::all_on(), Clock::system().now()).await.unwrap();
        let (channel_refunded, open): (i64, i64) = sqlx::query_as(
            "SELECT channel_refunded, (SELECT COUNT(*) FROM anomaly WHERE kind = 'REFUND_UNKNOWN') FROM payment",
        )
        .fetch_one(db.pool())
        .await
        .unwrap();
        assert_eq!((channel_refunded, open), (kept, anomalies), "{total}");
    }
    assert_eq!(sums(db.pool(), &pay_no).await, (10, 10), "and moves nothing");
}

/// The last judges: with the code passed by, the database refuses two live refunds, and more than was paid. Fails when
/// `uk_refund_live`, `uk_refund_request` or `ck_refund_within_paid` is dropped.
#[tokio::test]
async fn the_database_refuses_what_the_code_would_never_write() {
    let db = Db::payment().await;
    let pay_no = paid(db.pool(), 1).await;
    one(db.pool(), command(&pay_no, 1, 1, 60, 1)).await.unwrap();
    let copy = |request: &str, number: &str| {
        format!(
            "INSERT INTO refund (bucket, refund_no, kind, pay_no, merchant_id, refund_request_no, amount, currency, reason,
                                 channel, channel_account, channel_txn_id, next_try_at, requested_by, state)
             SELECT bucket, '{number}', kind, pay_no, merchant_id, '{request}', amount, currency, reason, channel,
                    channel_account, channel_txn_id, next_try_at, requested_by, 'PENDING' FROM refund LIMIT 1"
        )
    };
    let constraint = async |query: String| {
        let error = sqlx::query(sqlx::AssertSqlSafe(query)).execute(db.pool()).await.unwrap_err();
        service_kit::pg::constraint(&error).unwrap_or_default().to_owned()
    };
    assert_eq!(constraint(copy("Q9", "R9")).await, "uk_refund_live");
    assert_eq!(constraint(copy("Q1", "R8")).await, "uk_refund_request");
    let beyond = "UPDATE payment SET refund_reserved = 101".to_owned();
    assert_eq!(constraint(beyond).await, "ck_refund_within_paid");
}
