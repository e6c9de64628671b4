//! Notices: signed forms, under one `notify_id` over all sendings.

use std::sync::Arc;

use bytes::Bytes;
use encoding_rs::GBK;
use http::{HeaderMap, HeaderValue, header};
use serde_json::json;
use time::OffsetDateTime;

use crate::alipay::trade::status;
use crate::alipay::{Side, text, yuan};
use crate::app::Simulator;
use crate::control_types::Signature;
use crate::fate::Lie;
use crate::form::encoded;
use crate::letter::{Event, Sealed};
use crate::order::{Form, Order};
use crate::refund::RefundStatus;

/// A notice without the time of its sending and without its signature.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    side: Arc<Side>,
    fields: Vec<(String, String)>,
    gbk: bool,
}

impl Letter {
    pub(crate) fn seal(&self, at: OffsetDateTime, signature: Signature) -> Sealed {
        let mut fields = self.fields.clone();
        fields.push(("notify_time".to_owned(), text(at)));
        fields.sort();
        // Names are ASCII; values are signed and sent in the charset that the notice names.
        let bytes = |value: &str| match self.gbk {
            true => GBK.encode(value).0.into_owned(),
            false => value.as_bytes().to_vec(),
        };
        // The signature's kind is not signed.
        let covered: Vec<Vec<u8>> =
            fields.iter().map(|(name, value)| [name.as_bytes(), b"=", &bytes(value)].concat()).collect();
        let sign = match signature {
            Signature::Valid | Signature::Missing => self.side.key.sign(&covered.join(&b'&')),
            Signature::Wrong | Signature::Probe => self.side.key.sign(b"something else"),
        };
        fields.push(("sign_type".to_owned(), "RSA2".to_owned()));
        if signature != Signature::Missing {
            fields.push(("sign".to_owned(), sign));
        }
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(&bytes(value)))).collect();
        let kind = match self.gbk {
            true => "application/x-www-form-urlencoded; charset=GBK",
            false => "application/x-www-form-urlencoded; charset=utf-8",
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        Sealed { headers, body: Bytes::from(pairs.join("&")) }
    }
}

/// The notice about an event. What it is about is said by the marks on it as much as by `trade_status`.
pub(crate) fn letter(
    simulator: &Simulator,
    side: &Arc<Side>,
    order: &Order,
    event: Event<'_>,
    lie: Option<Lie>,
) -> Option<Letter> {
    let gbk = matches!(&order.form, Form::Alipay(trade) if trade.gbk);
    let mut fields = common(simulator, side, order, lie == Some(Lie::ForeignAccount));
    fields.push(("charset".to_owned(), if gbk { "GBK" } else { "utf-8" }.to_owned()));
    let amount = yuan(order.terms.amount);
    let mut put = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
    match event {
        Event::Paid(charge) => {
            put("trade_status", "TRADE_SUCCESS");
            put("trade_no", &charge.channel_txn_id);
            put("gmt_payment", &text(charge.at));
            for name in ["receipt_amount", "invoice_amount", "buyer_pay_amount"] {
                put(name, &amount);
            }
            put("point_amount", "0.00");
            put("buyer_id", "2088999999999999");
            put("buyer_logon_id", "sim***@example.com");
            put("fund_bill_list", &json!([{ "amount": amount, "fundChannel": "ALIPAYACCOUNT" }]).to_string());
        }
        // The channel has no failure of its own: such a trade ends as one that was never paid.
        Event::Closed | Event::Failed => {
            // A late one about a paid trade says what was true before the payment.
            let closed = if order.charges.is_empty() { order.changed_at } else { order.created_at };
            put("trade_status", "TRADE_CLOSED");
            put("gmt_close", &text(closed));
            // A trade has its number before it is paid.
            put(
                "trade_no",
                &first_transaction(order)
                    .unwrap_or_else(|| simulator.book.ids().transaction(order, order.created_at)),
            );
        }
        Event::Refund { refund, total, returned } => {
            put("trade_no", &refund.terms.channel_txn_id);
            put("gmt_payment", &text(order.charges.first().map_or(order.changed_at, |charge| charge.at)));
            put("out_biz_no", &refund.terms.refund_no);
            match refund.status {
                RefundStatus::Succeeded => {
                    put("trade_status", status(order, total));
                    put("refund_fee", &yuan(total));
                    put("send_back_fee", &yuan(refund.terms.amount));
                    put(
                        "gmt_refund",
                        &format!("{}.{:03}", text(refund.changed_at), refund.changed_at.millisecond()),
                    );
                }
                // The bank could not credit the buyer after all.
                RefundStatus::Failed if returned => {
                    put("trade_status", "TRADE_SUCCESS");
                    put("dback_status", "F");
                    put("dback_amount", &yuan(refund.terms.amount));
                }
                RefundStatus::Accepted | RefundStatus::Failed | RefundStatus::Abnormal => return None,
            }
        }
        Event::Declined => return None,
    }
    Some(Letter { side: Arc::clone(side), fields, gbk })
}

/// What every notice says.
fn common(simulator: &Simulator, side: &Side, order: &Order, foreign: bool) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
    put("notify_type", "trade_status_sync");
    put("notify_id", &simulator.book.ids().hex32());
    put("app_id", if foreign { "2021999999999999" } else { &side.app_id });
    put("auth_app_id", if foreign { "2021999999999999" } else { &side.app_id });
    put("seller_id", if foreign { "2088999999999998" } else { &side.seller_id });
    put("version", "1.0");
    put("out_trade_no", &order.terms.pay_no);
    put("subject", &order.terms.subject);
    put("total_amount", &yuan(order.terms.amount));
    put("gmt_create", &text(order.created_at));
    if let Some(serial) = &side.alipay_cert_sn {
        put("alipay_cert_sn", serial);
    }
    if let Form::Alipay(trade) = &order.form
        && let Some(params) = &trade.passback_params
    {
        put("passback_params", params);
    }
    fields
}

fn first_transaction(order: &Order) -> Option<String> {
    order.charges.first().map(|charge| charge.channel_txn_id.clone())
}
