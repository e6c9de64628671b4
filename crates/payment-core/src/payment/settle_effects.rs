//! What settling writes beside the payment itself: receipts, evidence, events, anomalies, orphans. Gathered while words are
//! judged, written at the end of the same transaction.

use std::collections::{HashMap, HashSet};

use pay_types::{Bucket, PayNo};
use serde_json::json;
use service_kit::switch::kill_point;
use service_kit::telemetry;
use sqlx::PgConnection;
use time::OffsetDateTime;
use tracing::Span;

use crate::Error;
use crate::payment::judge::{ChannelResult, Fact, Unwanted, Verdict};
use crate::payment::settle::{Outcome, Settled};
use crate::payment::{Payment, event};
use crate::refund::NewRefund;
use crate::refund::settle::{Ended, Returned};
use crate::store;
use crate::store::anomaly::NewAnomaly;
use crate::store::callback_log::NewCallback;
use crate::store::event::NewEvent;
use crate::store::orphan::Orphan;
use crate::store::receipt::NewReceipt;

/// An orphan is tried again after this long at first.
pub(crate) const ORPHAN_RETRY_FIRST: time::Duration = time::Duration::seconds(5);
/// Bytes of a message kept with an anomaly.
const RAW_KEPT_MAX: usize = 4096;

struct Receipt {
    place: usize,
    payment: Payment,
    row: NewReceipt,
    /// Sends the money back, under a number of its own; `None` where a person decides.
    refund: Option<NewRefund>,
    occurred_at: OffsetDateTime,
    cause: String,
    traceparent: Option<String>,
}

struct Paid {
    payment: Payment,
    channel_txn_id: String,
    cause: String,
    traceparent: Option<String>,
}

/// The effects of one transaction.
pub(crate) struct Effects {
    now: OffsetDateTime,
    pub(crate) events: Vec<NewEvent>,
    pub(crate) callbacks: Vec<(usize, NewCallback)>,
    receipts: Vec<Receipt>,
    paid: Vec<Paid>,
    pub(crate) anomalies: Vec<NewAnomaly>,
    pub(crate) refunds_ended: Vec<Ended>,
    pub(crate) refunds_returned: Vec<Returned>,
    /// Running totals of refunds that the channel told.
    totals: Vec<(PayNo, i64)>,
    orphans: Vec<Orphan>,
    notes: Vec<(PayNo, String)>,
}

impl Effects {
    pub(crate) fn new(now: OffsetDateTime) -> Self {
        Self {
            now,
            events: Vec::new(),
            callbacks: Vec::new(),
            receipts: Vec::new(),
            paid: Vec::new(),
            anomalies: Vec::new(),
            refunds_ended: Vec::new(),
            refunds_returned: Vec::new(),
            totals: Vec::new(),
            orphans: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> OffsetDateTime {
        self.now
    }

    /// The payment has moved; `payment` is the row after the move.
    pub(crate) fn moved(
        &mut self,
        place: usize,
        result: &ChannelResult,
        payment: &Payment,
    ) -> Result<(), Error> {
        let traceparent = trace_of(payment);
        let cause = cause(result);
        self.events.push(event::ended(payment, result.occurred_at, &cause, traceparent.clone(), self.now)?);
        self.callbacks.push((place, evidence(result, payment, result.fact.action(), Outcome::Applied)));
        if let Fact::Paid { channel_txn_id, .. } = &result.fact {
            let channel_txn_id = channel_txn_id.to_string();
            self.paid.push(Paid { payment: payment.clone(), channel_txn_id, cause, traceparent });
        }
        Ok(())
    }

    /// The payment does not move; gives the outcome.
    pub(crate) fn without_move(
        &mut self,
        place: usize,
        result: &ChannelResult,
        payment: &Payment,
        verdict: Verdict,
    ) -> Outcome {
        let action = result.fact.action();
        match verdict {
            Verdict::Receipt(reason) => return self.receipt(place, result, payment, reason),
            Verdict::CrossAccount => {
                self.anomaly("CROSS_ACCOUNT", result, payment);
                return Outcome::CrossAccount;
            }
            Verdict::Contradiction => {
                self.anomaly("CONTRADICTION", result, payment);
                let outcome = Outcome::AmountMismatch;
                self.callbacks.push((place, evidence(result, payment, mismatch_action(result), outcome)));
                return outcome;
            }
            Verdict::Note => {
                self.notes.push((payment.pay_no.clone(), result.detail.clone()));
                self.callbacks.push((place, evidence(result, payment, action, Outcome::Recorded)));
                return Outcome::Recorded;
            }
            Verdict::Total => {
                let (total, _) = money_of(result);
                self.totals.push((payment.pay_no.clone(), total.unwrap_or_default()));
                self.callbacks.push((place, evidence(result, payment, action, Outcome::Recorded)));
                return Outcome::Recorded;
            }
            Verdict::Duplicate | Verdict::Ignore | Verdict::Move(_) => {}
        }
        let outcome = if verdict == Verdict::Duplicate { Outcome::Duplicate } else { Outcome::Ignored };
        self.callbacks.push((place, evidence(result, payment, action, outcome)));
        outcome
    }

    fn receipt(
        &mut self,
        place: usize,
        result: &ChannelResult,
        payment: &Payment,
        reason: Unwanted,
    ) -> Outcome {
        let Fact::Paid { amount, channel_txn_id } = &result.fact else { return Outcome::Ignored };
        let wrong = matches!(reason, Unwanted::AmountMismatch | Unwanted::CurrencyMismatch);
        let (action, outcome) = if wrong {
            self.anomaly(reason.as_str(), result, payment);
            (mismatch_action(result), Outcome::AmountMismatch)
        } else {
            (result.fact.action(), Outcome::UnexpectedReceipt)
        };
        let traceparent = trace_of(payment);
        let refund = (!wrong).then(|| {
            let trace = traceparent.clone();
            NewRefund::of_receipt(payment, *amount, channel_txn_id, reason, trace, self.now)
        });
        self.callbacks.push((place, evidence(result, payment, action, outcome)));
        self.receipts.push(Receipt {
            place,
            row: NewReceipt {
                bucket: payment.bucket().as_i16(),
                channel: payment.channel.as_str(),
                channel_account: payment.channel_account.to_string(),
                channel_txn_id: channel_txn_id.to_string(),
                pay_no: payment.pay_no.to_string(),
                amount: amount.minor(),
                currency: amount.currency().code().to_owned(),
                reason: reason.as_str(),
                refund_no: refund.as_ref().map(|refund| refund.refund_no.to_string()),
            },
            refund,
            payment: payment.clone(),
            occurred_at: result.occurred_at,
            cause: cause(result),
            traceparent,
        });
        outcome
    }

    pub(crate) fn nonce_reused(&mut self, result: &ChannelResult) {
        let nonce = result.nonce.as_ref().map(|nonce| nonce.nonce.as_str()).unwrap_or_default();
        self.anomalies.push(NewAnomaly {
            kind: "NONCE_REUSED",
            subject: format!("{}/{}/{nonce}", result.channel, result.channel_account),
            detail: json!({ "pay_no": result.pay_no, "fact": result.fact.action() }),
            raw: Some(kept(&result.raw)),
        });
    }

    pub(crate) fn orphan(&mut self, result: &ChannelResult) {
        let (amount, currency) = money_of(result);
        self.orphans.push(Orphan {
            bucket: bucket_of(&result.pay_no).as_i16(),
            channel: result.channel.to_string(),
            channel_account: result.channel_account.to_string(),
            channel_txn_id: txn_or_number(result),
            action: result.fact.action(),
            pay_no: result.pay_no.clone(),
            amount,
            currency,
            source: result.source.as_str().to_owned(),
            occurred_at: Some(result.occurred_at),
            raw: result.raw.to_vec(),
            tries: 0,
        });
    }

    fn anomaly(&mut self, kind: &'static str, result: &ChannelResult, payment: &Payment) {
        let (amount, currency) = money_of(result);
        self.anomalies.push(NewAnomaly {
            kind,
            subject: payment.pay_no.to_string(),
            detail: json!({
                "fact": result.fact.action(),
                "channel": result.channel.as_str(),
                "channel_account": result.channel_account.as_str(),
                "channel_txn_id": result.channel_txn_id.as_ref().map(ToString::to_string),
                "told": { "amount": amount, "currency": currency },
                "expected": { "amount": payment.amount.minor(), "currency": payment.amount.currency().code() },
                "state": payment.state.as_str(),
                "source": result.source.as_str(),
            }),
            raw: Some(kept(&result.raw)),
        });
    }

    /// Writes everything; receipts that were there before turn their answers into duplicates.
    pub(crate) async fn write(
        mut self,
        tx: &mut PgConnection,
        answers: &mut HashMap<usize, Settled>,
    ) -> Result<(), Error> {
        self.write_receipts(tx, answers).await?;
        self.withdraw_receipts(tx).await?;
        self.write_refunds(tx).await?;
        kill_point("payment_core.settle.after_receipt");
        self.write_evidence(tx).await?;
        kill_point("payment_core.settle.after_callback_log");
        let new = store::event::append_in_tx(tx, &self.events, self.now).await?;
        if u64::try_from(self.events.len()) != Ok(new) {
            tracing::error!(new, wanted = self.events.len(), "a fact had its event already");
        }
        kill_point("payment_core.settle.after_event");
        for (number, words) in &self.notes {
            // False: the payment has ended since; the words stay in the evidence.
            let noted = store::payment::note_error_in_tx(tx, number, words, self.now).await?;
            tracing::debug!(pay.no = %number, noted, "the channel declined a try of the payer");
        }
        self.write_totals(tx).await?;
        for anomaly in &self.anomalies {
            store::anomaly::open_in_tx(tx, anomaly, self.now).await?;
        }
        for orphan in &self.orphans {
            let next = self.now.saturating_add(ORPHAN_RETRY_FIRST);
            store::orphan::keep_in_tx(tx, orphan, next).await?;
        }
        Ok(())
    }

    async fn write_receipts(
        &mut self,
        tx: &mut PgConnection,
        answers: &mut HashMap<usize, Settled>,
    ) -> Result<(), Error> {
        for receipt in &self.receipts {
            if store::receipt::insert_in_tx(tx, &receipt.row, self.now).await? {
                kill_point("payment_core.refund.after_receipt");
                if let Some(refund) = &receipt.refund
                    && store::refund::insert_in_tx(tx, &[refund], self.now).await? != 1
                {
                    // The receipt is new, so its refund must be: without it the receipt must not stand either.
                    return Err(sqlx::Error::RowNotFound.into());
                }
                kill_point("payment_core.refund.after_insert");
                self.events.push(event::unexpected_receipt(
                    &receipt.payment,
                    &receipt.row,
                    receipt.occurred_at,
                    &receipt.cause,
                    receipt.traceparent.clone(),
                    self.now,
                )?);
            } else if let Some(answer) = answers.get_mut(&receipt.place) {
                answer.outcome = Outcome::Duplicate;
            }
        }
        Ok(())
    }

    /// Money that was booked to suspense for a wrong amount, and is now booked rightly as the payment's, leaves suspense.
    async fn withdraw_receipts(&mut self, tx: &mut PgConnection) -> Result<(), Error> {
        let buckets: Vec<i16> = self.paid.iter().map(|paid| paid.payment.bucket().as_i16()).collect();
        let channels: Vec<String> = self.paid.iter().map(|paid| paid.payment.channel.to_string()).collect();
        let transactions: Vec<String> = self.paid.iter().map(|paid| paid.channel_txn_id.clone()).collect();
        for receipt in store::receipt::withdraw_in_tx(tx, &buckets, &channels, &transactions).await? {
            let paid = self
                .paid
                .iter()
                .find(|paid| {
                    paid.channel_txn_id == receipt.channel_txn_id
                        && paid.payment.pay_no.as_str() == receipt.pay_no
                })
                .ok_or(Error::Overtaken)?;
            let traceparent = paid.traceparent.clone();
            self.events.push(event::withdrawn_receipt(
                &paid.payment,
                &receipt,
                &paid.cause,
                traceparent,
                self.now,
            )?);
        }
        Ok(())
    }

    /// Totals only grow. A total beyond what we know of is money that went back without us: a person must see it.
    async fn write_totals(&mut self, tx: &mut PgConnection) -> Result<(), Error> {
        for (pay_no, total) in &self.totals {
            store::refund::look_soon_in_tx(tx, pay_no, self.now).await?;
            if store::payment::note_refunded_total_in_tx(tx, pay_no, *total).await? {
                self.anomalies.push(NewAnomaly {
                    kind: "REFUND_UNKNOWN",
                    subject: pay_no.to_string(),
                    detail: json!({ "refunded_at_channel": total }),
                    raw: None,
                });
            }
        }
        Ok(())
    }

    async fn write_evidence(&self, tx: &mut PgConnection) -> Result<(), Error> {
        let rows: Vec<NewCallback> = self.callbacks.iter().map(|(_, row)| row.clone()).collect();
        let new: HashSet<_> = store::callback_log::insert_in_tx(tx, &rows, self.now).await?;
        let known = rows.iter().filter(|row| !new.contains(&row.identity())).count();
        if known > 0 {
            metrics::counter!("oncepay_gate_closed_total", "gate" => "G7", "reason" => "fact_known")
                .increment(u64::try_from(known).unwrap_or(0));
        }
        Ok(())
    }
}

pub(crate) fn cause(result: &ChannelResult) -> String {
    let txn = result.channel_txn_id.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("{}:{}:{}:{txn}", result.source.as_str(), result.channel, result.channel_account)
}

/// The payment's own trace: the settling is a part of it, linked with the call that brought the word.
pub(crate) fn trace_of(payment: &Payment) -> Option<String> {
    let here = Span::current();
    let span =
        tracing::info_span!("payment_core.settle", pay.no = %payment.pay_no, state = payment.state.as_str());
    telemetry::continue_trace(&span, payment.traceparent.as_deref());
    telemetry::link_trace(&span, telemetry::traceparent(&here).as_deref());
    span.in_scope(|| telemetry::traceparent(&Span::current())).or_else(|| payment.traceparent.clone())
}

/// A wrong amount is a fact of its own: it must not hide the right one that may follow for the same transaction.
fn mismatch_action(result: &ChannelResult) -> String {
    let (amount, currency) = money_of(result);
    format!("PAY_MISMATCHED:{}:{}", amount.unwrap_or(0), currency.unwrap_or_default())
}

pub(crate) fn money_of(result: &ChannelResult) -> (Option<i64>, Option<String>) {
    match &result.fact {
        Fact::Paid { amount, .. } => (Some(amount.minor()), Some(amount.currency().code().to_owned())),
        Fact::Refund(fact) => (Some(fact.amount.minor()), Some(fact.amount.currency().code().to_owned())),
        Fact::RefundedTotal(total) => (Some(total.minor()), Some(total.currency().code().to_owned())),
        Fact::Closed | Fact::Failed | Fact::Declined => (None, None),
    }
}

fn txn_or_number(result: &ChannelResult) -> String {
    result.channel_txn_id.as_ref().map_or_else(|| result.pay_no.clone(), ToString::to_string)
}

pub(crate) fn evidence(
    result: &ChannelResult,
    payment: &Payment,
    action: String,
    outcome: Outcome,
) -> NewCallback {
    let (amount, currency) = money_of(result);
    NewCallback {
        bucket: payment.bucket().as_i16(),
        channel: payment.channel.as_str(),
        channel_txn_id: txn_or_number(result),
        action,
        pay_no: payment.pay_no.to_string(),
        amount,
        currency,
        source: result.source.as_str(),
        outcome: outcome.as_str(),
        occurred_at: Some(result.occurred_at),
        raw: result.raw.to_vec(),
    }
}

/// The bucket that a number names; text that is no number of ours has bucket 0.
fn bucket_of(pay_no: &str) -> Bucket {
    pay_no
        .parse::<PayNo>()
        .map(|number| number.bucket())
        .unwrap_or_else(|_| Bucket::from_i16(0).expect("0 is a bucket"))
}

pub(crate) fn kept(raw: &[u8]) -> Vec<u8> {
    raw.iter().take(RAW_KEPT_MAX).copied().collect()
}
