//! The channel: told to misbehave, and asked for its own book.

use channel_simulator::{AutoPay, BookView, CreateFaults, Lies, Plan, RefundFaults, Totals};

/// The control side of the channel simulator.
#[derive(Debug)]
pub(crate) struct Channel {
    url: String,
    http: reqwest::Client,
}

impl Channel {
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), http: reqwest::Client::new() }
    }

    /// Repeats, reorders, loses and lies from now on, and pays every order.
    pub(crate) async fn misbehave(&self, seed: u64) -> anyhow::Result<()> {
        let plan = Plan {
            seed,
            auto_pay: Some(AutoPay { percent: 100, delay_ms: [5, 400] }),
            notice_repeats: 3,
            notice_delay_ms: [0, 300],
            reorder_percent: 20,
            lose_percent: 10,
            lies: Lies {
                wrong_amount_percent: 3,
                bad_signature_percent: 5,
                stale_timestamp_percent: 5,
                ..Lies::default()
            },
            create: CreateFaults {
                error_after_commit_percent: 3,
                drop_after_commit_percent: 3,
                ..CreateFaults::default()
            },
            refund: RefundFaults {
                done_ms: [0, 400],
                silent_percent: 10,
                error_after_commit_percent: 5,
                drop_after_commit_percent: 5,
                ..RefundFaults::default()
            },
        };
        self.plan(&plan).await
    }

    /// Behaves well again.
    pub(crate) async fn behave(&self) -> anyhow::Result<()> {
        self.plan(&Plan {
            auto_pay: Some(AutoPay { percent: 100, delay_ms: [500, 2_000] }),
            ..Plan::default()
        })
        .await
    }

    async fn plan(&self, plan: &Plan) -> anyhow::Result<()> {
        self.http.put(format!("{}/control/plan", self.url)).json(plan).send().await?.error_for_status()?;
        Ok(())
    }

    /// The whole book.
    pub(crate) async fn book(&self) -> anyhow::Result<BookView> {
        Ok(self
            .http
            .get(format!("{}/control/book", self.url))
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?)
    }

    /// Sums since the simulator's start.
    pub(crate) async fn totals(&self) -> anyhow::Result<Totals> {
        Ok(self.book().await?.totals)
    }
}
