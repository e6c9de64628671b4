//! Refunding: money that goes back to a payer, under a number of its own. Gate G10.
//!
//! The hole: a refund given twice, because two checks passed, an answer was lost, or a process died between its row and its
//! call. The guarantee: the refund's row commits with the receipt that it sends back, one for each (`uk_refund_receipt`); the
//! channel hears of it only after `SUBMITTED` is committed, and always under the one number, so a repeat makes no second
//! refund there. No answer leaves it where it is: the next look asks by its number first, and sends again under it.
//!
//! The limit: receipts that no payment wanted; refunds of payments are not made yet. Called by the sweep.

use bytes::Bytes;
use channel::{CreateRefund, FindRefund, Outcome, RefundTold};
use contract::event::kind;
use futures::StreamExt as _;
use futures::stream;
use pay_types::{
    ChannelAccount, ChannelCode, ChannelTxnId, Currency, Invalid, MerchantId, Money, PayNo, RefundNo,
    RefundState, RefundWord,
};
use serde_json::json;
use service_kit::switch::kill_point;
use time::OffsetDateTime;
use tracing::Instrument as _;

use crate::Error;
use crate::payment::dispatch::Channels;
use crate::payment::judge::{ChannelResult, Fact, RefundFact, Source, Unwanted};
use crate::payment::sweep::{CALLS_MAX, ROWS_MAX, Schedule};
use crate::payment::{Payment, event, transaction};
use crate::store;
use crate::store::anomaly::NewAnomaly;
use crate::store::refund::RefundTransition;

/// Looks at a refund before a person is told that it waits; with doubled delays from ten seconds about three hours.
const TRIES_TOLD: i32 = 10;

/// What a refund gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefundKind {
    /// Money that no payment wanted.
    Receipt,
    /// A payment's own money.
    Payment,
}

impl RefundKind {
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Receipt => "RECEIPT",
            Self::Payment => "PAYMENT",
        }
    }
}

/// One refund.
#[derive(Debug, Clone)]
pub(crate) struct Refund {
    pub(crate) refund_no: RefundNo,
    pub(crate) kind: RefundKind,
    pub(crate) pay_no: PayNo,
    pub(crate) amount: Money,
    pub(crate) reason: String,
    pub(crate) channel: ChannelCode,
    pub(crate) channel_account: ChannelAccount,
    pub(crate) channel_txn_id: ChannelTxnId,
    pub(crate) state: RefundState,
    pub(crate) version: i64,
    pub(crate) tries: i32,
    pub(crate) traceparent: Option<String>,
}

/// A row as the database gives it.
#[derive(Debug)]
pub(crate) struct RefundRow {
    pub(crate) refund_no: String,
    pub(crate) kind: String,
    pub(crate) pay_no: String,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) reason: String,
    pub(crate) channel: String,
    pub(crate) channel_account: String,
    pub(crate) channel_txn_id: String,
    pub(crate) state: String,
    pub(crate) version: i64,
    pub(crate) tries: i32,
    pub(crate) traceparent: Option<String>,
}

impl TryFrom<RefundRow> for Refund {
    type Error = Invalid;

    fn try_from(row: RefundRow) -> Result<Self, Invalid> {
        let kind = [RefundKind::Receipt, RefundKind::Payment].into_iter().find(|k| k.as_str() == row.kind);
        Ok(Self {
            refund_no: row.refund_no.parse()?,
            kind: kind.ok_or(Invalid::new("kind", "must be RECEIPT or PAYMENT"))?,
            pay_no: row.pay_no.parse()?,
            amount: Money::try_new(row.amount, Currency::from_code(&row.currency)?)?,
            reason: row.reason,
            channel: row.channel.parse()?,
            channel_account: row.channel_account.parse()?,
            channel_txn_id: row.channel_txn_id.parse()?,
            state: row.state.parse()?,
            version: row.version,
            tries: row.tries,
            traceparent: row.traceparent,
        })
    }
}

/// A refund that is about to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewRefund {
    pub(crate) refund_no: RefundNo,
    pub(crate) kind: RefundKind,
    pub(crate) pay_no: PayNo,
    pub(crate) merchant_id: MerchantId,
    pub(crate) amount: Money,
    pub(crate) reason: &'static str,
    pub(crate) channel: ChannelCode,
    pub(crate) channel_account: ChannelAccount,
    pub(crate) channel_txn_id: ChannelTxnId,
    pub(crate) traceparent: Option<String>,
}

impl NewRefund {
    /// Sends back the whole of a receipt that no payment wanted.
    pub(crate) fn of_receipt(
        payment: &Payment,
        amount: Money,
        channel_txn_id: &ChannelTxnId,
        reason: Unwanted,
        traceparent: Option<String>,
        now: OffsetDateTime,
    ) -> Self {
        let now_ms = now.unix_timestamp_nanos().checked_div(1_000_000).unwrap_or_default();
        let now_ms = u64::try_from(now_ms).unwrap_or_default();
        Self {
            refund_no: RefundNo::new(now_ms, rand::random(), payment.bucket()),
            kind: RefundKind::Receipt,
            pay_no: payment.pay_no.clone(),
            merchant_id: payment.merchant_id.clone(),
            amount,
            reason: reason.as_str(),
            channel: payment.channel,
            channel_account: payment.channel_account.clone(),
            channel_txn_id: channel_txn_id.clone(),
            traceparent,
        }
    }
}

/// One look at every refund that is due.
pub(crate) async fn run_due(channels: &Channels, schedule: Schedule) -> Result<(), Error> {
    let now = channels.clock.now();
    let due =
        store::refund::take_due(&channels.pool, now, schedule.delay_s_min, schedule.delay_s_max, ROWS_MAX)
            .await?;
    if due.is_empty() {
        return Ok(());
    }
    kill_point("payment_core.refund.after_take");
    stream::iter(due)
        .for_each_concurrent(CALLS_MAX, |refund| async move {
            let span = tracing::info_span!("payment_core.refund", refund.no = %refund.refund_no, pay.no = %refund.pay_no);
            service_kit::telemetry::continue_trace(&span, refund.traceparent.as_deref());
            if let Err(error) = go_on(channels, refund).instrument(span.clone()).await {
                span.in_scope(|| tracing::warn!(%error, "a refund stays as it is; the next look goes on"));
            }
        })
        .await;
    Ok(())
}

async fn go_on(channels: &Channels, refund: Refund) -> Result<(), Error> {
    match refund.state {
        RefundState::Pending => match submit(channels, &refund).await? {
            Some(submitted) => send(channels, &submitted).await,
            None => Ok(()),
        },
        // The channel may know it: ask, and send again only what it does not know.
        RefundState::Submitted | RefundState::Processing => ask(channels, &refund).await,
        RefundState::Success | RefundState::Fail => Ok(()),
    }
}

/// Commits that the channel is about to be called. `None`: someone else was faster, or the commit's answer was not heard; the
/// next look asks the channel.
async fn submit(channels: &Channels, refund: &Refund) -> Result<Option<Refund>, Error> {
    transaction::run("refund", || async {
        let now = channels.clock.now();
        let mut tx = channels.pool.begin().await?;
        let payments =
            store::payment::by_numbers_in_tx(&mut tx, std::slice::from_ref(&refund.pay_no)).await?;
        let payment = payments.get(&refund.pay_no).ok_or(Error::Overtaken)?;
        let step = RefundTransition {
            refund_no: refund.refund_no.clone(),
            from: RefundState::Pending,
            version: refund.version,
            to: RefundState::Submitted,
            channel_refund_no: None,
            last_error: None,
        };
        if store::refund::advance_in_tx(&mut tx, &[step], now).await?.is_empty() {
            metrics::counter!("oncepay_gate_closed_total", "gate" => "G10", "reason" => "overtaken")
                .increment(1);
            return Ok(None);
        }
        kill_point("payment_core.refund.after_submit");
        let left = event::refund(payment, refund, kind::REFUND_SUBMITTED, now, "SWEEP", now)?;
        if store::event::append_in_tx(&mut tx, &[left], now).await? != 1 {
            tracing::error!("a refund was submitted before it was");
        }
        kill_point("payment_core.refund.after_submit_event");
        kill_point("payment_core.refund.before_submit_commit");
        tx.commit().await.map_err(Error::CommitUnheard)?;
        kill_point("payment_core.refund.after_submit_commit");
        let version = refund.version.saturating_add(1);
        Ok(Some(Refund { state: RefundState::Submitted, version, ..refund.clone() }))
    })
    .await
}

/// Tells the channel, with no transaction open. Repeated under the same number and terms, it makes no second refund.
async fn send(channels: &Channels, refund: &Refund) -> Result<(), Error> {
    let Some((client, account)) = channels
        .clients
        .get(refund.channel, &refund.channel_account)
        .zip(channels.accounts.get(refund.channel, &refund.channel_account))
    else {
        tracing::error!(channel = %refund.channel, account = %refund.channel_account, "the account left the configuration while refunds use it");
        return waits(channels, refund, "the account is not in the configuration").await;
    };
    let asked = CreateRefund {
        refund_no: refund.refund_no.clone(),
        pay_no: refund.pay_no.clone(),
        channel_txn_id: refund.channel_txn_id.clone(),
        paid: refund.amount,
        amount: refund.amount,
        reason: refund.reason.clone(),
        notify_url: account.notify_url().to_owned(),
    };
    kill_point("payment_core.refund.before_call");
    let outcome = client.refund(&asked).await;
    kill_point("payment_core.refund.after_call");
    metrics::counter!("oncepay_refund_calls_total", "channel" => refund.channel.as_str(), "outcome" => outcome.label())
        .increment(1);
    match outcome {
        Outcome::Accepted(told) => told_by(channels, refund, Source::Call, &told).await,
        // The channel's explicit word that nothing goes back under this number.
        Outcome::Rejected { code, message } => {
            let fact = RefundFact {
                refund_no: refund.refund_no.to_string(),
                word: RefundWord::Failed,
                amount: refund.amount,
                channel_refund_no: None,
            };
            settle(channels, refund, Source::Call, fact, None, format!("{code}: {message}")).await
        }
        Outcome::RetryLater { code } => {
            waits(channels, refund, &format!("the channel asks to wait: {code}")).await
        }
        Outcome::Unknown { why } => {
            waits(channels, refund, &format!("the channel did not answer: {why}")).await
        }
    }
}

/// Asks by the refund's number what became of it.
async fn ask(channels: &Channels, refund: &Refund) -> Result<(), Error> {
    let Some(client) = channels.clients.get(refund.channel, &refund.channel_account) else {
        return waits(channels, refund, "the account is not in the configuration").await;
    };
    let find = FindRefund {
        refund_no: refund.refund_no.clone(),
        pay_no: refund.pay_no.clone(),
        channel_txn_id: refund.channel_txn_id.clone(),
        channel_refund_no: None,
        amount: refund.amount,
    };
    match client.query_refund(&find).await {
        Outcome::Accepted(told) if told.known => told_by(channels, refund, Source::Query, &told).await,
        Outcome::Accepted(_) => send(channels, refund).await,
        other @ (Outcome::Rejected { .. } | Outcome::RetryLater { .. } | Outcome::Unknown { .. }) => {
            waits(channels, refund, &format!("a query brought no word: {}", other.label())).await
        }
    }
}

async fn told_by(
    channels: &Channels,
    refund: &Refund,
    source: Source,
    told: &RefundTold,
) -> Result<(), Error> {
    let amount = told
        .amount
        .as_ref()
        .and_then(|stated| Money::try_new(stated.minor, Currency::from_code(&stated.currency).ok()?).ok());
    let Some((word, amount)) = told.word.zip(amount) else {
        tracing::error!("the channel tells of a refund without a word or an amount");
        return waits(channels, refund, "the channel told no word or no amount").await;
    };
    let fact = RefundFact {
        refund_no: refund.refund_no.to_string(),
        word,
        amount,
        channel_refund_no: told.channel_refund_no.clone(),
    };
    settle(channels, refund, source, fact, told.occurred_at, String::new()).await?;
    if word == RefundWord::Taken && refund.state == RefundState::Processing {
        return waits(channels, refund, "the channel has not given the money back yet").await;
    }
    Ok(())
}

async fn settle(
    channels: &Channels,
    refund: &Refund,
    source: Source,
    fact: RefundFact,
    occurred_at: Option<OffsetDateTime>,
    detail: String,
) -> Result<(), Error> {
    let fact = Fact::Refund(fact);
    let said = json!({ "word": fact.action(), "words": detail });
    let result = ChannelResult {
        channel: refund.channel,
        channel_account: refund.channel_account.clone(),
        source,
        fact,
        pay_no: refund.pay_no.to_string(),
        merchant_id: None,
        channel_txn_id: Some(refund.channel_txn_id.clone()),
        occurred_at: occurred_at.unwrap_or_else(|| channels.clock.now()),
        raw: Bytes::from(said.to_string()),
        nonce: None,
        detail,
    };
    channels.apply(result).await?;
    kill_point("payment_core.refund.after_result");
    Ok(())
}

/// Notes why it waits; a person is told when it has waited long.
async fn waits(channels: &Channels, refund: &Refund, words: &str) -> Result<(), Error> {
    tracing::info!(words, "a refund waits for its channel");
    let now = channels.clock.now();
    if !store::refund::note_error(&channels.pool, &refund.refund_no, words, now).await? {
        // It has ended since, and needs no note.
        return Ok(());
    }
    if refund.tries >= TRIES_TOLD {
        let anomaly = NewAnomaly {
            kind: "REFUND_STUCK",
            subject: refund.refund_no.to_string(),
            detail: json!({ "pay_no": refund.pay_no.as_str(), "state": refund.state.as_str(), "words": words }),
            raw: None,
        };
        let mut connection = channels.pool.acquire().await?;
        store::anomaly::open_in_tx(&mut connection, &anomaly, now).await?;
    }
    Ok(())
}
