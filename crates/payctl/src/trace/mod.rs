//! `payctl trace`: one payment through every gate on one screen.

mod read;

use std::process::ExitCode;

use sqlx::PgPool;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::trace::read::Payment;

/// Finds the payments and prints each.
pub(crate) async fn run(
    payment: &PgPool,
    ledger: &PgPool,
    what: &str,
    merchant: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let payments = read::find(payment, what, merchant).await?;
    if payments.is_empty() {
        println!("no payment has this pay_no, order_no or idempotency key: {what}");
        return Ok(ExitCode::FAILURE);
    }
    for found in &payments {
        print(payment, ledger, found).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn at(time: OffsetDateTime) -> String {
    let form = format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]");
    time.format(form).unwrap_or_default()
}

fn at_opt(time: Option<OffsetDateTime>) -> String {
    time.map_or_else(|| "-".to_owned(), at)
}

fn head(p: &Payment) {
    println!("\n{}  {}  v{}  {}", p.pay_no, p.state, p.version, p.money());
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
    if let Some(words) = &p.last_error {
        println!("  last words       {words}");
    }
    if let Some(trace) = p.traceparent.as_deref().and_then(|text| text.split('-').nth(1)) {
        println!("  trace            {trace}");
    }
}

async fn print(payment: &PgPool, ledger: &PgPool, p: &Payment) -> anyhow::Result<()> {
    head(p);
    println!("G4 keys · 幂等键");
    for (key, first_seen) in read::keys(payment, &p.pay_no).await? {
        println!("  {}  {key}", at(first_seen));
    }
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
    println!("G6, G8 events · 事件");
    for event in read::events(payment, &p.pay_no).await? {
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
    println!("G8 entries · 分录");
    for entry in read::entries(ledger, &p.pay_no).await? {
        println!("  {}  {:<20} entry {} {}", at(entry.posted_at), entry.kind, entry.entry_id, entry.lines);
    }
    let open = read::open(payment, &p.pay_no).await?;
    if !open.is_empty() {
        println!("for a person · 待人工");
    }
    for (kind, subject, detail) in open {
        println!("  {kind}  {subject}  {detail}");
    }
    Ok(())
}
