//! The running stack, as `.local/env` tells it, and the scripts that start and stop its parts.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, bail};
use broker::{Embedded, TopicSpec};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::process::Command;

/// Where everything is.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) order_api_url: String,
    pub(crate) ledger_service_url: String,
    pub(crate) simulator_url: String,
    pub(crate) payment: PgPool,
    pub(crate) ledger: PgPool,
    /// Admin addresses of the services that count closings of gates.
    pub(crate) admin: Vec<String>,
    scripts: PathBuf,
    /// Kept alive: the broker, where no real one could be had.
    embedded: Option<Embedded>,
}

fn variable(name: &str) -> anyhow::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "the addresses come from .local/env")]
    std::env::var(name)
        .with_context(|| format!("{name} is not set: run `make demo`, or source .local/env first"))
}

async fn pool(name: &str) -> anyhow::Result<PgPool> {
    let url = variable(name)?;
    PgPoolOptions::new()
        .max_connections(4)
        .connect(&url)
        .await
        .with_context(|| format!("{name} does not answer"))
}

impl Stack {
    pub(crate) async fn from_environment() -> anyhow::Result<Self> {
        let services = ["ORDER_API", "PAYMENT_CORE", "CALLBACK_RECEIVER", "OUTBOX_RELAY", "LEDGER_CONSUMER"];
        let admin = services
            .iter()
            .map(|service| variable(&format!("ONCEPAY_{service}__ADMIN_LISTEN")))
            .collect::<Result<_, _>>()?;
        let mut stack = Self {
            order_api_url: variable("ORDER_API_URL")?,
            ledger_service_url: variable("LEDGER_SERVICE_URL")?,
            simulator_url: variable("SIMULATOR_URL")?,
            payment: pool("PAYMENT_DATABASE_URL").await?,
            ledger: pool("LEDGER_DATABASE_URL").await?,
            admin,
            scripts: PathBuf::from(variable("ONCEPAY_SCRIPTS")?),
            embedded: None,
        };
        if variable("KAFKA_BROKERS").unwrap_or_default().is_empty() {
            stack.host_broker().await?;
        }
        Ok(stack)
    }

    /// Whether a real Kafka runs.
    pub(crate) fn has_kafka(&self) -> bool {
        self.embedded.is_none()
    }

    /// No Kafka could be had: hosts librdkafka's broker, and starts what needs one.
    async fn host_broker(&mut self) -> anyhow::Result<()> {
        // Many partitions: the embedded broker keeps little for each, and drops the rest.
        let topics = [
            contract::event::TOPIC.to_owned(),
            format!("{}{}", contract::event::TOPIC, contract::event::DLQ_SUFFIX),
        ]
        .map(|name| TopicSpec { name, partitions: 24 });
        let embedded = Embedded::start(&topics)?;
        println!(
            "NO KAFKA HERE: events go through a broker inside this process and are lost when it ends · 没有 Kafka"
        );
        let brokers = embedded.brokers().to_owned();
        self.run(
            "services.sh",
            &["start", "ledger-consumer", "outbox-relay"],
            &[("KAFKA_BROKERS", &brokers)],
        )
        .await?;
        self.embedded = Some(embedded);
        Ok(())
    }

    /// Runs one of the stack's scripts.
    pub(crate) async fn run(
        &self,
        script: &str,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        let output = Command::new(self.scripts.join(script))
            .args(words)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .await
            .with_context(|| format!("{script} cannot be run"))?;
        if !output.status.success() {
            bail!("{script} {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}
