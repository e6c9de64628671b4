//! The channel simulator, held by its control calls.

use channel_simulator::{BookView, DirectNotice, OrderView, PayOptions, Plan, Received};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The control side of one simulator.
#[derive(Debug, Clone)]
pub struct Simulator {
    url: String,
    http: reqwest::Client,
}

impl Simulator {
    #[must_use]
    pub fn new(url: String) -> Self {
        Self { url, http: reqwest::Client::new() }
    }

    /// Everything that the channel knows.
    pub async fn book(&self) -> BookView {
        self.get("/control/book").await
    }

    /// One order.
    pub async fn order(&self, pay_no: &str) -> OrderView {
        self.get(&format!("/control/orders/{pay_no}")).await
    }

    /// Sets what it does to whom.
    pub async fn plan(&self, plan: &Plan) {
        let sent = self.http.put(format!("{}/control/plan", self.url)).json(plan).send().await.unwrap();
        assert!(sent.status().is_success(), "{}", sent.text().await.unwrap());
    }

    /// The payer pays.
    pub async fn pay(&self, pay_no: &str, options: &PayOptions) {
        self.post(&format!("/control/orders/{pay_no}/pay"), options).await;
    }

    /// The payer pays once more, in another transaction.
    pub async fn pay_again(&self, pay_no: &str, options: &PayOptions) {
        self.post(&format!("/control/orders/{pay_no}/second-transaction"), options).await;
    }

    /// The channel closes the order, and tells.
    pub async fn close(&self, pay_no: &str) {
        self.post(&format!("/control/orders/{pay_no}/close"), &PayOptions::default()).await;
    }

    /// Sends a notice of our making; gives the receiver's answers.
    ///
    /// # Panics
    /// When the simulator refuses.
    pub async fn notice(&self, notice: &DirectNotice) -> Vec<Received> {
        let sent = self.http.post(format!("{}/control/notices", self.url)).json(notice).send().await.unwrap();
        let mut answers: std::collections::HashMap<String, Vec<Received>> = read(sent).await;
        answers.remove("answers").unwrap()
    }

    async fn post<T: Serialize + Sync>(&self, path: &str, body: &T) {
        let sent = self.http.post(format!("{}{path}", self.url)).json(body).send().await.unwrap();
        let status = sent.status();
        assert!(status.is_success(), "{path}: {status} {}", sent.text().await.unwrap());
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        read(self.http.get(format!("{}{path}", self.url)).send().await.unwrap()).await
    }
}

async fn read<T: DeserializeOwned>(answer: reqwest::Response) -> T {
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{status}: {text}");
    serde_json::from_str(&text).unwrap()
}
