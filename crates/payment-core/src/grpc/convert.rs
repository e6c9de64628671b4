//! Payments on the wire.

use std::collections::HashMap;

use contract::{key, order};
use contract::{timestamp, timestamp_opt};
use pay_types::{PaymentState, RefundState};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tonic::metadata::{MetadataMap, MetadataValue};

use crate::payment::Payment;
use crate::refund::{Approval, Refund};

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
        refund_reserved: payment.refund_reserved,
        expire_at: Some(timestamp(payment.expire_at)),
        created_at: Some(timestamp(payment.created_at)),
        updated_at: Some(timestamp(payment.updated_at)),
        metadata: labels(payment.metadata),
    }
}

/// A refund on the wire.
pub(super) fn refund(refund: Refund) -> order::Refund {
    let approval = match refund.approval {
        Approval::NotNeeded => order::RefundApproval::NotNeeded,
        Approval::Waiting => order::RefundApproval::Waiting,
        Approval::Approved => order::RefundApproval::Approved,
        Approval::Rejected => order::RefundApproval::Rejected,
    };
    let state = match refund.state {
        RefundState::Pending => order::RefundState::Pending,
        RefundState::Submitted => order::RefundState::Submitted,
        RefundState::Processing => order::RefundState::Processing,
        RefundState::Success => order::RefundState::Success,
        RefundState::Fail => order::RefundState::Fail,
    };
    order::Refund {
        refund_no: refund.refund_no.to_string(),
        pay_no: refund.pay_no.to_string(),
        merchant_id: refund.merchant_id.to_string(),
        refund_request_no: refund.refund_request_no.unwrap_or_default(),
        amount: Some(refund.amount.into()),
        reason: refund.reason,
        state: state.into(),
        version: refund.version,
        channel_refund_no: refund.channel_refund_no.unwrap_or_default(),
        last_error: refund.last_error.unwrap_or_default(),
        approval: approval.into(),
        requested_by: refund.requested_by.unwrap_or_default(),
        decided_by: refund.decided_by.unwrap_or_default(),
        returned_at: timestamp_opt(refund.returned_at),
        created_at: Some(timestamp(refund.created_at)),
        updated_at: Some(timestamp(refund.updated_at)),
    }
}

/// Tells about the key of a creating call, in the answer's metadata.
pub(super) fn about_key(
    metadata: &mut MetadataMap,
    replayed: bool,
    first_seen: OffsetDateTime,
    kept: time::Duration,
) {
    metadata.insert(key::REPLAYED, MetadataValue::from_static(if replayed { "true" } else { "false" }));
    for (name, at) in [(key::FIRST_SEEN, first_seen), (key::EXPIRES_AT, first_seen.saturating_add(kept))] {
        if let Some(text) = at.format(&Rfc3339).ok().and_then(|text| text.parse().ok()) {
            metadata.insert(name, text);
        }
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
