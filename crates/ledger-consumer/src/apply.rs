//! Gate 8. The hole: an event comes twice, because a producer, a relay, a rebalance or a crash repeated it.
//!
//! The mark `CONSUME:{msg_key}` and the entry commit together, and the key of an entry is unique for itself: either guard
//! alone holds. The offset is committed by the caller afterwards, so a crash in between only brings the message again.
//!
//! One batch is one transaction. What the database refuses for the sake of one message is taken apart into a transaction
//! for each, so that the culprit is parked alone. What is not a message's fault is given back as [`Error`]: the caller
//! waits and brings the same messages again. Conflicts of transactions are run again from the inputs.

use std::time::Duration;

use broker::Message;
use idempotency::log::{Claim, Claimed, claim_in_tx};
use ledger::{NewEntry, Posted, Shard};
use pay_types::Gate;
use service_kit::switch::{Switches, kill_point};
use service_kit::{pg, telemetry};
use sha2::{Digest as _, Sha256};
use sqlx::PgPool;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use crate::decode::decode;
use crate::fact::Fact;
use crate::fault::Fault;
use crate::park::Cause;
use crate::rules;
use crate::store::parked_message;

/// Longest transaction. The server ends a slow statement itself; this is for a line that died without a word.
const TRANSACTION_MAX: Duration = Duration::from_secs(30);

/// Why messages were not applied, and nothing was lost: bring them again later.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Away, too busy, or in conflict for too long; or a grant or a table is missing, which a person mends meanwhile.
    #[error("the ledger database cannot take the batch now")]
    Store(#[source] sqlx::Error),
    #[error("the batch was not booked")]
    Post(#[source] ledger::Error),
    #[error("a message could not be parked")]
    Park(#[source] parked_message::Error),
    #[error("the ledger database does not answer")]
    NoAnswer,
    #[error("partition {0} has no shard of the balances")]
    NoShard(i32),
}

/// How far a batch of one partition came.
#[derive(Debug)]
#[must_use]
pub struct Applied<'a> {
    /// Messages from the beginning that are done, for good or parked.
    pub done: usize,
    /// Those among them that are parked now and were not before.
    pub parked: Vec<(&'a Message, Cause)>,
    /// Why it stopped, if it did not come to the end.
    pub stopped: Option<Error>,
}

/// What became of one message.
#[derive(Debug)]
enum Outcome {
    Booked,
    /// The fact moves no money.
    Nothing,
    SeenInLog,
    SeenInBooks,
    Parked {
        cause: Cause,
        new: bool,
    },
}

/// What a message asks for.
#[derive(Debug)]
enum Verdict {
    Book(Box<Work>),
    Nothing,
    Park(Cause),
}

#[derive(Debug)]
struct Work {
    claim: Claim,
    entry: NewEntry,
}

/// A message that was read, and its span, which continues the payment's trace.
#[derive(Debug)]
struct Judged<'a> {
    message: &'a Message,
    verdict: Verdict,
    span: Span,
}

/// Applies batches to the ledger database.
#[derive(Debug, Clone)]
pub struct Applier {
    pool: PgPool,
    switches: Switches,
}

impl Applier {
    #[must_use]
    pub fn new(pool: PgPool, switches: Switches) -> Self {
        Self { pool, switches }
    }

    /// Applies messages of one partition, in their order.
    pub async fn apply<'a>(&self, messages: &'a [Message]) -> Applied<'a> {
        let mut applied = Applied { done: 0, parked: Vec::new(), stopped: None };
        let judged: Vec<Judged<'a>> = messages.iter().map(judge).collect();
        match self.run(&judged).await {
            Ok(outcomes) => applied.add(&judged, outcomes),
            Err(Fault::Data(_)) if judged.len() > 1 => self.one_by_one(&judged, &mut applied).await,
            Err(Fault::Data(detail)) => self.park(&judged, &detail, &mut applied).await,
            Err(Fault::Conflict(error)) => applied.stopped = Some(Error::Store(error)),
            Err(Fault::Wait(error)) => applied.stopped = Some(error),
        }
        applied
    }

    /// A transaction for each message: the good ones are booked, the bad one is found.
    async fn one_by_one<'a>(&self, judged: &[Judged<'a>], applied: &mut Applied<'a>) {
        tracing::warn!(rows = judged.len(), "a batch was refused and is taken apart");
        for one in judged.chunks(1) {
            match self.run(one).await {
                Ok(outcomes) => applied.add(one, outcomes),
                Err(Fault::Data(detail)) => self.park(one, &detail, applied).await,
                Err(Fault::Conflict(error)) => applied.stopped = Some(Error::Store(error)),
                Err(Fault::Wait(error)) => applied.stopped = Some(error),
            }
            if applied.stopped.is_some() {
                return;
            }
        }
    }

    /// Parks the one message that the database refused.
    async fn park<'a>(&self, judged: &[Judged<'a>], detail: &str, applied: &mut Applied<'a>) {
        let refused: Vec<_> = judged.iter().map(|bad| bad.refused(detail)).collect();
        match self.run(&refused).await {
            Ok(outcomes) => applied.add(&refused, outcomes),
            Err(Fault::Conflict(error)) => applied.stopped = Some(Error::Store(error)),
            Err(Fault::Wait(error)) => applied.stopped = Some(error),
            Err(Fault::Data(detail)) => {
                applied.stopped = Some(Error::Store(sqlx::Error::Protocol(detail)));
            }
        }
    }

    /// One transaction, run again after conflicts.
    async fn run(&self, judged: &[Judged<'_>]) -> Result<Vec<Outcome>, Fault> {
        let partition = judged.first().map_or(0, |first| first.message.partition);
        let span =
            tracing::info_span!("ledger_consumer.apply", kafka.partition = partition, rows = judged.len());
        let started = Instant::now();
        let mut tries = 0_u32;
        loop {
            tries = tries.saturating_add(1);
            let transaction = self.transaction(judged).instrument(span.clone());
            let result = tokio::time::timeout(TRANSACTION_MAX, transaction).await;
            match result.unwrap_or(Err(Fault::Wait(Error::NoAnswer))) {
                Err(Fault::Conflict(_)) if tries < pg::CONFLICT_TRIES_MAX => {
                    metrics::counter!("oncepay_transaction_reruns_total").increment(1);
                }
                Ok(outcomes) => {
                    metrics::histogram!("oncepay_ledger_batch_seconds").record(started.elapsed());
                    let rows = u32::try_from(judged.len()).unwrap_or(u32::MAX);
                    metrics::histogram!("oncepay_ledger_batch_rows").record(rows);
                    return Ok(outcomes);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    async fn transaction(&self, judged: &[Judged<'_>]) -> Result<Vec<Outcome>, Fault> {
        // Facts without money need no mark: doing nothing twice is doing nothing.
        if judged.iter().all(|one| matches!(one.verdict, Verdict::Nothing)) {
            return Ok(judged.iter().map(|_| Outcome::Nothing).collect());
        }
        let mut tx = self.pool.begin().await?;
        let works: Vec<&Work> = judged.iter().filter_map(Judged::work).collect();
        let claimed = self.claim(&mut tx, &works).await?;
        kill_point("ledger_consumer.apply.after_claim");
        let first = works.iter().zip(&claimed).filter(|(_, claimed)| matches!(claimed, Claimed::First));
        let entries: Vec<NewEntry> = first.map(|(work, _)| work.entry.clone()).collect();
        let posted = match entries.first() {
            Some(_) => ledger::post_in_tx(&mut tx, shard(judged)?, &entries).await?,
            None => Vec::new(),
        };
        let mut outcomes = outcomes(judged, claimed, posted);
        park_in_tx(&mut tx, judged, &mut outcomes).await?;
        kill_point("ledger_consumer.apply.after_parking");
        tx.commit().await?;
        kill_point("ledger_consumer.apply.after_commit");
        Ok(outcomes)
    }

    /// Gate 8, first guard.
    async fn claim(&self, tx: &mut sqlx::PgConnection, works: &[&Work]) -> Result<Vec<Claimed>, sqlx::Error> {
        if works.is_empty() || !self.switches.is_on(Gate::G8) {
            return Ok(works.iter().map(|_| Claimed::First).collect());
        }
        let claims: Vec<Claim> = works.iter().map(|work| work.claim.clone()).collect();
        claim_in_tx(tx, &claims).await
    }
}

impl<'a> Applied<'a> {
    /// Takes over the outcomes of a committed transaction, and tells them.
    fn add(&mut self, judged: &[Judged<'a>], outcomes: Vec<Outcome>) {
        for (one, outcome) in judged.iter().zip(outcomes) {
            one.tell(&outcome);
            self.done = self.done.saturating_add(1);
            if let Outcome::Parked { cause, new: true } = outcome {
                self.parked.push((one.message, cause));
            }
        }
    }
}

impl<'a> Judged<'a> {
    fn work(&self) -> Option<&Work> {
        match &self.verdict {
            Verdict::Book(work) => Some(work),
            Verdict::Nothing | Verdict::Park(_) => None,
        }
    }

    /// The same message and span, to be parked.
    fn refused(&self, detail: &str) -> Self {
        let verdict = Verdict::Park(Cause::Refused(detail.to_owned()));
        Self { message: self.message, verdict, span: self.span.clone() }
    }

    /// Writes down what became of the message: in its span, in the metrics, and in the log where a person is needed.
    fn tell(&self, outcome: &Outcome) {
        let gate_closed = |reason: &'static str| {
            let gate = Gate::G8.as_str();
            metrics::counter!("oncepay_gate_closed_total", "gate" => gate, "reason" => reason).increment(1);
        };
        let word = match outcome {
            Outcome::Booked => "booked",
            Outcome::Nothing => "nothing",
            Outcome::SeenInLog => {
                gate_closed("log");
                "duplicate"
            }
            Outcome::SeenInBooks => {
                gate_closed("entry");
                "duplicate"
            }
            Outcome::Parked { cause, new } => {
                if *cause == Cause::ConflictingBody {
                    gate_closed("conflicting_body");
                }
                if *new {
                    metrics::counter!("oncepay_parked_total", "reason" => cause.code()).increment(1);
                    let Message { partition, offset, .. } = self.message;
                    self.span.in_scope(|| {
                        tracing::error!(
                            kafka.partition = partition,
                            kafka.offset = offset,
                            "a message was parked: {cause}"
                        );
                    });
                }
                "parked"
            }
        };
        self.span.record("outcome", word);
        metrics::counter!("oncepay_ledger_messages_total", "outcome" => word).increment(1);
    }
}

/// Reads a message, and opens its span.
fn judge(message: &Message) -> Judged<'_> {
    let span = tracing::info_span!(
        parent: None,
        "ledger_consumer.post",
        otel.kind = "consumer",
        kafka.partition = message.partition,
        kafka.offset = message.offset,
        msg.key = tracing::field::Empty,
        pay.no = tracing::field::Empty,
        outcome = tracing::field::Empty,
    );
    telemetry::continue_trace(&span, message.header(contract::event::header::TRACEPARENT));
    let verdict = match decode(message) {
        Ok(fact) => {
            span.record("msg.key", fact.msg_key.as_str());
            span.record("pay.no", fact.pay_no.as_str());
            verdict(message, &fact)
        }
        Err(cause) => Verdict::Park(cause),
    };
    Judged { message, verdict, span }
}

fn verdict(message: &Message, fact: &Fact) -> Verdict {
    let Some(entry) = rules::entry(fact) else { return Verdict::Nothing };
    let claim = Claim {
        biz_key: format!("CONSUME:{}", fact.msg_key),
        request_hash: Sha256::digest(message.value.as_deref().unwrap_or_default()).to_vec(),
        result_no: fact.pay_no.to_string(),
    };
    Verdict::Book(Box::new(Work { claim, entry }))
}

fn shard(judged: &[Judged<'_>]) -> Result<Shard, Fault> {
    let partition = judged.first().map_or(0, |first| first.message.partition);
    Shard::of_partition(partition).ok_or(Fault::Wait(Error::NoShard(partition)))
}

/// Puts claims and postings back to their messages.
fn outcomes(judged: &[Judged<'_>], claimed: Vec<Claimed>, posted: Vec<Posted>) -> Vec<Outcome> {
    let (mut claimed, mut posted) = (claimed.into_iter(), posted.into_iter());
    let mut book = |work: &Work| match claimed.next() {
        Some(Claimed::First) => match posted.next() {
            Some(Posted::First(_)) => Outcome::Booked,
            Some(Posted::Replayed) | None => Outcome::SeenInBooks,
        },
        Some(Claimed::Seen(row)) if row.request_hash != work.claim.request_hash => {
            Outcome::Parked { cause: Cause::ConflictingBody, new: false }
        }
        Some(Claimed::Seen(_)) | None => Outcome::SeenInLog,
    };
    let one = |one: &Judged<'_>| match &one.verdict {
        Verdict::Book(work) => book(work),
        Verdict::Nothing => Outcome::Nothing,
        Verdict::Park(cause) => Outcome::Parked { cause: cause.clone(), new: false },
    };
    judged.iter().map(one).collect()
}

/// Keeps what is parked, and notes which of it was not kept before.
async fn park_in_tx(
    tx: &mut sqlx::PgConnection,
    judged: &[Judged<'_>],
    outcomes: &mut [Outcome],
) -> Result<(), Fault> {
    let mut slots = Vec::new();
    let mut rows = Vec::new();
    for (one, outcome) in judged.iter().zip(outcomes) {
        if let Outcome::Parked { cause, new } = outcome {
            rows.push((one.message, &*cause));
            slots.push(new);
        }
    }
    let Some((first, _)) = rows.first() else { return Ok(()) };
    let (topic, partition) = (first.topic.as_str(), first.partition);
    let new = parked_message::insert_in_tx(tx, topic, partition, &rows).await?;
    for (slot, new) in slots.into_iter().zip(new) {
        *slot = new;
    }
    Ok(())
}
