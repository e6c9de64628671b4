//! channel-simulator.

use channel_simulator::{App, Settings};
use service_kit::switch::Switches;
use service_kit::{Clock, config, shutdown, telemetry};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let _telemetry = telemetry::init("channel-simulator")?;
    let shutdown = shutdown::on_signal()?;
    let settings: Settings = config::load("channel-simulator")?;
    let app = App::build(settings, Clock::system(), Switches::from_environment()).await?;
    tracing::info!(listen = %app.addr(), admin = %app.admin_addr(), "channel-simulator is up");
    Ok(app.run(shutdown).await?)
}
