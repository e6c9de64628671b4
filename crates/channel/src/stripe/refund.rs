//! Refunds.

use serde_json::Value;

use super::amount::to_stripe;
use super::client::{Client, not_sayable};
use super::exchange::Ask;
use super::form::Form;
use super::object;
use super::told::{self, unknown};
use crate::port::{CreateRefund, FindRefund, Outcome, RefundTold};

/// Refunds of one transaction in one answer, the most that the channel sends.
const LISTED_MAX: &str = "100";

impl Client {
    pub(super) async fn make_refund(&self, refund: &CreateRefund) -> Outcome<RefundTold> {
        let Some(amount) = to_stripe(refund.amount) else { return not_sayable() };
        let form = Form::default()
            .put(&["payment_intent"], refund.channel_txn_id.as_str())
            .put(&["amount"], &amount.to_string())
            .put(&["metadata", "refund_no"], refund.refund_no.as_str())
            .put(&["metadata", "pay_no"], refund.pay_no.as_str())
            // The channel's own field knows three words, and ours is none of them.
            .put(&["metadata", "reason"], &refund.reason);
        let key = format!("refund:{}", refund.refund_no);
        match self.exchange.send(&self.settings, "/v1/refunds", Ask::Post(form, Some(key))).await {
            Ok(answer) if answer.status.is_success() => told::refund(&answer.body, &refund.refund_no),
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    /// By the channel's number of it; or among all refunds of the transaction, by ours. Never by amount: two refunds may
    /// have the same one.
    pub(super) async fn find_refund(&self, refund: &FindRefund) -> Outcome<RefundTold> {
        if let Some(id) = refund.channel_refund_no.as_deref().filter(|id| object::is_id(id, "")) {
            let path = format!("/v1/refunds/{id}");
            let body = self.get(&path, Form::default()).await;
            return body.and_then(|body| told::refund(&body, &refund.refund_no));
        }
        let query = Form::default()
            .put(&["payment_intent"], refund.channel_txn_id.as_str())
            .put(&["limit"], LISTED_MAX);
        self.get("/v1/refunds", query).await.and_then(|body| {
            let Some(listed) = body.get("data").and_then(Value::as_array) else {
                return unknown("the answer is no list");
            };
            let ours = listed
                .iter()
                .filter_map(Value::as_object)
                .find(|told| object::has_number(told, "refund_no", refund.refund_no.as_str()));
            match (ours, body.get("has_more").and_then(Value::as_bool)) {
                (Some(told), _) => told::refund(told, &refund.refund_no),
                // The list is complete, and not behind: the channel has no refund under this number.
                (None, Some(false)) => Outcome::Accepted(RefundTold::not_known()),
                (None, Some(true) | None) => {
                    unknown("the transaction has more refunds than one answer holds")
                }
            }
        })
    }
}
