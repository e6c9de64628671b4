//! At rest everything must agree: our rows with the channel's book, the books with both, and every key with its payment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use channel_simulator::{BookView, RefundStatus};
use futures::{StreamExt as _, stream};

use super::ops::send;
use super::shadow::{Asked, Shadow};
use super::world::World;
use crate::wait::holds_within;

/// Longest wait for a clean audit: what follows a receipt by itself, such as its refund, takes some seconds.
const AUDIT_MAX: Duration = Duration::from_secs(20);
/// Keys asked again at one time.
const REPLAYS_AT_ONCE: usize = 8;

#[derive(Debug, sqlx::FromRow)]
struct Row {
    pay_no: String,
    state: String,
    amount: i64,
    channel_account: String,
    channel_txn_id: Option<String>,
}

#[derive(Debug, sqlx::FromRow)]
struct Refund {
    refund_no: String,
    kind: String,
    amount: i64,
    state: String,
}

#[derive(Debug, sqlx::FromRow)]
struct Receipt {
    channel_txn_id: String,
    amount: i64,
    reason: String,
    state: String,
}

/// Looks at everything; what does not agree goes to the shadow.
pub(super) async fn look(world: &World, shadow: &Shadow) {
    audit_is_clean(world, shadow).await;
    let book = world.book().await;
    let rows: Vec<Row> =
        sqlx::query_as("SELECT pay_no, state, amount, channel_account, channel_txn_id FROM payment")
            .fetch_all(world.payments())
            .await
            .unwrap();
    let receipts: Vec<Receipt> =
        sqlx::query_as("SELECT channel_txn_id, amount, reason, state FROM unexpected_receipt")
            .fetch_all(world.payments())
            .await
            .unwrap();
    orders_agree(&book, &rows, shadow);
    charges_agree(&book, &rows, &receipts, shadow);
    let refunds: Vec<Refund> = sqlx::query_as("SELECT refund_no, kind, amount, state FROM refund")
        .fetch_all(world.payments())
        .await
        .unwrap();
    refunds_agree(&book, &receipts, &refunds, shadow);
    books_agree(world, &book, &receipts, shadow).await;
    replays_agree(world, shadow).await;
}

async fn audit_is_clean(world: &World, shadow: &Shadow) {
    let mut findings = Vec::new();
    holds_within(AUDIT_MAX, async || {
        findings = audit::audit(world.payments(), world.books()).await.unwrap();
        findings.is_empty()
    })
    .await;
    for finding in findings {
        shadow.found(format!("invariant {}: {}: {:?}", finding.number, finding.rule, finding.rows));
    }
}

/// Each order at the channel is one payment of ours, on the same terms; each payment of ours stands there once.
fn orders_agree(book: &BookView, rows: &[Row], shadow: &Shadow) {
    let orders: BTreeMap<&str, _> = book.orders.iter().map(|order| (order.pay_no.as_str(), order)).collect();
    for row in rows {
        let Some(order) = orders.get(row.pay_no.as_str()) else {
            shadow.found(format!("{} is {} and the channel does not know it", row.pay_no, row.state));
            continue;
        };
        if order.amount != row.amount || order.account != row.channel_account {
            shadow.found(format!("{} stands at the channel on other terms", row.pay_no));
        }
        let charged = row.channel_txn_id.as_ref().is_some_and(|txn| order.channel_txn_ids.contains(txn));
        if row.state == "SUCCESS" && !charged {
            shadow.found(format!("{} is paid by a transaction that the channel does not know", row.pay_no));
        }
    }
    for pay_no in orders.keys().filter(|pay_no| !rows.iter().any(|row| row.pay_no == **pay_no)) {
        shadow.found(format!("the channel has the order {pay_no}, and we have no payment"));
    }
}

/// Each time the channel took money is one paid payment or one unexpected receipt.
fn charges_agree(book: &BookView, rows: &[Row], receipts: &[Receipt], shadow: &Shadow) {
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    let paid =
        rows.iter().filter(|row| row.state == "SUCCESS").filter_map(|row| row.channel_txn_id.as_deref());
    let kept = receipts.iter().filter(|receipt| receipt.state != "WITHDRAWN");
    for txn in paid.chain(kept.map(|receipt| receipt.channel_txn_id.as_str())) {
        let times = known.entry(txn).or_default();
        *times = times.saturating_add(1);
    }
    for txn in book.orders.iter().flat_map(|order| &order.channel_txn_ids) {
        match known.get(txn.as_str()).copied().unwrap_or(0) {
            1 => {}
            0 => shadow.found(format!("the charge {txn} is lost: neither a payment nor a receipt")),
            times => shadow.found(format!("the charge {txn} is known {times} times")),
        }
    }
}

/// Every refund at the channel is one of ours, of the same amount; a receipt goes back whole, and once.
fn refunds_agree(book: &BookView, receipts: &[Receipt], ours: &[Refund], shadow: &Shadow) {
    let mut seen = BTreeSet::new();
    let known: BTreeMap<&str, &Refund> =
        ours.iter().map(|refund| (refund.refund_no.as_str(), refund)).collect();
    for refund in &book.refunds {
        let Some(row) = known.get(refund.refund_no.as_str()).filter(|row| row.amount == refund.amount) else {
            shadow
                .found(format!("the channel has the refund {}, and we have none like it", refund.refund_no));
            continue;
        };
        let succeeded = refund.status == RefundStatus::Succeeded;
        if succeeded != (row.state == "SUCCESS") {
            shadow.found(format!(
                "the refund {} is {} here and {:?} there",
                refund.refund_no, row.state, refund.status
            ));
        }
        if row.kind == "PAYMENT" {
            continue;
        }
        if !seen.insert(refund.channel_txn_id.as_str()) {
            shadow.found(format!("the channel was asked twice to give {} back", refund.channel_txn_id));
        }
        let receipt = receipts.iter().find(|receipt| receipt.channel_txn_id == refund.channel_txn_id);
        if receipt.is_none_or(|receipt| receipt.amount != refund.amount) {
            shadow.found(format!("{} went back, and no receipt says so", refund.channel_txn_id));
        }
    }
}

/// The money in the books is the money that the channel took, and what it only said it took.
async fn books_agree(world: &World, book: &BookView, receipts: &[Receipt], shadow: &Shadow) {
    let sums: Vec<(String, i64)> = sqlx::query_as(
        "SELECT e.kind, SUM(p.amount)::BIGINT FROM entry e JOIN posting p ON p.entry_id = e.entry_id
         WHERE p.side = 'D' GROUP BY e.kind",
    )
    .fetch_all(world.books())
    .await
    .unwrap();
    let sum = |kind: &str| sums.iter().find(|(found, _)| found == kind).map_or(0, |(_, sum)| *sum);
    let lies = receipts.iter().filter(|receipt| receipt.reason == "AMOUNT_MISMATCH");
    let told = book.totals.lies.wrong_amount;
    let (kept, said) =
        lies.fold((0_u64, 0_i64), |(n, sum), lie| (n.saturating_add(1), sum.saturating_add(lie.amount)));
    if kept != told {
        shadow.found(format!("{told} wrong amounts were told, {kept} are kept"));
    }
    let booked = sum("PAY_SUCCEEDED")
        .saturating_add(sum("RECEIPT_UNEXPECTED"))
        .saturating_sub(sum("RECEIPT_WITHDRAWN"));
    let total =
        |sums: &BTreeMap<String, i64>| sums.values().fold(0_i64, |sum, amount| sum.saturating_add(*amount));
    let (taken, given_back) = (total(&book.totals.charged), total(&book.totals.refunded));
    if sum("REFUND_SUCCEEDED") != given_back {
        let booked = sum("REFUND_SUCCEEDED");
        shadow.found(format!("{booked} fen booked as given back, the channel gave back {given_back}"));
    }
    if booked != taken.saturating_add(said) {
        shadow.found(format!("{booked} fen booked, {taken} taken and {said} wrongly told"));
    }
    if book.totals.given_up > 0 || book.totals.dropped > 0 {
        let (given_up, dropped) = (book.totals.given_up, book.totals.dropped);
        shadow.found(format!("the channel gave up {given_up} notices and dropped {dropped}"));
    }
}

/// Every stored request again: the shadow compares the answer with the first one.
async fn replays_agree(world: &World, shadow: &Shadow) {
    let copies = (0..world.callers.len()).cycle();
    stream::iter(shadow.all_asked().into_iter().zip(copies))
        .for_each_concurrent(REPLAYS_AT_ONCE, async |(asked, copy)| replay(world, shadow, &asked, copy).await)
        .await;
}

async fn replay(world: &World, shadow: &Shadow, asked: &Asked, copy: usize) {
    // The channel makes no new trouble for keys that lead to nothing yet: a key that was refused is simply tried again.
    let answered = send(world, shadow, &asked.request, copy).await;
    if answered.is_none() && asked.pay_no.is_some() {
        shadow.found(format!("key {} is not answered again", asked.request.idempotency_key));
    }
}
