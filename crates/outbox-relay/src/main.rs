//! The relay as a process of its own.

use outbox_relay::{App, Settings};
use service_kit::switch::Switches;
use service_kit::{Clock, config, shutdown, telemetry};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let _telemetry = telemetry::init("outbox-relay")?;
    let shutdown = shutdown::on_signal()?;
    let settings = config::load::<Settings>("outbox-relay")?;
    let app = App::build(settings, Clock::system(), Switches::from_environment()).await?;
    Ok(app.run(shutdown).await?)
}
