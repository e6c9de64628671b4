//! Settling a channel's word about a refund: gate G10, on the one settle path.
//!
//! The word goes to the refund with its number, never to the payment and never to a refund found by its amount. Account,
//! merchant, payment, transaction, amount and currency must be the refund's own. The refund moves by compare-and-set; its
//! event, the evidence and the receipt's new state commit with it.

use std::collections::HashMap;

use contract::event::kind;
use pay_types::{PayNo, RefundAdvance, RefundNo, RefundState, RefundWord};
use serde_json::json;
use service_kit::switch::kill_point;
use sqlx::PgConnection;

use crate::Error;
use crate::payment::judge::{ChannelResult, Fact, RefundFact};
use crate::payment::settle::{Outcome, Settled};
use crate::payment::settle_effects::{self as effects, Effects};
use crate::payment::{Payment, event};
use crate::refund::{Approval, Refund, RefundKind};
use crate::store;
use crate::store::anomaly::NewAnomaly;
use crate::store::refund::RefundTransition;

/// A refund that has ended, and what its end does to the sums of its payment or to its receipt.
#[derive(Debug)]
pub(crate) struct Ended {
    refund: Refund,
    state: RefundState,
}

/// A refund whose money has come home.
#[derive(Debug)]
pub(crate) struct Returned {
    refund: Refund,
}

/// What follows for a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    /// Move the refund, by compare-and-set.
    Move(RefundState),
    /// Its money came home after it had gone back: a new fact, by compare-and-set; the state stays.
    Return,
    /// The fact is known.
    Duplicate,
    /// Late or reordered: recorded, nothing changes.
    Ignore,
    /// Not the refund that we asked for, though it has its number: a person must look.
    Mismatch,
    /// It ended otherwise before: money may have moved a second time, and a person must look.
    Contradiction,
    /// Account or merchant are not the refund's: no change, a person must look, refuse.
    CrossAccount,
}

/// The settle table's last row, opened.
pub(crate) fn judge(
    refund: &Refund,
    payment: &Payment,
    result: &ChannelResult,
    told: &RefundFact,
) -> Verdict {
    let other_merchant =
        result.merchant_id.as_deref().is_some_and(|named| named != payment.merchant_id.as_str());
    if refund.channel != result.channel || refund.channel_account != result.channel_account || other_merchant
    {
        return Verdict::CrossAccount;
    }
    let other_transaction = result.channel_txn_id.as_ref().is_some_and(|txn| *txn != refund.channel_txn_id);
    if other_transaction || told.amount != refund.amount || result.pay_no != refund.pay_no.as_str() {
        return Verdict::Mismatch;
    }
    // The channel cannot know a refund that waits for a person, or was turned down: it was never sent.
    if matches!(refund.approval, Approval::Waiting | Approval::Rejected) {
        return Verdict::Mismatch;
    }
    match refund.state.advance(told.word) {
        RefundAdvance::To(state) => Verdict::Move(state),
        RefundAdvance::Known => Verdict::Duplicate,
        RefundAdvance::Stay => Verdict::Ignore,
        RefundAdvance::Returned if refund.returned_at.is_some() => Verdict::Duplicate,
        RefundAdvance::Returned => Verdict::Return,
        RefundAdvance::Contradiction => Verdict::Contradiction,
    }
}

struct Move<'a> {
    place: usize,
    result: &'a ChannelResult,
    told: &'a RefundFact,
    refund: &'a Refund,
    payment: &'a Payment,
    to: RefundState,
}

/// Reads, judges and moves the refunds that open words are about; gives back what was overtaken.
pub(crate) async fn round(
    tx: &mut PgConnection,
    batch: &[&ChannelResult],
    open: &[usize],
    effects: &mut Effects,
    answers: &mut HashMap<usize, Settled>,
) -> Result<Vec<usize>, Error> {
    let words: Vec<(usize, &ChannelResult, &RefundFact)> = open
        .iter()
        .filter_map(|place| {
            let result = *batch.get(*place)?;
            match &result.fact {
                Fact::Refund(told) => Some((*place, result, told)),
                Fact::Paid { .. } | Fact::Closed | Fact::Failed | Fact::Declined | Fact::RefundedTotal(_) => {
                    None
                }
            }
        })
        .collect();
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<RefundNo> =
        words.iter().filter_map(|(_, _, told)| told.refund_no.parse().ok()).collect();
    let refunds = store::refund::by_numbers_in_tx(tx, &numbers).await?;
    let pay_nos: Vec<PayNo> = refunds.values().map(|refund| refund.pay_no.clone()).collect();
    let payments = store::payment::by_numbers_in_tx(tx, &pay_nos).await?;
    kill_point("payment_core.refund.after_result_read");
    let (mut moves, mut overtaken) = (Vec::new(), Vec::new());
    for (place, result, told) in words {
        let refund = told.refund_no.parse().ok().and_then(|number: RefundNo| refunds.get(&number));
        let Some((refund, payment)) = refund.and_then(|refund| Some((refund, payments.get(&refund.pay_no)?)))
        else {
            effects.orphan(result);
            answers.insert(place, Settled { outcome: Outcome::Orphan, state: None });
            continue;
        };
        match judge(refund, payment, result, told) {
            Verdict::Move(to) => moves.push(Move { place, result, told, refund, payment, to }),
            Verdict::Return => {
                if !come_home(tx, effects, place, result, (refund, payment)).await? {
                    overtaken.push(place);
                    continue;
                }
                let state = Some(payment.state);
                answers.insert(place, Settled { outcome: Outcome::Applied, state });
            }
            other @ (Verdict::Duplicate
            | Verdict::Ignore
            | Verdict::Mismatch
            | Verdict::Contradiction
            | Verdict::CrossAccount) => {
                let outcome = effects.refund_unmoved(place, result, (refund, payment), other);
                answers.insert(place, Settled { outcome, state: Some(payment.state) });
            }
        }
    }
    overtaken.extend(advance(tx, &moves, effects, answers).await?);
    Ok(overtaken)
}

/// `REFUND_RETURNED`, once. False: the refund changed since it was read.
async fn come_home(
    tx: &mut PgConnection,
    effects: &mut Effects,
    place: usize,
    result: &ChannelResult,
    (refund, payment): (&Refund, &Payment),
) -> Result<bool, Error> {
    let now = effects.now();
    let marked =
        store::refund::return_in_tx(tx, &refund.refund_no, refund.version, result.occurred_at, now).await?;
    kill_point("payment_core.refund.after_return");
    if !marked {
        return Ok(false);
    }
    let cause = effects::cause(result);
    let returned = event::refund(payment, refund, kind::REFUND_RETURNED, result.occurred_at, &cause, now)?;
    effects.events.push(returned);
    let action = format!("REFUND_RETURNED:{}", refund.refund_no);
    effects.callbacks.push((place, effects::evidence(result, payment, action, Outcome::Applied)));
    effects.refund_anomaly("REFUND_RETURNED", result, refund);
    effects.refunds_returned.push(Returned { refund: refund.clone() });
    Ok(true)
}

async fn advance(
    tx: &mut PgConnection,
    moves: &[Move<'_>],
    effects: &mut Effects,
    answers: &mut HashMap<usize, Settled>,
) -> Result<Vec<usize>, Error> {
    let transitions: Vec<RefundTransition> = moves
        .iter()
        .map(|step| RefundTransition {
            refund_no: step.refund.refund_no.clone(),
            from: step.refund.state,
            version: step.refund.version,
            to: step.to,
            channel_refund_no: step.told.channel_refund_no.clone(),
            last_error: (step.to == RefundState::Fail && !step.result.detail.is_empty())
                .then(|| step.result.detail.clone()),
        })
        .collect();
    let moved = store::refund::advance_in_tx(tx, &transitions, effects.now()).await?;
    kill_point("payment_core.refund.after_result_cas");
    let mut overtaken = Vec::new();
    for step in moves {
        if moved.contains(step.refund.refund_no.as_str()) {
            effects.refund_moved(step)?;
            let state = Some(step.payment.state);
            answers.insert(step.place, Settled { outcome: Outcome::Applied, state });
        } else {
            metrics::counter!("oncepay_gate_closed_total", "gate" => "G10", "reason" => "overtaken")
                .increment(1);
            overtaken.push(step.place);
        }
    }
    Ok(overtaken)
}

impl Effects {
    fn refund_moved(&mut self, step: &Move<'_>) -> Result<(), Error> {
        let Move { place, result, refund, payment, to, .. } = step;
        let (cause, now) = (effects::cause(result), self.now());
        if refund.state == RefundState::Pending {
            // The channel knows a refund that we do not remember sending: the books must see it leave first.
            let left =
                event::refund(payment, refund, kind::REFUND_SUBMITTED, result.occurred_at, &cause, now)?;
            self.events.push(left);
        }
        let kind = match to {
            RefundState::Processing => kind::REFUND_ACCEPTED,
            RefundState::Success => kind::REFUND_SUCCEEDED,
            RefundState::Fail => kind::REFUND_FAILED,
            RefundState::Pending | RefundState::Submitted => return Err(Error::Overtaken),
        };
        self.events.push(event::refund(payment, refund, kind, result.occurred_at, &cause, now)?);
        if step.told.word == RefundWord::Abnormal {
            self.refund_anomaly("REFUND_ABNORMAL", result, refund);
        }
        // That a refund was taken is an answer to our own call, and no fact that a notice could repeat.
        if step.told.word != RefundWord::Taken {
            self.callbacks
                .push((*place, effects::evidence(result, payment, result.fact.action(), Outcome::Applied)));
        }
        if to.is_terminal() {
            self.refunds_ended.push(Ended { refund: (*refund).clone(), state: *to });
        }
        if *to == RefundState::Fail {
            self.refund_anomaly("REFUND_FAILED", result, refund);
        }
        Ok(())
    }

    fn refund_unmoved(
        &mut self,
        place: usize,
        result: &ChannelResult,
        (refund, payment): (&Refund, &Payment),
        verdict: Verdict,
    ) -> Outcome {
        let (outcome, action) = match verdict {
            Verdict::CrossAccount => {
                self.refund_anomaly("CROSS_ACCOUNT", result, refund);
                return Outcome::CrossAccount;
            }
            Verdict::Mismatch => {
                self.refund_anomaly("REFUND_MISMATCH", result, refund);
                // A fact of its own: it must not hide the right one that may follow.
                let (amount, currency) = effects::money_of(result);
                let told = format!("{}:{}", amount.unwrap_or(0), currency.unwrap_or_default());
                (Outcome::AmountMismatch, format!("{}:{told}", result.fact.action()))
            }
            Verdict::Contradiction => {
                self.refund_anomaly("REFUND_CONTRADICTION", result, refund);
                (Outcome::AmountMismatch, result.fact.action())
            }
            Verdict::Duplicate => {
                if matches!(&result.fact, Fact::Refund(told) if told.word == RefundWord::Abnormal) {
                    // Taken before, and stuck now.
                    self.refund_anomaly("REFUND_ABNORMAL", result, refund);
                }
                metrics::counter!("oncepay_gate_closed_total", "gate" => "G10", "reason" => "known")
                    .increment(1);
                (Outcome::Duplicate, result.fact.action())
            }
            Verdict::Ignore | Verdict::Move(_) | Verdict::Return => (Outcome::Ignored, result.fact.action()),
        };
        // That a refund was taken is an answer to our own call, and no fact that a notice could repeat.
        if !matches!(&result.fact, Fact::Refund(told) if told.word == RefundWord::Taken) {
            self.callbacks.push((place, effects::evidence(result, payment, action, outcome)));
        }
        outcome
    }

    pub(crate) fn refund_anomaly(&mut self, kind: &'static str, result: &ChannelResult, refund: &Refund) {
        let (amount, currency) = effects::money_of(result);
        self.anomalies.push(NewAnomaly {
            kind,
            subject: refund.refund_no.to_string(),
            detail: json!({
                "fact": result.fact.action(),
                "pay_no": refund.pay_no.as_str(),
                "channel": result.channel.as_str(),
                "channel_account": result.channel_account.as_str(),
                "channel_txn_id": refund.channel_txn_id.as_str(),
                "told": { "amount": amount, "currency": currency, "pay_no": result.pay_no,
                          "channel_txn_id": result.channel_txn_id.as_ref().map(ToString::to_string) },
                "expected": { "amount": refund.amount.minor(), "currency": refund.amount.currency().code() },
                "state": refund.state.as_str(),
                "source": result.source.as_str(),
                "words": result.detail,
            }),
            raw: Some(effects::kept(&result.raw)),
        });
    }

    /// What refunds that have ended, or came home, do to the sums of their payments and to their receipts.
    pub(crate) async fn write_refunds(&self, tx: &mut PgConnection) -> Result<(), Error> {
        let mut sums: Vec<(PayNo, i64, i64)> = Vec::new();
        for Ended { refund, state } in &self.refunds_ended {
            let amount = refund.amount.minor();
            match (refund.kind, state) {
                (RefundKind::Payment, RefundState::Success) => sums.push((refund.pay_no.clone(), 0, amount)),
                // Its part may be refunded anew.
                (RefundKind::Payment, _) => sums.push((refund.pay_no.clone(), amount.saturating_neg(), 0)),
                (RefundKind::Receipt, _) => {
                    let receipt = if *state == RefundState::Success { "REFUNDED" } else { "OPEN" };
                    store::receipt::end_refund_in_tx(
                        tx,
                        place_of(refund),
                        refund.refund_no.as_str(),
                        receipt,
                    )
                    .await?;
                    kill_point("payment_core.refund.after_result_receipt");
                }
            }
        }
        for Returned { refund } in &self.refunds_returned {
            let back = refund.amount.minor().saturating_neg();
            match refund.kind {
                RefundKind::Payment => sums.push((refund.pay_no.clone(), back, back)),
                RefundKind::Receipt => {
                    store::receipt::reopen_in_tx(tx, place_of(refund), refund.refund_no.as_str()).await?;
                }
            }
        }
        if !sums.is_empty() {
            store::payment::move_refunds_in_tx(tx, &sums, self.now()).await?;
            kill_point("payment_core.refund.after_result_sums");
        }
        Ok(())
    }
}

/// Key of a refund's receipt.
fn place_of(refund: &Refund) -> (i16, &str, &str) {
    (refund.refund_no.bucket().as_i16(), refund.channel.as_str(), refund.channel_txn_id.as_str())
}
