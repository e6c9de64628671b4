//! Notices: sealed anew and signed anew for each sending, under one id.

use std::sync::Arc;

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
use crate::wechatpay::call::Stamp;
use crate::wechatpay::refunds::show;
use crate::wechatpay::seal::sealed;
use crate::wechatpay::transactions::transaction;
use crate::wechatpay::{Side, text};

/// A notice before it is sealed.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    side: Arc<Side>,
    id: String,
    created: String,
    event_type: &'static str,
    /// `transaction` or `refund`.
    original_type: &'static str,
    summary: &'static str,
    plain: String,
}

impl Letter {
    pub(crate) fn seal(&self, at: OffsetDateTime, signature: Signature) -> Sealed {
        let mut resource = sealed(&self.side, self.original_type, self.plain.as_bytes());
        if let Some(resource) = resource.as_object_mut() {
            resource.insert("original_type".to_owned(), json!(self.original_type));
        }
        let body = json!({
            "id": self.id,
            "create_time": self.created,
            "resource_type": "encrypt-resource",
            "event_type": self.event_type,
            "summary": self.summary,
            "resource": resource,
        })
        .to_string();
        let key = self.side.key(self.side.notice_serial.as_deref());
        let stamp = Stamp::new(at.unix_timestamp());
        let genuine = key.key.sign(&stamp.covering(body.as_bytes()));
        let value = match signature {
            Signature::Valid | Signature::Missing => genuine,
            Signature::Wrong => key.key.sign(&stamp.covering(b"something else")),
            Signature::Probe => format!("WECHATPAY/SIGNTEST/{genuine}"),
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        stamp.put(&mut headers, &key.serial, &value);
        if signature == Signature::Missing {
            headers.remove("wechatpay-signature");
        }
        Sealed { headers, body: Bytes::from(body) }
    }
}

/// The notice about an event. Orders that were not paid are never told of.
pub(crate) fn letter(
    simulator: &Simulator,
    side: &Arc<Side>,
    order: &Order,
    event: Event<'_>,
    lie: Option<Lie>,
) -> Option<Letter> {
    let (event_type, original_type, summary, mut plain) = match event {
        Event::Paid(charge) => {
            let plain = transaction(side, order, Some(charge), ("SUCCESS", "支付成功"));
            ("TRANSACTION.SUCCESS", "transaction", "支付成功", plain)
        }
        Event::Refund { refund, .. } => {
            let (event_type, summary) = match refund.status {
                RefundStatus::Accepted => return None,
                RefundStatus::Succeeded => ("REFUND.SUCCESS", "退款成功"),
                RefundStatus::Failed => ("REFUND.CLOSED", "退款关闭"),
                RefundStatus::Abnormal => ("REFUND.ABNORMAL", "退款异常"),
            };
            let mut plain = show(refund, order.terms.amount, "refund_status");
            set(&mut plain, "mchid", &side.mchid);
            (event_type, "refund", summary, plain)
        }
        Event::Closed | Event::Failed | Event::Declined => return None,
    };
    if lie == Some(Lie::ForeignAccount) {
        set(&mut plain, "mchid", "1900009999");
        set(&mut plain, "appid", "wx9999999999999999");
    }
    Some(Letter {
        side: Arc::clone(side),
        id: simulator.book.ids().hex32(),
        created: text(simulator.clock.now()),
        event_type,
        original_type,
        summary,
        plain: plain.to_string(),
    })
}

fn set(json: &mut Value, name: &str, value: &str) {
    if let Some(map) = json.as_object_mut() {
        map.insert(name.to_owned(), json!(value));
    }
}
