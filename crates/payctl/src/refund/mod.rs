//! `payctl refund`: a second person's decision about a refund above the limit, and what of money that goes back is not settled.
//! A decision goes through the core; nothing is written past it.

mod open;

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use contract::core::DecideRefundRequest;
use contract::core::payment_core_client::PaymentCoreClient;
use contract::order::RefundState;
use contract::reason;
use pay_types::{Actor, RefundNo, RefundReason};
use sqlx::PgPool;

use crate::show::money;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Agrees to a refund above the limit; it is then sent to the channel.
    Approve(Decision),
    /// Turns a refund above the limit down; it ends, and what it reserved is free again.
    Reject(Decision),
    /// Shows what waits or lingers, and for how long: refunds, receipts that no payment wanted, and the money of both in
    /// the books.
    Open,
}

#[derive(Debug, Args)]
pub(crate) struct Decision {
    refund_no: String,
    /// Who decides: another person than the one who asked for the refund.
    #[arg(long)]
    by: String,
    /// Why; kept with the refund.
    #[arg(long)]
    reason: String,
    /// Address of payment-core.
    #[arg(long, env = "PAYMENT_CORE_URL")]
    payment_core_url: String,
}

pub(crate) async fn run(payment: &PgPool, ledger: &PgPool, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Approve(decision) => decide(decision, true).await?,
        Command::Reject(decision) => decide(decision, false).await?,
        Command::Open => open::run(payment, ledger).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn decide(decision: Decision, approve: bool) -> anyhow::Result<()> {
    let Decision { refund_no, by, reason, payment_core_url } = decision;
    let refund_no: RefundNo = refund_no.parse()?;
    let decided_by = by.parse::<Actor>().map_err(|wrong| anyhow!("--by {}", wrong.rule))?;
    let note = reason.parse::<RefundReason>().map_err(|wrong| anyhow!("--reason {}", wrong.rule))?;
    let channel =
        service_kit::grpc::channel(&payment_core_url).context("--payment-core-url is no address")?;
    let request = DecideRefundRequest {
        refund_no: refund_no.to_string(),
        decided_by: decided_by.to_string(),
        note: note.to_string(),
        approve,
    };
    let answer =
        PaymentCoreClient::new(channel).decide_refund(request).await.map_err(
            |status| match reason::of_status(&status) {
                Some(reason) => anyhow!("{} (docs/runbooks/{}.md)", status.message(), reason.as_str()),
                None => {
                    anyhow!("payment-core did not decide, and may not have heard it; ask again: {status}")
                }
            },
        )?;
    let refund = answer.into_inner().refund.context("payment-core answered without the refund")?;
    let state = RefundState::try_from(refund.state)?.as_str_name().trim_start_matches("REFUND_STATE_");
    let amount = refund.amount.unwrap_or_default();
    println!(
        "{} {} · {}  {}  of {}  {state}",
        refund.refund_no,
        if approve { "approved" } else { "turned down" },
        if approve { "已批准" } else { "已拒绝" },
        money(amount.amount, &amount.currency),
        refund.pay_no,
    );
    println!("  asked by · 申请人 {}  decided by · 审批人 {}", refund.requested_by, refund.decided_by);
    Ok(())
}
