//! Signed events.

use std::sync::Arc;

use aws_lc_rs::hmac;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::app::Simulator;
use crate::control_types::Signature;
use crate::fate::Lie;
use crate::letter::{Event, Sealed};
use crate::order::Order;
use crate::refund::RefundStatus;
use crate::stripe::show;
use crate::stripe::{API_VERSION, Kind, Side};

/// An event that is signed anew for each sending.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    side: Arc<Side>,
    body: Bytes,
}

impl Letter {
    pub(crate) fn seal(&self, at: OffsetDateTime, signature: Signature) -> Sealed {
        let time = at.unix_timestamp();
        let covered = match signature {
            Signature::Valid | Signature::Missing => self.body.as_ref(),
            Signature::Wrong | Signature::Probe => b"something else",
        };
        let signed = [format!("{time}.").as_bytes(), covered].concat();
        let mut value = format!("t={time}");
        for secret in &self.side.webhook_secrets {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
            value.push_str(",v1=");
            value.push_str(&hex::encode(hmac::sign(&key, &signed)));
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        if signature != Signature::Missing {
            headers.insert(
                "stripe-signature",
                HeaderValue::from_str(&value).expect("digits and hex can stand in a header"),
            );
        }
        Sealed { headers, body: self.body.clone() }
    }
}

/// The events about what happened. A payment through a session is told twice: by the session and by its intent.
pub(crate) fn letters(
    simulator: &Simulator,
    side: &Arc<Side>,
    order: &Order,
    event: Event<'_>,
    lie: Option<Lie>,
) -> Vec<Letter> {
    let Some(object) = show::object(order) else { return Vec::new() };
    let session = || show::session(side, order, object, &simulator.public_url);
    let unpaid = |status: &str| {
        let mut intent = show::intent(side, order, object, None);
        set(&mut intent, "status", json!(status));
        intent
    };
    let told: Vec<(&str, Value)> = match (event, object.kind) {
        (Event::Paid(charge), kind) => {
            let paid = ("payment_intent.succeeded", show::intent(side, order, object, Some(charge)));
            let mut done = session();
            set(&mut done, "payment_intent", json!(charge.channel_txn_id));
            match kind {
                Kind::Intent => vec![paid],
                Kind::Session => vec![("checkout.session.completed", done), paid],
            }
        }
        (Event::Closed | Event::Failed, Kind::Intent) => {
            vec![("payment_intent.canceled", unpaid("canceled"))]
        }
        (Event::Closed | Event::Failed, Kind::Session) => {
            let mut session = session();
            set(&mut session, "status", json!("expired"));
            set(&mut session, "payment_status", json!("unpaid"));
            set(&mut session, "payment_intent", Value::Null);
            vec![("checkout.session.expired", session)]
        }
        (Event::Declined, kind) => {
            let mut intent = unpaid("requires_payment_method");
            if kind == Kind::Session {
                set(&mut intent, "id", json!(simulator.book.ids().id("pi_3")));
            }
            let error = json!({ "type": "card_error", "code": "card_declined", "message": "Your card was declined." });
            set(&mut intent, "last_payment_error", error);
            vec![("payment_intent.payment_failed", intent)]
        }
        (Event::Refund { refund, total, .. }, _) => {
            let shown = show::refund(refund);
            let charge = show::charge(side, order, object, &refund.terms.channel_txn_id, total);
            match refund.status {
                RefundStatus::Succeeded => vec![("refund.updated", shown), ("charge.refunded", charge)],
                RefundStatus::Failed => vec![("refund.failed", shown)],
                RefundStatus::Accepted | RefundStatus::Abnormal => vec![("refund.updated", shown)],
            }
        }
    };
    told.into_iter()
        .map(|(kind, object)| {
            let body = envelope(simulator, side, kind, &object, lie);
            Letter { side: Arc::clone(side), body }
        })
        .collect()
}

fn set(json: &mut Value, name: &str, value: Value) {
    if let Some(map) = json.as_object_mut() {
        map.insert(name.to_owned(), value);
    }
}

fn envelope(simulator: &Simulator, side: &Side, kind: &str, object: &Value, lie: Option<Lie>) -> Bytes {
    // An event of the other mode is Stripe's way of being for somebody else.
    let livemode = side.livemode != (lie == Some(Lie::ForeignAccount));
    let mut object = object.clone();
    if object.get("livemode").is_some() {
        set(&mut object, "livemode", json!(livemode));
    }
    let event = json!({
        "id": simulator.book.ids().id("evt_1"),
        "object": "event",
        "api_version": API_VERSION,
        "created": simulator.clock.now().unix_timestamp(),
        "data": { "object": object },
        "livemode": livemode,
        "pending_webhooks": 1,
        "request": { "id": null, "idempotency_key": null },
        "type": kind,
    });
    Bytes::from(event.to_string())
}
