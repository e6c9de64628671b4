//! A batch behaves exactly as if its messages had come one by one, bad ones among them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use broker::Message;
use contract::event::PaymentEvent;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use test_kit::Db;

use crate::{Books, applier, apply, books, fact, message, paid, refund};

/// Cases: each makes two databases, about a tenth of a second.
const CASES: u32 = 24;

/// Steps of a refund, with money and without.
const STEPS: [&str; 7] = [
    "REFUND_CREATED",
    "REFUND_SUBMITTED",
    "REFUND_ACCEPTED",
    "REFUND_SUCCEEDED",
    "REFUND_FAILED",
    "REFUND_REJECTED",
    "REFUND_RETURNED",
];

/// What may lie in the topic.
#[derive(Debug, Clone, Copy)]
enum Record {
    /// A fact of money: number, and whether it is told with its other amount.
    Paid(u32, bool),
    Receipt(u32),
    /// A step of a refund: which, and whether it gives back a payment's money.
    Refund(u32, &'static str, bool),
    /// A refund of a kind that no rule knows.
    Oddity,
    /// No money.
    Closed(u32),
    /// Money through an account whose total is full: the database refuses it.
    Full(u32),
    Garbage,
    Unknown,
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        6 => (0_u32..6, prop::bool::weighted(0.2)).prop_map(|(n, other)| Record::Paid(n, other)),
        2 => (0_u32..4).prop_map(Record::Receipt),
        4 => (0_u32..3, prop::sample::select(&STEPS[..]), any::<bool>()).prop_map(|(n, step, of)| Record::Refund(n, step, of)),
        1 => Just(Record::Oddity),
        1 => (0_u32..4).prop_map(Record::Closed),
        1 => (10_u32..13).prop_map(Record::Full),
        1 => Just(Record::Garbage),
        1 => Just(Record::Unknown),
    ]
}

impl Record {
    fn message(self, offset: i64) -> Message {
        match self {
            Self::Paid(n, other) => message(offset, &paid("M1", n, if other { 999 } else { 10 })),
            Self::Receipt(n) => message(offset, &fact("RECEIPT_UNEXPECTED", "M1", n, 3)),
            Self::Refund(n, step, of_payment) => message(offset, &step_of(n, step, of_payment)),
            Self::Oddity => message(offset, &refund("REFUND_SUBMITTED", "COUPON", "M1", 9, 3)),
            Self::Closed(n) => message(offset, &fact("PAY_CLOSED", "M1", n, 10)),
            Self::Full(n) => message(offset, &full(n)),
            Self::Garbage => Message { value: Some(b"{".to_vec()), ..message(offset, &paid("M1", 0, 1)) },
            Self::Unknown => message(offset, &fact("COUPON_GIVEN", "M1", 0, 1)),
        }
    }
}

/// The two kinds of a refund are two refunds.
fn step_of(n: u32, step: &str, of_payment: bool) -> PaymentEvent {
    if of_payment { refund(step, "PAYMENT", "M1", n, 3) } else { refund(step, "RECEIPT", "M1", n + 10, 3) }
}

fn full(n: u32) -> PaymentEvent {
    PaymentEvent { channel_account: "full".into(), ..paid("M1", n, 10) }
}

/// What the books must hold, worked out in memory, message by message.
#[derive(Debug, Default)]
struct Model {
    /// Amount by key, as first told.
    marks: BTreeMap<String, i64>,
    sums: BTreeMap<String, (i64, i64)>,
    parked: BTreeSet<(i64, &'static str)>,
}

impl Model {
    fn take(&mut self, offset: i64, record: Record) {
        let (event, debit, credit) = match record {
            Record::Paid(n, other) => {
                let event = paid("M1", n, if other { 999 } else { 10 });
                (event, "clearing:generic:main:CNY", "payable:M1:CNY")
            }
            Record::Receipt(n) => {
                let event = fact("RECEIPT_UNEXPECTED", "M1", n, 3);
                (event, "clearing:generic:main:CNY", "suspense:generic:main:CNY")
            }
            Record::Refund(n, step, of_payment) => {
                let source = if of_payment { "payable:M1:CNY" } else { "suspense:generic:main:CNY" };
                let (transit, clearing) = ("transit:generic:main:CNY", "clearing:generic:main:CNY");
                let (debit, credit) = match step {
                    "REFUND_SUBMITTED" => (source, transit),
                    "REFUND_SUCCEEDED" => (transit, clearing),
                    "REFUND_FAILED" => (transit, source),
                    "REFUND_RETURNED" => (clearing, source),
                    _ => return,
                };
                (step_of(n, step, of_payment), debit, credit)
            }
            Record::Oddity => return self.park(offset, "FIELD_INVALID"),
            Record::Closed(_) => return,
            Record::Full(_) => return self.park(offset, "REFUSED"),
            Record::Garbage => return self.park(offset, "UNDECODABLE"),
            Record::Unknown => return self.park(offset, "UNKNOWN_KIND"),
        };
        match self.marks.get(&event.msg_key) {
            Some(amount) if *amount == event.amount => {}
            Some(_) => self.park(offset, "CONFLICTING_BODY"),
            None => {
                self.marks.insert(event.msg_key, event.amount);
                self.sums.entry(debit.to_owned()).or_default().0 += event.amount;
                self.sums.entry(credit.to_owned()).or_default().1 += event.amount;
            }
        }
    }

    fn park(&mut self, offset: i64, code: &'static str) {
        self.parked.insert((offset, code));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_its_messages_one_by_one() {
    let runtime = tokio::runtime::Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        let mut runner =
            TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
        let batches = prop::collection::vec(prop::collection::vec(record(), 1..12), 1..4);
        if let Err(error) = runner.run(&batches, |batches| runtime.block_on(check(batches))) {
            panic!("{error}");
        }
    });
    work.await.unwrap();
}

/// A database in which the account `full` can take nothing more.
async fn prepared() -> Db {
    let db = Db::ledger().await;
    sqlx::raw_sql(
        "INSERT INTO account VALUES ('clearing:generic:full:CNY', 'ASSET', 'CNY', 'D');
         INSERT INTO account_balance VALUES ('clearing:generic:full:CNY', 0, 9223372036854775807, 0)",
    )
    .execute(db.pool())
    .await
    .unwrap();
    db
}

async fn check(batches: Vec<Vec<Record>>) -> Result<(), TestCaseError> {
    let (together, apart) = (prepared().await, prepared().await);
    let (by_batch, by_message) = (applier(&together), applier(&apart));
    let mut model = Model::default();
    let mut offset = 0_i64;
    for batch in batches {
        let mut messages = Vec::new();
        for record in batch {
            model.take(offset, record);
            messages.push(record.message(offset));
            offset += 1;
        }
        let codes = apply(&by_batch, &messages).await;
        let mut codes_apart = Vec::new();
        for one in messages.chunks(1) {
            codes_apart.extend(apply(&by_message, one).await);
        }
        prop_assert_eq!(codes, codes_apart);
    }
    let (together, apart) = (books(&together).await, books(&apart).await);
    prop_assert_eq!(&together, &apart);
    compare(&together, &model)
}

fn compare(books: &Books, model: &Model) -> Result<(), TestCaseError> {
    let marks: Vec<_> = model.marks.keys().map(|key| format!("CONSUME:{key}")).collect();
    prop_assert_eq!(&books.marks, &marks);
    let sums: HashMap<_, _> = books
        .balances
        .iter()
        .filter(|(code, ..)| !code.contains(":full:"))
        .map(|(code, _, debit, credit)| (code.clone(), (*debit, *credit)))
        .collect();
    prop_assert_eq!(sums, model.sums.clone().into_iter().collect::<HashMap<_, _>>());
    let parked: Vec<_> =
        books.parked.iter().map(|(at, error)| (*at, error.split(':').next().unwrap())).collect();
    prop_assert_eq!(parked, model.parked.iter().copied().collect::<Vec<_>>());
    Ok(())
}
