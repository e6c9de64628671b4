//! Stripe's objects, as answers and events carry them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::order::{Charge, Form, Order, Status};
use crate::refund::{Refund, RefundStatus};
use crate::stripe::amount::to_stripe;
use crate::stripe::params::Params;
use crate::stripe::{Kind, Object, Side};

/// The order's object, if it is one of Stripe.
pub(super) fn object(order: &Order) -> Option<&Object> {
    match &order.form {
        Form::Stripe(object) => Some(object),
        Form::Generic | Form::Alipay(_) | Form::WechatPay(_) => None,
    }
}

/// The metadata with the number that the terms have: a lie may have changed it.
fn metadata(own: &BTreeMap<String, String>, order: &Order) -> BTreeMap<String, String> {
    let mut metadata = own.clone();
    if let Some(pay_no) = metadata.get_mut("pay_no") {
        pay_no.clone_from(&order.terms.pay_no);
    }
    metadata
}

/// The id of the charge of an intent.
pub(super) fn charge_id(intent_id: &str) -> String {
    format!("ch_{}", intent_id.strip_prefix("pi_").unwrap_or(intent_id))
}

/// The order as an intent; of a paid session, the intent that this charge made.
pub(super) fn intent(side: &Side, order: &Order, object: &Object, charge: Option<&Charge>) -> Value {
    let (own, id) = match object.kind {
        Kind::Intent => (&object.metadata, object.id.as_str()),
        Kind::Session => (&object.intent_metadata, ""),
    };
    let id = charge.map_or(id, |charge| charge.channel_txn_id.as_str());
    let amount = to_stripe(order.terms.amount, &order.terms.currency);
    let ended = matches!(order.status, Status::Closed | Status::Failed);
    let status = match (charge, ended) {
        (Some(_), _) => "succeeded",
        (None, true) => "canceled",
        (None, false) => "requires_payment_method",
    };
    json!({
        "id": id,
        "object": "payment_intent",
        "amount": amount,
        "amount_capturable": 0,
        "amount_received": if charge.is_some() { amount } else { 0 },
        "canceled_at": ended.then(|| order.changed_at.unix_timestamp()),
        "cancellation_reason": ended.then_some("requested_by_customer"),
        "capture_method": "automatic",
        "client_secret": object.client_secret,
        "confirmation_method": "automatic",
        "created": order.created_at.unix_timestamp(),
        "currency": order.terms.currency.to_ascii_lowercase(),
        "description": order.terms.subject,
        "last_payment_error": null,
        "latest_charge": charge.map(|charge| charge_id(&charge.channel_txn_id)),
        "livemode": side.livemode,
        "metadata": metadata(own, order),
        "next_action": null,
        "payment_method": charge.map(|_| "pm_card_visa"),
        "payment_method_types": ["card"],
        "status": status,
    })
}

/// The order as a session.
pub(super) fn session(side: &Side, order: &Order, object: &Object, public_url: &str) -> Value {
    let amount = to_stripe(order.terms.amount, &order.terms.currency);
    let (status, payment_status) = match order.status {
        Status::Created => ("open", "unpaid"),
        Status::Paid => ("complete", "paid"),
        Status::Closed | Status::Failed => ("expired", "unpaid"),
    };
    let reference = object.client_reference_id.as_ref();
    json!({
        "id": object.id,
        "object": "checkout.session",
        "amount_subtotal": amount,
        "amount_total": amount,
        "cancel_url": object.cancel_url,
        // Our number stands here; a lie may have changed it.
        "client_reference_id": reference.map(|_| &order.terms.pay_no),
        "created": order.created_at.unix_timestamp(),
        "currency": order.terms.currency.to_ascii_lowercase(),
        "expires_at": order.terms.expire_at.unix_timestamp(),
        "livemode": side.livemode,
        "metadata": metadata(&object.metadata, order),
        "mode": "payment",
        "payment_intent": order.charges.first().map(|charge| charge.channel_txn_id.as_str()),
        "payment_method_types": ["card"],
        "payment_status": payment_status,
        "status": status,
        "success_url": object.success_url,
        "url": (order.status == Status::Created).then(|| format!("{public_url}/pay/{}", order.key)),
    })
}

/// A refund.
pub(super) fn refund(refund: &Refund) -> Value {
    let status = match refund.status {
        RefundStatus::Accepted => "pending",
        RefundStatus::Succeeded => "succeeded",
        RefundStatus::Failed => "failed",
        RefundStatus::Abnormal => "requires_action",
    };
    let failed = refund.status == RefundStatus::Failed;
    json!({
        "id": refund.key,
        "object": "refund",
        "amount": to_stripe(refund.terms.amount, &refund.terms.currency),
        "charge": charge_id(&refund.terms.channel_txn_id),
        "created": refund.created_at.unix_timestamp(),
        "currency": refund.terms.currency.to_ascii_lowercase(),
        "failure_reason": failed.then_some("expired_or_canceled_card"),
        "metadata": refund.terms.metadata,
        "payment_intent": refund.terms.channel_txn_id,
        "reason": Some(&refund.terms.reason).filter(|reason| !reason.is_empty()),
        "status": status,
    })
}

/// The charge of an intent, with how much of it went back.
pub(super) fn charge(side: &Side, order: &Order, object: &Object, intent_id: &str, refunded: i64) -> Value {
    let own = match object.kind {
        Kind::Intent => &object.metadata,
        Kind::Session => &object.intent_metadata,
    };
    let amount = to_stripe(order.terms.amount, &order.terms.currency);
    json!({
        "id": charge_id(intent_id),
        "object": "charge",
        "amount": amount,
        "amount_captured": amount,
        "amount_refunded": to_stripe(refunded, &order.terms.currency),
        "captured": true,
        "created": order.changed_at.unix_timestamp(),
        "currency": order.terms.currency.to_ascii_lowercase(),
        "livemode": side.livemode,
        "metadata": metadata(own, order),
        "paid": true,
        "payment_intent": intent_id,
        "refunded": refunded >= order.terms.amount,
        "status": "succeeded",
    })
}

/// Puts whole objects where `expand[]` asks for them.
pub(super) fn expanded(mut json: Value, params: &Params, side: &Side, order: &Order, refunded: i64) -> Value {
    let Some(object) = object(order) else { return json };
    let charge_of = |intent: &str| charge(side, order, object, intent, refunded);
    if params.list_has("expand", "latest_charge")
        && let Some(id) = json.get("id").and_then(Value::as_str).map(str::to_owned)
        && let Some(place) = json.get_mut("latest_charge").filter(|place| !place.is_null())
    {
        *place = charge_of(&id);
    }
    let deeper = params.list_has("expand", "payment_intent.latest_charge");
    if (deeper || params.list_has("expand", "payment_intent"))
        && let Some(first) = order.charges.first()
        && let Some(place) = json.get_mut("payment_intent").filter(|place| place.is_string())
    {
        *place = intent(side, order, object, Some(first));
        if deeper && let Some(place) = place.get_mut("latest_charge") {
            *place = charge_of(&first.channel_txn_id);
        }
    }
    json
}

/// A page of a list, newest first.
pub(super) fn page(all: Vec<Value>, params: &Params, url: &str) -> Value {
    let limit = params.number("limit").ok().flatten().unwrap_or(10).clamp(1, 100);
    let limit = usize::try_from(limit).unwrap_or(10);
    let after = params.get("starting_after");
    let bound = |name: &str| params.number(&format!("created[{name}]")).ok().flatten();
    let (least, below) = (bound("gte").unwrap_or(i64::MIN), bound("lt").unwrap_or(i64::MAX));
    let most = bound("lte").unwrap_or(i64::MAX);
    let mut rest = all
        .into_iter()
        .skip_while(|one| after.is_some_and(|after| one.get("id").and_then(Value::as_str) != Some(after)))
        .skip(usize::from(after.is_some()))
        .filter(|one| {
            let created = one.get("created").and_then(Value::as_i64).unwrap_or(0);
            (least..below).contains(&created) && created <= most
        });
    let data: Vec<Value> = rest.by_ref().take(limit).collect();
    let has_more = rest.next().is_some();
    json!({ "object": "list", "url": url, "has_more": has_more, "data": data })
}
