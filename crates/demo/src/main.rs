//! The demo; see the README beside it.
#![expect(clippy::print_stdout, reason = "the demo speaks to a person")]

mod channel;
mod count;
mod gates;
mod give_back;
mod report;
mod stack;
mod storm;
mod trouble;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use service_kit::task;

use crate::channel::Channel;
use crate::stack::Stack;
use crate::storm::Storm;

/// Pays orders through storms of repeats and crashes, then audits what was charged and booked.
#[derive(Debug, Parser)]
struct Arguments {
    /// Orders to pay.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    orders: u32,
    /// Seed of what the channel does; the same seed gives every order the same fate.
    #[arg(long, default_value_t = rand::random())]
    seed: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let stack = Arc::new(Stack::from_environment().await?);
    println!("Oncepay demo · 演示    {} orders · 订单, seed {}", arguments.orders, arguments.seed);
    let channel = Channel::new(&stack.simulator_url);
    let before = count::Before::read(&stack, &channel).await?;
    let gates_before = gates::read(&stack).await;
    channel.misbehave(arguments.seed).await?;

    let storm = Arc::new(Storm::new(&stack.order_api_url, arguments.orders)?);
    let troubles = task::spawn("demo.trouble", trouble::run(Arc::clone(&stack), Arc::clone(&storm)));
    storm.run().await;
    let trouble = troubles.await?.ok_or_else(|| anyhow::anyhow!("what breaks things broke itself"))??;
    println!("every caller has its answer; waiting until all is paid and booked · 等待全部支付并入账 …");
    count::wait_settled(&stack, &channel, &storm, &before).await?;
    println!("giving some of it back, in full and in parts · 部分订单全额或分次退款 …");
    let wanted = give_back::run(&storm).await;
    count::wait_booked(&stack, &storm).await?;
    channel.behave().await?;

    let counted = count::count(&stack, &channel, &storm, &before, wanted).await?;
    let closed = gates::closed(&gates_before, &trouble.lost_counts, &gates::read(&stack).await);
    let good = report::print(&counted, &closed, &trouble);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
