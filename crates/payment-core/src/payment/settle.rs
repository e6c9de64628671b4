//! Settling: the one path on which a channel's word moves a payment, whether by notice, query or statement. Gates G6
//! (forward only) and G7 (callback).
//!
//! The hole: a notice repeated, reordered, late, for another amount, or racing a query. The guarantee: state, history,
//! event, evidence and receipts of a word commit together; one fact has one effect. The order inside the transaction:
//!
//! 1. nonces: the same notice may come again, another body under its nonce may not;
//! 2. read the payments, judge by their *business state*;
//! 3. compare-and-set; a payment that someone else moved since it was read is read and judged again;
//! 4. receipts, `callback_log`, events with their outbox rows, anomalies, orphans.
//!
//! A word about a refund takes the same way and goes to the refund with its number (`refund/settle.rs`), never to the
//! payment.
//!
//! The channel is answered after the commit. Words about one payment in one batch take their turns in transactions one
//! after another, as if they had come one by one.

use std::collections::{HashMap, HashSet};

use pay_types::{Gate, PayNo, PaymentState};
use service_kit::switch::{Switches, kill_point};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use crate::Error;
use crate::payment::judge::{ChannelResult, Fact, Unwanted, Verdict, judge};
use crate::payment::settle_effects::Effects;
use crate::payment::{Payment, transaction, waves};
use crate::refund;
use crate::store;
use crate::store::nonce::NewNonce;
use crate::store::payment::Transition;

/// Times a payment may be overtaken by others before the caller is asked to send again.
const ROUNDS_MAX: u32 = 8;

/// What became of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Applied,
    Duplicate,
    Ignored,
    Recorded,
    UnexpectedReceipt,
    AmountMismatch,
    CrossAccount,
    Orphan,
    NonceReused,
}

impl Outcome {
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "APPLIED",
            Self::Duplicate => "DUPLICATE",
            Self::Ignored => "IGNORED",
            Self::Recorded => "RECORDED",
            Self::UnexpectedReceipt => "UNEXPECTED_RECEIPT",
            Self::AmountMismatch => "AMOUNT_MISMATCH",
            Self::CrossAccount => "CROSS_ACCOUNT",
            Self::Orphan => "ORPHAN",
            Self::NonceReused => "NONCE_REUSED",
        }
    }

    /// Whether the channel hears *success*; the evidence is committed either way.
    #[must_use]
    pub(crate) fn accepts(self) -> bool {
        !matches!(self, Self::CrossAccount | Self::Orphan | Self::NonceReused)
    }
}

/// The answer to one word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) outcome: Outcome,
    /// State of the payment afterwards; `None` where there is no payment.
    pub(crate) state: Option<PaymentState>,
}

/// Applies words, each with its own answer, in the order given.
pub(crate) async fn settle(
    pool: &PgPool,
    results: &[ChannelResult],
    switches: Switches,
    now: OffsetDateTime,
) -> Result<Vec<Settled>, Error> {
    let mut answers: Vec<Option<Settled>> = vec![None; results.len()];
    for wave in waves::of(results.iter().map(|result| [result.pay_no.clone()])) {
        let batch: Vec<&ChannelResult> = wave.iter().filter_map(|place| results.get(*place)).collect();
        let told = transaction::run("settle", || async {
            let mut tx = pool.begin().await?;
            let told = decide(&mut tx, &batch, switches, now).await?;
            kill_point("payment_core.settle.before_commit");
            tx.commit().await.map_err(Error::CommitUnheard)?;
            kill_point("payment_core.settle.after_commit");
            Ok(told)
        })
        .await?;
        for (place, answer) in wave.into_iter().zip(told) {
            if let Some(slot) = answers.get_mut(place) {
                *slot = Some(answer);
            }
        }
    }
    let answers = answers.into_iter().collect::<Option<Vec<_>>>().ok_or(Error::Overtaken)?;
    for (result, settled) in results.iter().zip(&answers) {
        count(result, settled);
    }
    Ok(answers)
}

fn count(result: &ChannelResult, settled: &Settled) {
    let outcome = settled.outcome.as_str();
    metrics::counter!("oncepay_channel_results_total", "source" => result.source.as_str(), "outcome" => outcome)
        .increment(1);
    match settled.outcome {
        Outcome::Duplicate | Outcome::NonceReused => {
            metrics::counter!("oncepay_gate_closed_total", "gate" => "G7", "reason" => outcome).increment(1);
        }
        Outcome::Ignored => {
            metrics::counter!("oncepay_gate_closed_total", "gate" => "G6", "reason" => "late").increment(1);
        }
        Outcome::CrossAccount | Outcome::AmountMismatch => {
            tracing::warn!(pay.no = result.pay_no, outcome, "a channel's word needs a person");
        }
        Outcome::Applied | Outcome::Recorded | Outcome::UnexpectedReceipt | Outcome::Orphan => {}
    }
}

async fn decide(
    tx: &mut PgConnection,
    batch: &[&ChannelResult],
    switches: Switches,
    now: OffsetDateTime,
) -> Result<Vec<Settled>, Error> {
    let mut effects = Effects::new(now);
    let admitted = admit(tx, batch, now).await?;
    kill_point("payment_core.settle.after_nonce");
    let mut answers: HashMap<usize, Settled> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    for (place, result) in batch.iter().enumerate() {
        if admitted.get(place).copied().unwrap_or(false) {
            open.push(place);
        } else {
            effects.nonce_reused(result);
            answers.insert(place, Settled { outcome: Outcome::NonceReused, state: None });
        }
    }
    for _ in 0..ROUNDS_MAX {
        if open.is_empty() {
            break;
        }
        let about_refund =
            |place: &usize| batch.get(*place).is_some_and(|result| matches!(result.fact, Fact::Refund(_)));
        let (refunds, payments): (Vec<usize>, Vec<usize>) = open.into_iter().partition(about_refund);
        open = round(tx, batch, &payments, switches, &mut effects, &mut answers).await?;
        open.extend(refund::settle::round(tx, batch, &refunds, &mut effects, &mut answers).await?);
    }
    if !open.is_empty() {
        return Err(Error::Overtaken);
    }
    kill_point("payment_core.settle.after_cas");
    effects.write(tx, &mut answers).await?;
    let order = 0..batch.len();
    order.map(|place| answers.remove(&place)).collect::<Option<Vec<_>>>().ok_or(Error::Overtaken)
}

async fn admit(
    tx: &mut PgConnection,
    batch: &[&ChannelResult],
    now: OffsetDateTime,
) -> Result<Vec<bool>, Error> {
    let (places, nonces): (Vec<usize>, Vec<NewNonce>) = batch
        .iter()
        .enumerate()
        .filter_map(|(place, result)| {
            let nonce = result.nonce.as_ref()?;
            let row = NewNonce {
                channel: result.channel.to_string(),
                channel_account: result.channel_account.to_string(),
                key_id: nonce.key_id.clone(),
                nonce: nonce.nonce.clone(),
                notify_id: nonce.notify_id.clone(),
                body_sha256: nonce.body_sha256.clone(),
            };
            Some((place, row))
        })
        .unzip();
    let mut admitted = vec![true; batch.len()];
    for (place, may_pass) in places.into_iter().zip(store::nonce::admit_in_tx(tx, &nonces, now).await?) {
        if let Some(slot) = admitted.get_mut(place) {
            *slot = may_pass;
        }
    }
    Ok(admitted)
}

/// Reads, judges and moves what is open; gives back what was overtaken and must be judged again.
async fn round(
    tx: &mut PgConnection,
    batch: &[&ChannelResult],
    open: &[usize],
    switches: Switches,
    effects: &mut Effects,
    answers: &mut HashMap<usize, Settled>,
) -> Result<Vec<usize>, Error> {
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<PayNo> =
        open.iter().filter_map(|place| batch.get(*place)?.pay_no.parse().ok()).collect();
    let payments = store::payment::by_numbers_in_tx(tx, &numbers).await?;
    kill_point("payment_core.settle.after_read");
    let mut moves = Vec::new();
    for place in open {
        let Some(result) = batch.get(*place) else { continue };
        let payment = result.pay_no.parse::<PayNo>().ok().and_then(|number| payments.get(&number));
        let Some(payment) = payment else {
            effects.orphan(result);
            answers.insert(*place, Settled { outcome: Outcome::Orphan, state: None });
            continue;
        };
        match verdict(payment, result, switches) {
            Verdict::Move(to) => moves.push((*place, *result, payment, to)),
            other @ (Verdict::Duplicate
            | Verdict::Ignore
            | Verdict::Note
            | Verdict::Total
            | Verdict::Receipt(_)
            | Verdict::Contradiction
            | Verdict::CrossAccount) => {
                let outcome = effects.without_move(*place, result, payment, other);
                answers.insert(*place, Settled { outcome, state: Some(payment.state) });
            }
        }
    }
    let moved = advance(tx, &moves, switches, effects.now()).await?;
    let mut overtaken = Vec::new();
    for (place, result, payment, to) in moves {
        if moved.contains(payment.pay_no.as_str()) {
            effects.moved(place, result, &after(payment, result, to))?;
            answers.insert(place, Settled { outcome: Outcome::Applied, state: Some(to) });
        } else {
            metrics::counter!("oncepay_gate_closed_total", "gate" => "G6", "reason" => "overtaken")
                .increment(1);
            overtaken.push(place);
        }
    }
    Ok(overtaken)
}

/// Judges by the payment's business state: gate G7's first line. With the gate off every word is taken for the first.
fn verdict(payment: &Payment, result: &ChannelResult, switches: Switches) -> Verdict {
    let verdict = judge(payment, result);
    if verdict == Verdict::Duplicate && !switches.is_on(Gate::G7) {
        return Verdict::Receipt(Unwanted::SecondTransaction);
    }
    verdict
}

/// Gate G6. With the gate off (debug builds only) the state and version that were read are not compared.
#[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "release builds have no switches"))]
async fn advance(
    tx: &mut PgConnection,
    moves: &[(usize, &ChannelResult, &Payment, PaymentState)],
    switches: Switches,
    now: OffsetDateTime,
) -> Result<HashSet<String>, Error> {
    let transitions: Vec<Transition> = moves
        .iter()
        .map(|(_, result, payment, to)| {
            let paid = matches!(result.fact, Fact::Paid { .. });
            Transition {
                pay_no: payment.pay_no.clone(),
                from: payment.state,
                version: payment.version,
                to: *to,
                channel_txn_id: result.channel_txn_id.as_ref().map(ToString::to_string),
                paid_at: paid.then_some(result.occurred_at),
                last_error: (!paid && !result.detail.is_empty()).then(|| result.detail.clone()),
            }
        })
        .collect();
    #[cfg(debug_assertions)]
    if !switches.is_on(Gate::G6) {
        return Ok(store::payment::advance_unguarded_in_tx(tx, &transitions, now).await?);
    }
    Ok(store::payment::advance_in_tx(tx, &transitions, now).await?)
}

/// The row after the move.
fn after(payment: &Payment, result: &ChannelResult, to: PaymentState) -> Payment {
    let paid = matches!(result.fact, Fact::Paid { .. });
    Payment {
        state: to,
        version: payment.version.saturating_add(1),
        channel_txn_id: result
            .channel_txn_id
            .as_ref()
            .map(ToString::to_string)
            .or_else(|| payment.channel_txn_id.clone()),
        paid_at: if paid { Some(result.occurred_at) } else { payment.paid_at },
        ..payment.clone()
    }
}
