//! Sending refunds: telling the channel, asking it, and waiting for it. Gate G10.
//!
//! The hole: an answer was lost, or a process died between its row and its call, and the money goes back twice or never. The
//! guarantee: the channel hears of a refund only after `SUBMITTED` is committed, and always under the one number, so a repeat
//! makes no second refund there. No answer leaves it where it is: the next look asks by its number first, and sends again under
//! it. What waits for a second person's agreement is not sent.
//!
//! Called after the commit that made the refund, and by the sweep.

use bytes::Bytes;
use channel::{CreateRefund, FindRefund, Outcome, RefundTold};
use contract::event::kind;
use futures::StreamExt as _;
use futures::stream;
use pay_types::{Currency, Money, RefundState, RefundWord};
use serde_json::json;
use service_kit::switch::kill_point;
use time::OffsetDateTime;
use tracing::Instrument as _;

use crate::Error;
use crate::payment::dispatch::Channels;
use crate::payment::judge::{ChannelResult, Fact, RefundFact, Source};
use crate::payment::sweep::{CALLS_MAX, ROWS_MAX, Schedule};
use crate::payment::{event, transaction};
use crate::refund::{Approval, Refund, RefundKind};
use crate::store;
use crate::store::anomaly::NewAnomaly;
use crate::store::refund::RefundTransition;

/// Looks at a refund before a person is told that it waits; with doubled delays from ten seconds about three hours.
const TRIES_TOLD: i32 = 10;

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

/// The next step of a refund, whatever its state.
pub(crate) async fn go_on(channels: &Channels, refund: Refund) -> Result<(), Error> {
    match refund.state {
        RefundState::Pending if matches!(refund.approval, Approval::Waiting | Approval::Rejected) => Ok(()),
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
        let left = event::refund(payment, refund, kind::REFUND_SUBMITTED, now, "SEND", now)?;
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
        paid: paid(channels, refund).await?,
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

/// What the transaction took in all: the payment's amount, or the whole of a receipt that nobody wanted.
async fn paid(channels: &Channels, refund: &Refund) -> Result<Money, Error> {
    match refund.kind {
        RefundKind::Receipt => Ok(refund.amount),
        RefundKind::Payment => {
            let payment = store::payment::by_number(&channels.pool, &refund.pay_no).await?;
            Ok(payment.ok_or(Error::Overtaken)?.amount)
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
        channel_refund_no: refund.channel_refund_no.clone(),
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
