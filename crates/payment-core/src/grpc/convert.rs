//! Payments on the wire.

use std::collections::HashMap;

use contract::order;
use contract::{timestamp, timestamp_opt};
use pay_types::PaymentState;
use serde_json::Value;

use crate::payment::Payment;

/// A payment on the wire. A credential is of use only while the payment can still be paid.
pub(super) fn payment(payment: Payment) -> order::Payment {
    let credential = payment.credential.as_ref().filter(|_| payment.state == PaymentState::Processing);
    order::Payment {
        credential: credential.and_then(credential_of),
        pay_no: payment.pay_no.to_string(),
        merchant_id: payment.merchant_id.to_string(),
        order_no: payment.order_no.to_string(),
        attempt_no: i32::from(payment.attempt_no.get()),
        amount: Some(payment.amount.into()),
        channel: payment.channel.to_string(),
        channel_account: payment.channel_account.to_string(),
        subject: payment.subject.to_string(),
        state: order::PaymentState::from(payment.state).into(),
        version: payment.version,
        channel_txn_id: payment.channel_txn_id.unwrap_or_default(),
        paid_at: timestamp_opt(payment.paid_at),
        last_error: payment.last_error.unwrap_or_default(),
        refunded: payment.refunded,
        expire_at: Some(timestamp(payment.expire_at)),
        created_at: Some(timestamp(payment.created_at)),
        updated_at: Some(timestamp(payment.updated_at)),
        metadata: labels(payment.metadata),
    }
}

fn credential_of(value: &Value) -> Option<order::Credential> {
    use order::credential::Kind;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = text("pay_url")
        .map(Kind::PayUrl)
        .or_else(|| text("qr_text").map(Kind::QrText))
        .or_else(|| text("client_secret").map(Kind::ClientSecret))?;
    Some(order::Credential { kind: Some(kind) })
}

fn labels(metadata: Value) -> HashMap<String, String> {
    let Value::Object(labels) = metadata else { return HashMap::new() };
    labels.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect()
}
