//! Dispatching: telling the channel about a payment, after the commit that made its row and with no transaction open.
//!
//! The call carries `pay_no` as the merchant's number, so it may be repeated under the same terms: after a crash, after no
//! answer, by another copy. No answer leaves the payment `PROCESSING`; a job comes back to it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use channel::{Accounts, Clients, CreateOrder, Created, Credential, Outcome};
use pay_types::PaymentState;
use serde_json::{Value, json};
use service_kit::Clock;
use service_kit::switch::{Switches, kill_point};
use sqlx::PgPool;
use tracing::Instrument as _;

use crate::Error;
use crate::payment::gather::Gather;
use crate::payment::judge::{ChannelResult, Fact, Source};
use crate::payment::settle::Settled;
use crate::payment::{Payment, query};
use crate::store;

/// What calls to channels need.
#[derive(Debug, Clone)]
pub(crate) struct Channels {
    pub(crate) pool: PgPool,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) clock: Clock,
    pub(crate) switches: Switches,
    /// Where words of channels are settled, together with those that arrive at the same time.
    pub(crate) settling: Gather<ChannelResult, Settled>,
}

/// Longest wait for a word to be settled that no caller waits for; a job comes back to what took longer.
pub(crate) const SETTLE_WAIT_MAX: Duration = Duration::from_secs(10);

impl Channels {
    /// Sends a payment to its channel and stores what the payer needs.
    ///
    /// # Errors
    /// Database errors after the call; the payment's row says what is known, and a job comes back to it.
    pub(crate) async fn dispatch(&self, payment: &Payment) -> Result<(), Error> {
        let span = tracing::info_span!("payment_core.dispatch", pay.no = %payment.pay_no, outcome = tracing::field::Empty);
        service_kit::telemetry::continue_trace(&span, payment.traceparent.as_deref());
        self.send(payment).instrument(span).await
    }

    async fn send(&self, payment: &Payment) -> Result<(), Error> {
        let Some((client, account)) = self
            .clients
            .get(payment.channel, &payment.channel_account)
            .zip(self.accounts.get(payment.channel, &payment.channel_account))
        else {
            tracing::error!(channel = %payment.channel, account = %payment.channel_account, "the account left the configuration while payments use it");
            return Ok(());
        };
        let order = CreateOrder {
            pay_no: payment.pay_no.clone(),
            merchant_id: payment.merchant_id.clone(),
            amount: payment.amount,
            subject: payment.subject.clone(),
            expire_at: payment.expire_at,
            notify_url: account.notify_url().to_owned(),
        };
        kill_point("payment_core.dispatch.before_call");
        let outcome = client.create(&order).await;
        kill_point("payment_core.dispatch.after_call");
        tracing::Span::current().record("outcome", outcome.label());
        metrics::counter!("oncepay_dispatches_total", "channel" => payment.channel.as_str(), "outcome" => outcome.label())
            .increment(1);
        match outcome {
            Outcome::Accepted(created) => self.accepted(payment, created).await,
            Outcome::Rejected { code, message } => {
                self.rejected(payment, &format!("{code}: {message}")).await
            }
            Outcome::RetryLater { code } => {
                self.note(payment, &format!("the channel asks to wait: {code}")).await
            }
            Outcome::Unknown { why } => {
                self.note(payment, &format!("the channel did not answer: {why}")).await
            }
        }
    }

    async fn accepted(&self, payment: &Payment, created: Created) -> Result<(), Error> {
        let credential = credential(&created.credential);
        let stored = store::payment::store_credential(
            &self.pool,
            &payment.pay_no,
            &credential,
            created.channel_order_no.as_deref(),
            self.clock.now(),
        )
        .await?;
        kill_point("payment_core.dispatch.after_store");
        if !stored {
            tracing::debug!(pay.no = %payment.pay_no, "the payment was dispatched by another call, or has ended");
        }
        if created.channel_txn_id.is_some() {
            // A repeated create found the order paid: ask, and settle by the one path.
            query::query(self, payment).await?;
        }
        Ok(())
    }

    /// The channel's explicit word that this number can never be paid.
    async fn rejected(&self, payment: &Payment, words: &str) -> Result<(), Error> {
        self.settle(payment, Source::Call, Fact::Failed, words.to_owned()).await.map(|_| ())
    }

    /// Applies what a channel said in answer to our own call.
    pub(crate) async fn settle(
        &self,
        payment: &Payment,
        source: Source,
        fact: Fact,
        detail: String,
    ) -> Result<Option<PaymentState>, Error> {
        let channel_txn_id = match &fact {
            Fact::Paid { channel_txn_id, .. } => Some(channel_txn_id.clone()),
            Fact::Closed | Fact::Failed | Fact::Declined | Fact::RefundedTotal(_) | Fact::Refund(_) => None,
        };
        let now = self.clock.now();
        let result = ChannelResult {
            channel: payment.channel,
            channel_account: payment.channel_account.clone(),
            source,
            fact,
            pay_no: payment.pay_no.to_string(),
            merchant_id: None,
            channel_txn_id,
            occurred_at: now,
            raw: Bytes::from(detail.clone()),
            nonce: None,
            detail,
        };
        self.apply(result).await
    }

    pub(crate) async fn apply(&self, result: ChannelResult) -> Result<Option<PaymentState>, Error> {
        Ok(self.settling.call(result, SETTLE_WAIT_MAX).await?.state)
    }

    async fn note(&self, payment: &Payment, words: &str) -> Result<(), Error> {
        tracing::info!(pay.no = %payment.pay_no, words, "a payment waits for its channel");
        let mut connection = self.pool.acquire().await?;
        // False: the payment has ended since, and needs no note.
        store::payment::note_error_in_tx(&mut connection, &payment.pay_no, words, self.clock.now())
            .await
            .map(|_| ())?;
        Ok(())
    }
}

/// The form of `payment.credential`.
fn credential(credential: &Credential) -> Value {
    match credential {
        Credential::PayUrl(url) => json!({ "pay_url": url }),
        Credential::QrText(text) => json!({ "qr_text": text }),
        Credential::ClientSecret(secret) => json!({ "client_secret": secret }),
    }
}
