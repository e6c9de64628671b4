//! callback-receiver.

use callback_receiver::{App, Settings};
use service_kit::switch::Switches;
use service_kit::{Clock, config, shutdown, telemetry};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let _telemetry = telemetry::init("callback-receiver")?;
    let shutdown = shutdown::on_signal()?;
    let settings: Settings = config::load("callback-receiver")?;
    let app = App::build(settings, Clock::system(), Switches::from_environment()).await?;
    tracing::info!(listen = %app.addr(), admin = %app.admin_addr(), "callback-receiver is up");
    Ok(app.run(shutdown).await?)
}
