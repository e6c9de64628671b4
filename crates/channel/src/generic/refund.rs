//! Refunds on the wire: what is asked, and how an answer about a refund is read.

use bytes::Bytes;
use pay_types::RefundNo;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::client::{Answer, unknown};
use super::states;
use crate::port::{CreateRefund, Outcome, RefundTold, StatedAmount};
use crate::strict_json;

/// Longest number of a refund that the channel may give; longer ones fit no column.
pub(super) const CHANNEL_REFUND_NO_BYTES_MAX: usize = 128;

/// The body of the call. A repeat is the same bytes.
pub(super) fn body(refund: &CreateRefund) -> Bytes {
    let body = json!({
        "refund_no": refund.refund_no.as_str(),
        "pay_no": refund.pay_no.as_str(),
        "channel_txn_id": refund.channel_txn_id.as_str(),
        "amount": refund.amount.minor(),
        "currency": refund.amount.currency().code(),
        "reason": refund.reason,
        "notify_url": refund.notify_url,
    });
    Bytes::from(body.to_string())
}

/// What an answer says about the refund of this number.
pub(super) fn told(answer: &Answer, refund_no: &RefundNo) -> Outcome<RefundTold> {
    let body = &answer.body;
    if !answer.status.is_success() {
        let code = strict_json::text(body, "code").unwrap_or_default();
        if code == "TERMS_DIFFER" {
            // A refund stands under our number, on terms that are not ours: money may have gone back, so it is no refusal.
            return unknown("the number stands for a refund on other terms");
        }
        let message = strict_json::text(body, "message").unwrap_or_default();
        return states::refused(answer.status.as_u16(), code, message);
    }
    if strict_json::text(body, "refund_no") != Some(refund_no.as_str()) {
        return unknown("the answer is about another refund");
    }
    let Some(word) = strict_json::text(body, "status").and_then(states::refund_word) else {
        return unknown("the refund has a status that we do not know");
    };
    let minor = body.get("amount").and_then(Value::as_i64);
    let currency = strict_json::text(body, "currency").map(str::to_owned);
    let amount = minor.zip(currency).map(|(minor, currency)| StatedAmount { minor, currency });
    if amount.is_none() {
        return unknown("a refund must say its amount and currency");
    }
    Outcome::Accepted(RefundTold {
        known: true,
        word: Some(word),
        channel_refund_no: strict_json::text(body, "channel_refund_no")
            .filter(|text| is_channel_refund_no(text))
            .map(str::to_owned),
        amount,
        occurred_at: strict_json::text(body, "occurred_at")
            .and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok()),
    })
}

fn is_channel_refund_no(text: &str) -> bool {
    (1..=CHANNEL_REFUND_NO_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}
