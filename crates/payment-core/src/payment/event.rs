//! Events from payments: the fact's key, its body, and whose trace it continues.

use contract::event::{PaymentEvent, kind};
use pay_types::PaymentState;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::Error;
use crate::payment::{NewPayment, Payment};
use crate::refund::Refund;
use crate::store::event::NewEvent;
use crate::store::receipt::{NewReceipt, Withdrawn};

/// A time as RFC 3339 text in UTC.
fn text(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).expect("a time between year 0 and 9999 has an RFC 3339 form")
}

/// `PAY_CREATED` of a new payment.
pub(crate) fn created(payment: &NewPayment, cause: &str) -> Result<NewEvent, Error> {
    let msg_key = format!("{}:{}", kind::PAY_CREATED, payment.pay_no);
    let body = PaymentEvent {
        msg_key: msg_key.clone(),
        r#type: kind::PAY_CREATED.to_owned(),
        pay_no: payment.pay_no.to_string(),
        merchant_id: payment.merchant_id.to_string(),
        order_no: payment.order_no.to_string(),
        attempt_no: i32::from(payment.attempt_no.get()),
        amount: payment.amount.minor(),
        currency: payment.amount.currency().code().to_owned(),
        channel: payment.channel.to_string(),
        channel_account: payment.channel_account.to_string(),
        occurred_at: text(payment.created_at),
        created_at: text(payment.created_at),
        version: 1,
        ..Default::default()
    };
    Ok(NewEvent {
        bucket: payment.pay_no.bucket().as_i16(),
        msg_key,
        pay_no: payment.pay_no.to_string(),
        kind: kind::PAY_CREATED,
        from_state: None,
        to_state: Some(PaymentState::Processing.as_str()),
        version: 1,
        cause: cause.to_owned(),
        partition_key: format!("{}:{}", payment.merchant_id, payment.order_no),
        payload: serde_json::to_string(&body)?,
        traceparent: payment.traceparent.clone(),
    })
}

/// What every event about an existing payment says.
fn body_of(
    payment: &Payment,
    kind: &str,
    msg_key: &str,
    occurred_at: OffsetDateTime,
    now: OffsetDateTime,
) -> PaymentEvent {
    PaymentEvent {
        msg_key: msg_key.to_owned(),
        r#type: kind.to_owned(),
        pay_no: payment.pay_no.to_string(),
        merchant_id: payment.merchant_id.to_string(),
        order_no: payment.order_no.to_string(),
        attempt_no: i32::from(payment.attempt_no.get()),
        amount: payment.amount.minor(),
        currency: payment.amount.currency().code().to_owned(),
        channel: payment.channel.to_string(),
        channel_account: payment.channel_account.to_string(),
        channel_txn_id: payment.channel_txn_id.clone().unwrap_or_default(),
        occurred_at: text(occurred_at),
        created_at: text(now),
        version: payment.version,
        ..Default::default()
    }
}

fn event_of(
    payment: &Payment,
    kind: &'static str,
    body: &PaymentEvent,
    cause: &str,
    traceparent: Option<String>,
) -> Result<NewEvent, Error> {
    Ok(NewEvent {
        bucket: payment.bucket().as_i16(),
        msg_key: body.msg_key.clone(),
        pay_no: payment.pay_no.to_string(),
        kind,
        from_state: None,
        to_state: None,
        version: payment.version,
        cause: cause.to_owned(),
        partition_key: payment.partition_key(),
        payload: serde_json::to_string(body)?,
        traceparent,
    })
}

/// The event of a payment that has just ended; `payment` is the row after the move.
pub(crate) fn ended(
    payment: &Payment,
    occurred_at: OffsetDateTime,
    cause: &str,
    traceparent: Option<String>,
    now: OffsetDateTime,
) -> Result<NewEvent, Error> {
    let kind = match payment.state {
        PaymentState::Success => kind::PAY_SUCCEEDED,
        PaymentState::Fail => kind::PAY_FAILED,
        PaymentState::Closed => kind::PAY_CLOSED,
        PaymentState::Processing => return Err(Error::Overtaken),
    };
    let msg_key = format!("{kind}:{}", payment.pay_no);
    let body = body_of(payment, kind, &msg_key, occurred_at, now);
    let event = event_of(payment, kind, &body, cause, traceparent)?;
    Ok(NewEvent {
        from_state: Some(PaymentState::Processing.as_str()),
        to_state: Some(payment.state.as_str()),
        ..event
    })
}

/// `RECEIPT_UNEXPECTED`: genuine money that the payment did not want.
pub(crate) fn unexpected_receipt(
    payment: &Payment,
    receipt: &NewReceipt,
    occurred_at: OffsetDateTime,
    cause: &str,
    traceparent: Option<String>,
    now: OffsetDateTime,
) -> Result<NewEvent, Error> {
    let msg_key = format!("{}:{}:{}", kind::RECEIPT_UNEXPECTED, receipt.channel, receipt.channel_txn_id);
    let body = PaymentEvent {
        amount: receipt.amount,
        currency: receipt.currency.clone(),
        channel_txn_id: receipt.channel_txn_id.clone(),
        reason: receipt.reason.to_owned(),
        version: 0,
        ..body_of(payment, kind::RECEIPT_UNEXPECTED, &msg_key, occurred_at, now)
    };
    event_of(payment, kind::RECEIPT_UNEXPECTED, &body, cause, traceparent)
}

/// A step of a refund that the books must know; `kind` says which. Named by the refund, so that each step is one fact.
pub(crate) fn refund(
    payment: &Payment,
    refund: &Refund,
    kind: &'static str,
    occurred_at: OffsetDateTime,
    cause: &str,
    now: OffsetDateTime,
) -> Result<NewEvent, Error> {
    let msg_key = format!("{kind}:{}", refund.refund_no);
    let body = PaymentEvent {
        amount: refund.amount.minor(),
        currency: refund.amount.currency().code().to_owned(),
        channel_txn_id: refund.channel_txn_id.to_string(),
        reason: refund.reason.clone(),
        version: 0,
        refund_no: refund.refund_no.to_string(),
        refund_kind: refund.kind.as_str().to_owned(),
        ..body_of(payment, kind, &msg_key, occurred_at, now)
    };
    let traceparent = refund.traceparent.clone().or_else(|| payment.traceparent.clone());
    let event = event_of(payment, kind, &body, cause, traceparent)?;
    Ok(NewEvent { version: refund.version.saturating_add(1), ..event })
}

/// `REFUND_CREATED`: a merchant's refund whose amount has just been reserved.
pub(crate) fn refund_created(
    payment: &Payment,
    refund: &Refund,
    now: OffsetDateTime,
) -> Result<NewEvent, Error> {
    let event = self::refund(payment, refund, kind::REFUND_CREATED, now, "CREATE_REFUND", now)?;
    Ok(NewEvent { version: refund.version, ..event })
}

/// `RECEIPT_WITHDRAWN`: a receipt booked for a wrong amount is taken back, since the channel told the right one.
pub(crate) fn withdrawn_receipt(
    payment: &Payment,
    receipt: &Withdrawn,
    cause: &str,
    traceparent: Option<String>,
    now: OffsetDateTime,
) -> Result<NewEvent, Error> {
    let msg_key = format!("{}:{}:{}", kind::RECEIPT_WITHDRAWN, payment.channel, receipt.channel_txn_id);
    let body = PaymentEvent {
        amount: receipt.amount,
        currency: receipt.currency.clone(),
        channel_txn_id: receipt.channel_txn_id.clone(),
        reason: "AMOUNT_CORRECTED".to_owned(),
        version: 0,
        ..body_of(payment, kind::RECEIPT_WITHDRAWN, &msg_key, now, now)
    };
    event_of(payment, kind::RECEIPT_WITHDRAWN, &body, cause, traceparent)
}
