//! `payctl notice`: stored words of channels, applied again by the one settle path. A word that had its effect has none again.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use contract::common::Money;
use contract::core::payment_core_client::PaymentCoreClient;
use contract::core::{ApplyChannelResultRequest, ChannelFact, ResultOutcome, ResultSource};
use sqlx::PgPool;
use time::OffsetDateTime;

/// Rows that a list shows.
const ROWS_MAX: i64 = 200;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows words about unknown payments that wait or were given up.
    List,
    /// Applies the stored words about one payment again, oldest first.
    Replay {
        pay_no: String,
        /// Address of payment-core.
        #[arg(long, env = "PAYMENT_CORE_URL")]
        payment_core_url: String,
    },
}

pub(crate) async fn run(payment: &PgPool, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List => list(payment).await?,
        Command::Replay { pay_no, payment_core_url } => replay(payment, &pay_no, &payment_core_url).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(payment: &PgPool) -> anyhow::Result<()> {
    let rows: Vec<(String, String, String, String, i32, i32, String)> = sqlx::query_as(
        "SELECT pay_no, action, channel || '/' || channel_account, channel_txn_id, seen_count, tries, state
         FROM orphan_notice WHERE state <> 'APPLIED' ORDER BY first_seen_at LIMIT $1",
    )
    .bind(ROWS_MAX)
    .fetch_all(payment)
    .await?;
    println!("{} words about unknown payments · 未知支付的通知", rows.len());
    for (pay_no, action, account, txn, seen, tries, state) in rows {
        println!("  {pay_no}  {action}  {account}  {txn}  seen {seen}  tries {tries}  {state}");
    }
    Ok(())
}

#[derive(Debug, sqlx::FromRow)]
struct Stored {
    channel: String,
    channel_account: String,
    channel_txn_id: String,
    action: String,
    amount: Option<i64>,
    currency: Option<String>,
    occurred_at: Option<OffsetDateTime>,
    raw: Vec<u8>,
}

async fn replay(payment: &PgPool, pay_no: &str, core: &str) -> anyhow::Result<()> {
    let words: Vec<Stored> = sqlx::query_as(
        "SELECT channel, channel_account, channel_txn_id, action, amount, currency, occurred_at, raw
         FROM (SELECT c.channel, p.channel_account, c.channel_txn_id, c.action, c.amount, c.currency, c.occurred_at,
                      c.raw, c.received_at AS heard_at
               FROM callback_log c JOIN payment p ON p.bucket = c.bucket AND p.pay_no = c.pay_no WHERE c.pay_no = $1
               UNION ALL
               SELECT channel, channel_account, channel_txn_id, action, amount, currency, occurred_at, raw,
                      first_seen_at FROM orphan_notice WHERE pay_no = $1) AS words
         ORDER BY heard_at",
    )
    .bind(pay_no)
    .fetch_all(payment)
    .await?;
    if words.is_empty() {
        bail!("nothing is stored about {pay_no}");
    }
    let channel = service_kit::grpc::channel(core).context("--payment-core-url is no address")?;
    let mut client = PaymentCoreClient::new(channel);
    for word in words {
        let action = word.action.clone();
        let answer = client.apply_channel_result(request(pay_no, word)?).await?.into_inner();
        println!("  {action}: {}", ResultOutcome::try_from(answer.outcome)?.as_str_name());
    }
    Ok(())
}

fn request(pay_no: &str, word: Stored) -> anyhow::Result<ApplyChannelResultRequest> {
    let fact = match word.action.split(':').next() {
        Some("PAY_SUCCEEDED" | "PAY_MISMATCHED") => ChannelFact::PaySucceeded,
        Some("PAY_CLOSED") => ChannelFact::PayClosed,
        Some("PAY_FAILED") => ChannelFact::PayFailed,
        Some("PAY_DECLINED") => ChannelFact::PayDeclined,
        Some("REFUND_SUCCEEDED") => ChannelFact::RefundSucceeded,
        // A failure that came after the success is the same word; the refund's state says what it means.
        Some("REFUND_FAILED" | "REFUND_RETURNED") => ChannelFact::RefundFailed,
        Some("REFUND_ABNORMAL") => ChannelFact::RefundAbnormal,
        Some("REFUNDED_TOTAL") => ChannelFact::RefundedTotal,
        other => bail!("the stored fact {other:?} cannot be applied"),
    };
    let is_refund = matches!(
        fact,
        ChannelFact::RefundSucceeded | ChannelFact::RefundFailed | ChannelFact::RefundAbnormal
    );
    let number = word.action.split(':').nth(1).map(str::to_owned).filter(|_| is_refund);
    let txn = if word.channel_txn_id == pay_no { String::new() } else { word.channel_txn_id };
    Ok(ApplyChannelResultRequest {
        channel: word.channel,
        channel_account: word.channel_account,
        source: ResultSource::Notice.into(),
        fact: fact.into(),
        pay_no: pay_no.to_owned(),
        channel_txn_id: txn,
        amount: word.amount.zip(word.currency).map(|(amount, currency)| Money { amount, currency }),
        occurred_at: contract::timestamp_opt(word.occurred_at),
        raw: word.raw,
        nonce: None,
        detail: String::new(),
        merchant_id: String::new(),
        refund_no: number.unwrap_or_default(),
        channel_refund_no: String::new(),
    })
}
