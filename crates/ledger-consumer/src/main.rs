#![doc = include_str!("../README.md")]

use ledger_consumer::{App, Settings};
use service_kit::switch::Switches;
use service_kit::{Clock, config, shutdown, telemetry};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let _telemetry = telemetry::init("ledger-consumer")?;
    let shutdown = shutdown::on_signal()?;
    let settings: Settings = config::load("ledger-consumer")?;
    App::build(settings, Clock::system(), Switches::from_environment()).await?.run(shutdown).await?;
    Ok(())
}
