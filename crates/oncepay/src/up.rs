//! All services in one process: for a laptop. They meet through gRPC, HTTP, the databases and the broker, as they do when
//! each has a process of its own.

use anyhow::Context as _;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock, config, shutdown, task};
use tokio::task::JoinSet;

/// Builds a service from its own settings and runs it beside the others.
macro_rules! start {
    ($running:ident, $shutdown:ident, $name:literal, $service:ident) => {{
        let settings = config::load::<$service::Settings>($name)?;
        let app = $service::App::build(settings, Clock::system(), Switches::from_environment())
            .await
            .context(concat!($name, " cannot start"))?;
        let shutdown: CancellationToken = $shutdown.clone();
        let service = task::spawn($name, app.run(shutdown));
        $running.spawn(async move {
            match service.await.ok().flatten() {
                Some(Ok(())) => Ok($name),
                Some(Err(error)) => Err(anyhow::Error::new(error).context(concat!($name, " failed"))),
                None => Err(anyhow::anyhow!(concat!($name, " panicked"))),
            }
        });
    }};
}

/// Runs until a signal, or until one service fails, which ends the others.
pub(crate) async fn run() -> anyhow::Result<()> {
    let shutdown = shutdown::on_signal()?;
    let mut running: JoinSet<anyhow::Result<&'static str>> = JoinSet::new();
    start!(running, shutdown, "channel-simulator", channel_simulator);
    start!(running, shutdown, "payment-core", payment_core);
    start!(running, shutdown, "callback-receiver", callback_receiver);
    start!(running, shutdown, "order-api", order_api);
    start!(running, shutdown, "ledger-service", ledger_service);
    start!(running, shutdown, "ledger-consumer", ledger_consumer);
    start!(running, shutdown, "outbox-relay", outbox_relay);
    let mut first_failure = Ok(());
    while let Some(ended) = running.join_next().await {
        match ended? {
            Ok(service) => tracing::info!(service, "stopped"),
            Err(error) => {
                shutdown.cancel();
                first_failure = first_failure.and(Err(error));
            }
        }
    }
    first_failure
}
