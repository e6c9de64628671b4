//! Counting afterwards: the databases, the channel's own book, the ledger's own answer. Nothing here trusts the services.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, bail};
use audit::Finding;
use channel_simulator::Totals;
use contract::ledger::TrialBalanceRequest;
use contract::ledger::ledger_service_client::LedgerServiceClient;
use sqlx::PgPool;

use crate::channel::Channel;
use crate::give_back::Wanted;
use crate::stack::Stack;
use crate::storm::Storm;

/// Longest wait for the last notice and the last event; the channel's schedule of repeats decides it.
const SETTLE_MAX: Duration = Duration::from_secs(150);

/// What stood before the run, for numbers that runs share.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) totals: Totals,
    refused_kept: i64,
}

impl Before {
    pub(crate) async fn read(stack: &Stack, channel: &Channel) -> anyhow::Result<Self> {
        Ok(Self { totals: channel.totals().await?, refused_kept: refused_kept(stack).await? })
    }
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) orders: i64,
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    pub(crate) payments: i64,
    pub(crate) paid: i64,
    pub(crate) paid_amount: i64,
    pub(crate) channel_orders: i64,
    pub(crate) create_calls: i64,
    pub(crate) charges: i64,
    pub(crate) charged_amount: i64,
    /// Payments whose charge differs in amount or transaction from our row.
    pub(crate) charges_differing: i64,
    pub(crate) notices: u64,
    pub(crate) lies: u64,
    pub(crate) wrong_amounts: i64,
    pub(crate) receipts: i64,
    pub(crate) refused_kept: i64,
    pub(crate) entries: i64,
    pub(crate) booked_amount: i64,
    pub(crate) receipt_entries: i64,
    pub(crate) refunds_wanted: Wanted,
    pub(crate) refunds: i64,
    pub(crate) channel_refunds: i64,
    pub(crate) channel_refunded: i64,
    pub(crate) refunds_booked: i64,
    pub(crate) in_transit: i64,
    pub(crate) waiting: i64,
    pub(crate) trial_difference: i64,
    pub(crate) findings: Vec<Finding>,
    pub(crate) wrong: Vec<String>,
}

async fn one(pool: &PgPool, query: &'static str, merchant_id: &str) -> anyhow::Result<i64> {
    Ok(sqlx::query_scalar(query).bind(merchant_id).fetch_one(pool).await?)
}

const PAID: &str = "SELECT COUNT(*) FROM payment WHERE merchant_id = $1 AND state = 'SUCCESS'";
const ENTRIES: &str = "SELECT COUNT(*) FROM entry WHERE merchant_id = $1 AND kind = 'PAY_SUCCEEDED'";
const RECEIPTS: &str =
    "SELECT COUNT(*) FROM unexpected_receipt r JOIN payment p ON p.bucket = r.bucket AND p.pay_no = r.pay_no
     WHERE p.merchant_id = $1";
const RECEIPT_ENTRIES: &str =
    "SELECT COUNT(*) FROM entry WHERE merchant_id = $1 AND kind = 'RECEIPT_UNEXPECTED'";
const REFUNDS: &str = "SELECT COUNT(*) FROM refund WHERE merchant_id = $1 AND state = 'SUCCESS'";
const REFUNDS_BOOKED: &str =
    "SELECT COALESCE(SUM(p.amount), 0)::BIGINT FROM posting p JOIN entry e ON e.entry_id = p.entry_id
     WHERE e.merchant_id = $1 AND e.kind = 'REFUND_SUCCEEDED' AND p.side = 'D'";
const IN_TRANSIT: &str =
    "SELECT COALESCE(SUM(CASE p.side WHEN 'D' THEN p.amount ELSE -p.amount END), 0)::BIGINT
     FROM posting p JOIN entry e ON e.entry_id = p.entry_id
     WHERE e.merchant_id = $1 AND p.account_code LIKE 'transit:%'";
const WAITING: &str = "SELECT COUNT(*) FROM outbox WHERE $1 <> ''";

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn sum(amounts: &std::collections::BTreeMap<String, i64>) -> i64 {
    amounts.values().fold(0, |sum, amount| sum.saturating_add(*amount))
}

/// Waits until every order is paid and every fact is booked.
pub(crate) async fn wait_settled(
    stack: &Stack,
    channel: &Channel,
    storm: &Storm,
    before: &Before,
) -> anyhow::Result<()> {
    let started = tokio::time::Instant::now();
    let (merchant, orders) = (storm.merchant_id.as_str(), i64::from(storm.orders));
    loop {
        let lies = channel.totals().await?.lies.wrong_amount.saturating_sub(before.totals.lies.wrong_amount);
        let now = [
            one(&stack.payment, PAID, merchant).await?,
            one(&stack.ledger, ENTRIES, merchant).await?,
            one(&stack.payment, RECEIPTS, merchant).await?,
            one(&stack.ledger, RECEIPT_ENTRIES, merchant).await?,
            one(&stack.payment, WAITING, merchant).await?,
        ];
        if now == [orders, orders, signed(lies), signed(lies), 0] {
            return Ok(());
        }
        if started.elapsed() > SETTLE_MAX {
            println!(
                "not all is settled after {SETTLE_MAX:?}: [paid, booked, receipts, receipts booked, waiting] = {now:?}"
            );
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Waits until nothing waits in the queue of events and every refund's end is booked.
pub(crate) async fn wait_booked(stack: &Stack, storm: &Storm) -> anyhow::Result<()> {
    let started = tokio::time::Instant::now();
    while started.elapsed() < SETTLE_MAX {
        let waiting = one(&stack.payment, WAITING, &storm.merchant_id).await?;
        let ended = one(&stack.payment, "SELECT COALESCE(SUM(amount), 0)::BIGINT FROM refund WHERE merchant_id = $1 AND state = 'SUCCESS'", &storm.merchant_id).await?;
        let booked = one(&stack.ledger, REFUNDS_BOOKED, &storm.merchant_id).await?;
        if waiting == 0 && ended == booked {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Counts everything.
pub(crate) async fn count(
    stack: &Stack,
    channel: &Channel,
    storm: &Storm,
    before: &Before,
    refunds_wanted: Wanted,
) -> anyhow::Result<Counted> {
    let merchant = storm.merchant_id.as_str();
    let book = channel.book().await?;
    let ours: Vec<_> = book.orders.iter().filter(|order| order.merchant_id == merchant).collect();
    let rows: Vec<(String, i64, Option<String>)> = sqlx::query_as(
        "SELECT pay_no, amount, channel_txn_id FROM payment WHERE merchant_id = $1 AND state = 'SUCCESS'",
    )
    .bind(merchant)
    .fetch_all(&stack.payment)
    .await?;
    let rows: HashMap<&str, (i64, Option<&str>)> =
        rows.iter().map(|(pay_no, amount, txn)| (pay_no.as_str(), (*amount, txn.as_deref()))).collect();
    let charges: i64 =
        ours.iter().map(|order| signed(u64::try_from(order.channel_txn_ids.len()).unwrap_or(0))).sum();
    let differing = ours.iter().filter(|order| {
        rows.get(order.pay_no.as_str()) != Some(&(order.amount, order.channel_txn_id.as_deref()))
    });
    let totals = &book.totals;
    let told = |lies: &channel_simulator::LieTotals| {
        [lies.wrong_amount, lies.unknown_pay_no, lies.bad_signature, lies.stale_timestamp].iter().sum::<u64>()
    };
    Ok(Counted {
        orders: i64::from(storm.orders),
        requests: storm.requests.load(Ordering::Relaxed),
        retries: storm.retries.load(Ordering::Relaxed),
        payments: one(&stack.payment, "SELECT COUNT(*) FROM payment WHERE merchant_id = $1", merchant)
            .await?,
        paid: one(&stack.payment, PAID, merchant).await?,
        paid_amount: rows.values().map(|(amount, _)| amount).sum(),
        channel_orders: signed(u64::try_from(ours.len())?),
        create_calls: ours.iter().map(|order| signed(order.create_calls)).sum(),
        charges,
        charged_amount: ours
            .iter()
            .filter(|order| order.channel_txn_id.is_some())
            .map(|order| order.amount)
            .sum(),
        charges_differing: signed(u64::try_from(differing.count())?),
        notices: totals.notices_sent.saturating_sub(before.totals.notices_sent),
        lies: told(&totals.lies).saturating_sub(told(&before.totals.lies)),
        wrong_amounts: signed(totals.lies.wrong_amount.saturating_sub(before.totals.lies.wrong_amount)),
        receipts: one(&stack.payment, RECEIPTS, merchant).await?,
        refused_kept: refused_kept(stack).await?.saturating_sub(before.refused_kept),
        entries: one(&stack.ledger, ENTRIES, merchant).await?,
        booked_amount: one(
            &stack.ledger,
            "SELECT COALESCE(SUM(p.amount), 0)::BIGINT FROM posting p JOIN entry e ON e.entry_id = p.entry_id
             WHERE e.merchant_id = $1 AND e.kind = 'PAY_SUCCEEDED' AND p.side = 'C'",
            merchant,
        )
        .await?,
        receipt_entries: one(&stack.ledger, RECEIPT_ENTRIES, merchant).await?,
        refunds_wanted,
        refunds: one(&stack.payment, REFUNDS, merchant).await?,
        channel_refunds: signed(totals.refunds.saturating_sub(before.totals.refunds)),
        channel_refunded: sum(&totals.refunded).saturating_sub(sum(&before.totals.refunded)),
        refunds_booked: one(&stack.ledger, REFUNDS_BOOKED, merchant).await?,
        in_transit: one(&stack.ledger, IN_TRANSIT, merchant).await?,
        waiting: one(&stack.payment, WAITING, merchant).await?,
        trial_difference: trial_difference(stack).await?,
        findings: audit::audit(&stack.payment, &stack.ledger).await?,
        wrong: storm.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone(),
    })
}

/// Notices that were refused at the edge and kept; the table is shared by all runs.
async fn refused_kept(stack: &Stack) -> anyhow::Result<i64> {
    let kept = "SELECT COUNT(*) FROM anomaly WHERE $1 = '' AND kind IN ('SIGNATURE_INVALID', 'TIMESTAMP_OUTSIDE_WINDOW')";
    one(&stack.payment, kept, "").await
}

/// Debits less credits over all currencies, as finance is told.
async fn trial_difference(stack: &Stack) -> anyhow::Result<i64> {
    let channel =
        service_kit::grpc::channel(&stack.ledger_service_url).context("LEDGER_SERVICE_URL is no address")?;
    let answer = LedgerServiceClient::new(channel).trial_balance(TrialBalanceRequest::default()).await;
    let totals = match answer {
        Ok(answer) => answer.into_inner().totals,
        Err(status) => bail!("ledger-service does not tell the trial balance: {status}"),
    };
    Ok(totals.iter().map(|total| total.difference.saturating_abs()).sum())
}
