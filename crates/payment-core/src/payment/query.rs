//! Asking the channel: what became of a payment whose notice has not come, and closing one whose time is over. Only the
//! channel's explicit word moves anything; *not paid yet* and *does not exist* are no words.

use bytes::Bytes;
use channel::{Closed, FindOrder, Outcome, Queried};
use pay_types::{ChannelWord, Currency, Money};
use serde_json::json;

use crate::Error;
use crate::payment::Payment;
use crate::payment::dispatch::Channels;
use crate::payment::judge::{ChannelResult, Fact, Source};

/// Asks and settles by the answer.
pub(crate) async fn query(channels: &Channels, payment: &Payment) -> Result<(), Error> {
    let Some(client) = channels.clients.get(payment.channel, &payment.channel_account) else { return Ok(()) };
    match client.query(&find(payment)).await {
        Outcome::Accepted(queried) => apply(channels, payment, Source::Query, &queried).await,
        other @ (Outcome::Rejected { .. } | Outcome::RetryLater { .. } | Outcome::Unknown { .. }) => {
            tracing::info!(pay.no = %payment.pay_no, outcome = other.label(), "a query brought no word");
            Ok(())
        }
    }
}

/// Closes at the channel; only its confirmation closes the payment here. Where the close brings no word, the order is asked about.
pub(crate) async fn close(channels: &Channels, payment: &Payment) -> Result<(), Error> {
    let Some(client) = channels.clients.get(payment.channel, &payment.channel_account) else { return Ok(()) };
    match client.close(&find(payment)).await {
        Outcome::Accepted(Closed::Closed) => channels
            .settle(payment, Source::Call, Fact::Closed, "closed at its expiry".to_owned())
            .await
            .map(|_| ()),
        Outcome::Accepted(Closed::AlreadyPaid(queried)) => {
            apply(channels, payment, Source::Call, &queried).await
        }
        other @ (Outcome::Rejected { .. } | Outcome::RetryLater { .. } | Outcome::Unknown { .. }) => {
            tracing::info!(pay.no = %payment.pay_no, outcome = other.label(), "a close brought no word");
            // Some channels refuse to close what is paid, and leave it to a query to tell so.
            query(channels, payment).await
        }
    }
}

fn find(payment: &Payment) -> FindOrder {
    FindOrder { pay_no: payment.pay_no.clone(), channel_order_no: payment.channel_order_no.clone() }
}

async fn apply(
    channels: &Channels,
    payment: &Payment,
    source: Source,
    queried: &Queried,
) -> Result<(), Error> {
    let fact = match queried.word {
        None => return Ok(()),
        Some(ChannelWord::Closed) => Fact::Closed,
        Some(ChannelWord::Failed) => Fact::Failed,
        Some(ChannelWord::Paid) => match paid(queried) {
            Some(fact) => fact,
            None => {
                tracing::error!(pay.no = %payment.pay_no, "a query says paid without a transaction or an amount");
                return Ok(());
            }
        },
    };
    let said = json!({
        "word": fact.action(),
        "channel_txn_id": queried.channel_txn_id.as_ref().map(ToString::to_string),
        "amount": queried.amount.as_ref().map(|amount| amount.minor),
        "currency": queried.amount.as_ref().map(|amount| amount.currency.as_str()),
    });
    let result = ChannelResult {
        channel: payment.channel,
        channel_account: payment.channel_account.clone(),
        source,
        fact,
        pay_no: payment.pay_no.to_string(),
        merchant_id: None,
        channel_txn_id: queried.channel_txn_id.clone(),
        occurred_at: queried.occurred_at.unwrap_or_else(|| channels.clock.now()),
        raw: Bytes::from(said.to_string()),
        nonce: None,
        detail: String::new(),
    };
    channels.apply(result).await.map(|_| ())
}

fn paid(queried: &Queried) -> Option<Fact> {
    let stated = queried.amount.as_ref()?;
    let amount = Money::try_new(stated.minor, Currency::from_code(&stated.currency).ok()?).ok()?;
    Some(Fact::Paid { amount, channel_txn_id: queried.channel_txn_id.clone()? })
}
