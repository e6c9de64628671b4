//! Refunds.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::Simulator;
use crate::fault::Answers;
use crate::order::Status;
use crate::refund::{MadeRefund, NewRefund, Refund, RefundStatus, RefundTerms};
use crate::wechatpay::call::{Answer, Call, authenticate};
use crate::wechatpay::text;

#[derive(Deserialize)]
struct Asked {
    transaction_id: Option<String>,
    out_trade_no: Option<String>,
    out_refund_no: String,
    reason: Option<String>,
    notify_url: Option<String>,
    amount: Amount,
}

#[derive(Deserialize)]
struct Amount {
    refund: i64,
    total: i64,
    currency: String,
}

pub(super) async fn create(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    let call = match authenticate(&simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let error = |status, code, message| Answer::error(status, code, message).signed(&simulator, &call);
    let (asked, total) = match read(&simulator, &call) {
        Ok(asked) => asked,
        Err((status, code, message)) => return error(status, code, message),
    };
    let refund = match simulator.book.refund(asked, simulator.clock.now()) {
        MadeRefund::Same(refund) => {
            return Answer::well(show(&refund, total, "status")).signed(&simulator, &call);
        }
        MadeRefund::TermsDiffer => {
            return error(400, "INVALID_REQUEST", "the number exists on other terms");
        }
        MadeRefund::NoTransaction => return error(404, "RESOURCE_NOT_EXISTS", "no such transaction"),
        MadeRefund::Exceeds => return error(400, "INVALID_REQUEST", "less is left of the transaction"),
        MadeRefund::Full => return error(429, "FREQUENCY_LIMITED", "no more refunds are taken"),
        MadeRefund::FailedBeforeCommit => return error(500, "SYSTEM_ERROR", "nothing was done"),
        MadeRefund::New(refund) => refund,
    };
    simulator.refunded(&refund);
    let truth = Answer::well(show(&refund, total, "status"));
    let answers = Answers {
        truth: || truth.signed(&simulator, &call),
        failed: || error(500, "SYSTEM_ERROR", "the refund may exist"),
        spoilt: || truth.spoilt(&simulator, &call),
    };
    answers.befall(&simulator, 0, refund.fate.fault).await
}

type Wrong = (u16, &'static str, &'static str);

fn read(simulator: &Simulator, call: &Call) -> Result<(NewRefund, i64), Wrong> {
    let param = |message| (400, "PARAM_ERROR", message);
    let asked: Asked = serde_json::from_slice(&call.body)
        .map_err(|_| param("the body is not a refund in JSON with all its fields"))?;
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-|*@".contains(&byte);
    if !(1..=64).contains(&asked.out_refund_no.len()) || !asked.out_refund_no.bytes().all(is_letter) {
        return Err(param("out_refund_no must be 1 to 64 letters, digits or one of _-|*@"));
    }
    if asked.amount.currency != "CNY" || asked.amount.refund < 1 {
        return Err(param("amount.refund must be whole fen, 1 at least, and CNY"));
    }
    let name = asked.transaction_id.as_ref().or(asked.out_trade_no.as_ref());
    let name = name.ok_or_else(|| param("transaction_id or out_trade_no must be there"))?;
    let order = simulator.book.find(name, simulator.clock.now());
    let order = order.filter(|order| order.owner == call.side.owner);
    let order = order.ok_or((404, "RESOURCE_NOT_EXISTS", "no such order"))?;
    if order.status != Status::Paid && order.charges.is_empty() {
        return Err((403, "TRADE_ERROR", "the order has not been paid"));
    }
    if order.terms.amount != asked.amount.total {
        return Err((400, "INVALID_REQUEST", "amount.total is not that of the order"));
    }
    let first = order.charges.first().map(|charge| charge.channel_txn_id.clone());
    let channel_txn_id = asked.transaction_id.clone().or(first).unwrap_or_default();
    let terms = RefundTerms {
        refund_no: asked.out_refund_no.clone(),
        pay_no: order.terms.pay_no,
        channel_txn_id,
        amount: asked.amount.refund,
        currency: "CNY".to_owned(),
        reason: asked.reason.unwrap_or_default(),
        notify_url: asked.notify_url.unwrap_or_default(),
        metadata: BTreeMap::new(),
    };
    Ok((NewRefund { owner: order.owner, key: asked.out_refund_no, terms }, asked.amount.total))
}

pub(super) async fn query(
    State(simulator): State<Arc<Simulator>>,
    Path(no): Path<String>,
    request: Request,
) -> Response {
    let call = match authenticate(&simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let refund = simulator.book.query_refund(&call.side.owner, &no);
    let now = simulator.clock.now();
    let order = refund.as_ref().and_then(|refund| simulator.book.find(&refund.terms.channel_txn_id, now));
    match refund.zip(order) {
        Some((refund, order)) => {
            Answer::well(show(&refund, order.terms.amount, "status")).signed(&simulator, &call)
        }
        None => Answer::error(404, "RESOURCE_NOT_EXISTS", "no such refund").signed(&simulator, &call),
    }
}

/// A refund; answers call its state `status`, notices `refund_status`.
pub(super) fn show(refund: &Refund, total: i64, status_name: &str) -> Value {
    let status = match refund.status {
        RefundStatus::Accepted => "PROCESSING",
        RefundStatus::Succeeded => "SUCCESS",
        RefundStatus::Failed => "CLOSED",
        RefundStatus::Abnormal => "ABNORMAL",
    };
    let terms = &refund.terms;
    let mut shown = json!({
        "refund_id": refund.channel_refund_no,
        "out_refund_no": terms.refund_no,
        "transaction_id": terms.channel_txn_id,
        "out_trade_no": terms.pay_no,
        "user_received_account": "支付用户零钱",
        status_name: status,
        "amount": {
            "total": total, "refund": terms.amount, "payer_total": total, "payer_refund": terms.amount,
        },
    });
    let Some(map) = shown.as_object_mut() else { return shown };
    if refund.status == RefundStatus::Succeeded {
        map.insert("success_time".to_owned(), json!(text(refund.changed_at)));
    }
    if status_name == "status" {
        map.insert("channel".to_owned(), json!("ORIGINAL"));
        map.insert("funds_account".to_owned(), json!("AVAILABLE"));
        map.insert("create_time".to_owned(), json!(text(refund.created_at)));
        if let Some(amount) = map.get_mut("amount").and_then(Value::as_object_mut) {
            amount.insert("currency".to_owned(), json!("CNY"));
            amount.insert("settlement_total".to_owned(), json!(total));
            amount.insert("settlement_refund".to_owned(), json!(terms.amount));
            amount.insert("discount_refund".to_owned(), json!(0));
        }
    }
    shown
}
