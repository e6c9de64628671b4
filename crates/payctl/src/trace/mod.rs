//! `payctl trace`: one payment through every gate on one screen.

mod read;

use std::process::ExitCode;

use sqlx::PgPool;

use crate::show::{at, at_opt, money};
use crate::trace::read::{Entry, Event, Key, Payment, Refund};

/// Finds the payments and prints each.
pub(crate) async fn run(
    payment: &PgPool,
    ledger: &PgPool,
    what: &str,
    merchant: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let payments = read::find(payment, what, merchant).await?;
    if payments.is_empty() {
        println!("no payment has this pay_no, order_no, refund_no or idempotency key: {what}");
        return Ok(ExitCode::FAILURE);
    }
    for found in &payments {
        print(payment, ledger, found).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn head(p: &Payment) {
    println!("\n{}  {}  v{}  {}", p.pay_no, p.state, p.version, money(p.amount, &p.currency));
    println!("  order · 订单     {} / {} attempt {}", p.merchant_id, p.order_no, p.attempt_no);
    println!(
        "  channel · 渠道   {}/{}  txn {}",
        p.channel,
        p.channel_account,
        p.channel_txn_id.as_deref().unwrap_or("-")
    );
    println!(
        "  created {}  sent {}  paid {}  expires {}",
        at(p.created_at),
        at_opt(p.dispatched_at),
        at_opt(p.paid_at),
        at(p.expire_at)
    );
    if p.refund_reserved != 0 {
        let of = |minor| money(minor, &p.currency);
        println!("  refunded · 已退  {}  with those on their way {}", of(p.refunded), of(p.refund_reserved));
    }
    if let Some(words) = &p.last_error {
        println!("  last words       {words}");
    }
    if let Some(trace) = p.traceparent.as_deref().and_then(|text| text.split('-').nth(1)) {
        println!("  trace            {trace}");
    }
}

async fn print(payment: &PgPool, ledger: &PgPool, p: &Payment) -> anyhow::Result<()> {
    let refunds = read::refunds(payment, &p.pay_no).await?;
    let mut numbers = vec![p.pay_no.as_str()];
    numbers.extend(refunds.iter().map(|refund| refund.refund_no.as_str()));
    let keys = read::keys(payment, &numbers).await?;
    let events = read::events(payment, &p.pay_no).await?;
    let entries = read::entries(ledger, &p.pay_no).await?;
    head(p);
    println!("G4 keys · 幂等键");
    keys.iter().filter(|key| key.result_no == p.pay_no).for_each(print_key);
    println!("G5 other payments of the order · 同单其他支付");
    for (pay_no, attempt, state) in read::siblings(payment, p).await? {
        println!("  {pay_no}  attempt {attempt}  {state}");
    }
    println!("G7 words of the channel · 渠道通知");
    for word in read::words(payment, &p.pay_no).await? {
        let amount = word.amount.map(|amount| amount.to_string()).unwrap_or_default();
        println!(
            "  {}  {:<9} {:<28} {:<18} {amount} txn {}",
            at(word.received_at),
            word.source,
            word.action,
            word.outcome,
            word.channel_txn_id
        );
    }
    // What names a refund stands with it below; what names none that is known stays here, where it is seen.
    let below = |number: &Option<String>| number.as_deref().is_some_and(|number| numbers.contains(&number));
    println!("G6, G8 events · 事件");
    events.iter().filter(|event| !below(&event.refund_no)).for_each(print_event);
    println!("G8 entries · 分录");
    entries.iter().filter(|entry| !below(&entry.refund_no)).for_each(print_entry);
    if !refunds.is_empty() {
        println!("G10 refunds · 退款");
    }
    for refund in &refunds {
        let number = refund.refund_no.as_str();
        print_refund(refund);
        keys.iter().filter(|key| key.result_no == number).for_each(print_key);
        events.iter().filter(|event| event.refund_no.as_deref() == Some(number)).for_each(print_event);
        entries.iter().filter(|entry| entry.refund_no.as_deref() == Some(number)).for_each(print_entry);
    }
    let open = read::open(payment, &p.pay_no, &numbers).await?;
    if !open.is_empty() {
        println!("for a person · 待人工");
    }
    for (kind, subject, detail) in open {
        println!("  {kind}  {subject}  {detail}");
    }
    Ok(())
}

fn print_key(key: &Key) {
    println!("  {}  {}", at(key.created_at), key.biz_key);
}

fn print_event(event: &Event) {
    let step = match (&event.from_state, &event.to_state) {
        (Some(from), Some(to)) => format!("{from} → {to}"),
        (_, Some(to)) => format!("→ {to}"),
        _ => String::new(),
    };
    println!(
        "  {}  {:<20} {step:<24} {:<9} #{} {}",
        at(event.created_at),
        event.kind,
        event.place,
        event.event_id,
        event.cause
    );
}

fn print_entry(entry: &Entry) {
    println!("  {}  {:<20} entry {} {}", at(entry.posted_at), entry.kind, entry.entry_id, entry.lines);
}

fn print_refund(refund: &Refund) {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    println!(
        "{}  {}  {}  v{}  {}  {}",
        refund.refund_no,
        refund.kind,
        refund.state,
        refund.version,
        money(refund.amount, &refund.currency),
        refund.reason
    );
    println!(
        "  asked {} by · 申请人 {}  request {}  txn {}  channel's number {}  tries {}",
        at(refund.created_at),
        or_none(&refund.requested_by),
        or_none(&refund.refund_request_no),
        refund.channel_txn_id,
        or_none(&refund.channel_refund_no),
        refund.tries
    );
    if refund.approval != "NOT_NEEDED" {
        let (by, note) = (or_none(&refund.decided_by), or_none(&refund.decision_note));
        println!("  approval · 审批  {} by {by}: {note}", refund.approval);
    }
    if let Some(home) = refund.returned_at {
        println!("  came home · 退回 {}", at(home));
    }
    if let Some(words) = &refund.last_error {
        println!("  last words       {words}");
    }
}
