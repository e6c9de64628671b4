//! channel-simulator.

use std::path::PathBuf;

use channel_simulator::{App, Settings, keys};
use clap::{Parser, Subcommand};
use service_kit::switch::Switches;
use service_kit::{Clock, config, shutdown, telemetry};

#[derive(Parser)]
#[command(about = "A payment channel that misbehaves from a seed. Without a command, it serves.")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Make the keys of both sides in a folder, with channels.toml for the services and simulator.toml for the simulator.
    Keys {
        dir: PathBuf,
        #[arg(long)]
        simulator_url: String,
        #[arg(long)]
        receiver_url: String,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if let Some(Command::Keys { dir, simulator_url, receiver_url }) = Arguments::parse().command {
        keys::write(&dir, &simulator_url, &receiver_url)?;
        return Ok(());
    }
    let _telemetry = telemetry::init("channel-simulator")?;
    let shutdown = shutdown::on_signal()?;
    let settings: Settings = config::load("channel-simulator")?;
    let app = App::build(settings, Clock::system(), Switches::from_environment()).await?;
    tracing::info!(listen = %app.addr(), admin = %app.admin_addr(), "channel-simulator is up");
    Ok(app.run(shutdown).await?)
}
