//! The jobs that finish what a crash, a lost answer or a lost notice left open: payments that were never sent are sent
//! under their own number, those in process are asked about, those whose time is over are closed at the channel, refunds
//! are sent and asked about, orphans are tried again, old nonces are forgotten. Each job takes rows for itself by `SKIP LOCKED`, so copies share the work.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use idempotency::log;
use pay_types::{Currency, Money, PayNo, RefundNo, RefundWord};
use serde_json::json;
use service_kit::CancellationToken;

use crate::Error;
use crate::payment::dispatch::{Channels, SETTLE_WAIT_MAX};
use crate::payment::judge::{ChannelResult, Fact, RefundFact, Source};
use crate::payment::settle::Outcome;
use crate::payment::{Payment, query};
use crate::refund;
use crate::store;
use crate::store::anomaly::NewAnomaly;
use crate::store::orphan::Orphan;

/// Rows a job takes at one time.
pub(crate) const ROWS_MAX: i64 = 100;
/// Channel calls of the jobs at one time, so that they never crowd out fresh payments.
pub(crate) const CALLS_MAX: usize = 16;
/// Tries of an orphan before a person is told; with doubled delays from five seconds about three hours.
const ORPHAN_TRIES_MAX: i32 = 12;
/// Rows that one purge takes, so that it never holds up the hot path.
const PURGE_ROWS_MAX: i64 = 1_000;
/// Nonces are kept for twice the time window of notices.
const NONCE_KEPT: time::Duration = time::Duration::seconds(600);

/// When jobs look, and how long they leave a payment alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) interval: Duration,
    /// First delay between looks at one payment, seconds; doubled each time.
    pub(crate) delay_s_min: i32,
    pub(crate) delay_s_max: i32,
    /// How long keys of ended payments are known.
    pub(crate) keys_kept: time::Duration,
}

/// Runs the jobs until `shutdown`.
///
/// Refunds have a round of their own: a channel that hangs on payments never holds up the money that goes back.
pub(crate) async fn run(channels: Channels, schedule: Schedule, shutdown: CancellationToken) {
    let payments = async {
        while shutdown.run_until_cancelled(tokio::time::sleep(schedule.interval)).await.is_some() {
            if let Err(error) = run_once(&channels, schedule).await {
                tracing::warn!(%error, "a sweep did not finish; the next one goes on");
            }
        }
    };
    let refunds = async {
        while shutdown.run_until_cancelled(tokio::time::sleep(schedule.interval)).await.is_some() {
            if let Err(error) = refund::send::run_due(&channels, schedule).await {
                tracing::warn!(%error, "a sweep of refunds did not finish; the next one goes on");
            }
        }
    };
    tokio::join!(payments, refunds);
}

/// One pass of every job but the refunds'.
pub(crate) async fn run_once(channels: &Channels, schedule: Schedule) -> Result<(), Error> {
    let now = channels.clock.now();
    let due =
        store::payment::take_due(&channels.pool, now, schedule.delay_s_min, schedule.delay_s_max, ROWS_MAX)
            .await?;
    stream::iter(due)
        .for_each_concurrent(CALLS_MAX, |payment| async move {
            if let Err(error) = finish(channels, &payment).await {
                tracing::warn!(pay.no = %payment.pay_no, %error, "a payment stays open; the next sweep tries again");
            }
        })
        .await;
    for orphan in
        store::orphan::take_due(&channels.pool, now, now.saturating_add(time::Duration::minutes(1)), ROWS_MAX)
            .await?
    {
        adopt(channels, &orphan).await?;
    }
    store::nonce::purge(&channels.pool, now.saturating_sub(NONCE_KEPT), PURGE_ROWS_MAX).await?;
    forget_keys(channels, now.saturating_sub(schedule.keys_kept)).await
}

/// Forgets old keys of ended payments, a small batch at a time. A key whose payment is in process is never forgotten: its
/// client may still ask what became of it.
async fn forget_keys(channels: &Channels, before: time::OffsetDateTime) -> Result<(), Error> {
    forget_refund_keys(channels, before).await?;
    let old = log::older_than(&channels.pool, "PAY:CREATE:", before, PURGE_ROWS_MAX).await?;
    let numbers: Vec<PayNo> = old.iter().filter_map(|(_, result_no)| result_no.parse().ok()).collect();
    let mut tx = channels.pool.begin().await?;
    let payments = store::payment::by_numbers_in_tx(&mut tx, &numbers).await?;
    let ended = |result_no: &str| {
        let payment = result_no.parse::<PayNo>().ok().and_then(|number| payments.get(&number));
        payment.is_some_and(|payment| payment.state.is_terminal())
    };
    let keys: Vec<String> =
        old.iter().filter(|(_, number)| ended(number)).map(|(key, _)| key.clone()).collect();
    log::forget_in_tx(&mut tx, &keys).await?;
    tx.commit().await?;
    Ok(())
}

/// The same for keys of refunds that have ended.
async fn forget_refund_keys(channels: &Channels, before: time::OffsetDateTime) -> Result<(), Error> {
    let old = log::older_than(&channels.pool, "REFUND:CREATE:", before, PURGE_ROWS_MAX).await?;
    let numbers: Vec<RefundNo> = old.iter().filter_map(|(_, result_no)| result_no.parse().ok()).collect();
    let mut tx = channels.pool.begin().await?;
    let refunds = store::refund::by_numbers_in_tx(&mut tx, &numbers).await?;
    let ended = |result_no: &str| {
        let refund = result_no.parse::<RefundNo>().ok().and_then(|number| refunds.get(&number));
        refund.is_some_and(|refund| refund.state.is_terminal())
    };
    let keys: Vec<String> =
        old.iter().filter(|(_, number)| ended(number)).map(|(key, _)| key.clone()).collect();
    log::forget_in_tx(&mut tx, &keys).await?;
    tx.commit().await?;
    Ok(())
}

async fn finish(channels: &Channels, payment: &Payment) -> Result<(), Error> {
    if payment.dispatched_at.is_none() {
        // Never sent, or sent and not noted: the same number and terms make no second order.
        channels.dispatch(payment).await
    } else if payment.expire_at <= channels.clock.now() {
        query::close(channels, payment).await
    } else {
        query::query(channels, payment).await
    }
}

/// Tries an orphan again through the one settle path.
async fn adopt(channels: &Channels, orphan: &Orphan) -> Result<(), Error> {
    let now = channels.clock.now();
    let applied = match result_of(orphan, now) {
        Some(result) => {
            let settled = channels.settling.call(result, SETTLE_WAIT_MAX).await?;
            settled.outcome != Outcome::Orphan
        }
        None => false,
    };
    if !applied && orphan.tries < ORPHAN_TRIES_MAX {
        return Ok(());
    }
    let mut tx = channels.pool.begin().await?;
    if !applied {
        let anomaly = NewAnomaly {
            kind: "ORPHAN",
            subject: format!("{}/{}/{}", orphan.channel, orphan.channel_txn_id, orphan.pay_no),
            detail: json!({ "fact": orphan.action, "amount": orphan.amount, "currency": orphan.currency }),
            raw: None,
        };
        store::anomaly::open_in_tx(&mut tx, &anomaly, now).await?;
    }
    store::orphan::end_in_tx(&mut tx, orphan, if applied { "APPLIED" } else { "GIVEN_UP" }).await?;
    tx.commit().await?;
    Ok(())
}

fn result_of(orphan: &Orphan, now: time::OffsetDateTime) -> Option<ChannelResult> {
    let money =
        || Money::try_new(orphan.amount?, Currency::from_code(orphan.currency.as_deref()?).ok()?).ok();
    let refund = |refund_no: &str, word| {
        let refund_no = refund_no.to_owned();
        Some(Fact::Refund(RefundFact { refund_no, word, amount: money()?, channel_refund_no: None }))
    };
    let (kind, number) = orphan.action.split_once(':').unwrap_or((&orphan.action, ""));
    let fact = match kind {
        "REFUND_SUCCEEDED" => refund(number, RefundWord::Succeeded)?,
        "REFUND_FAILED" => refund(number, RefundWord::Failed)?,
        "REFUND_ABNORMAL" => refund(number, RefundWord::Abnormal)?,
        "PAY_SUCCEEDED" => {
            Fact::Paid { amount: money()?, channel_txn_id: orphan.channel_txn_id.parse().ok()? }
        }
        "PAY_CLOSED" => Fact::Closed,
        "PAY_FAILED" => Fact::Failed,
        _ => return None,
    };
    Some(ChannelResult {
        channel: orphan.channel.parse().ok()?,
        channel_account: orphan.channel_account.parse().ok()?,
        source: Source::Notice,
        channel_txn_id: orphan.channel_txn_id.parse().ok(),
        fact,
        pay_no: orphan.pay_no.clone(),
        merchant_id: None,
        occurred_at: orphan.occurred_at.unwrap_or(now),
        raw: Bytes::from(orphan.raw.clone()),
        nonce: None,
        detail: String::new(),
    })
}
