//! Refunds.

use std::collections::BTreeMap;

use serde_json::json;

use crate::alipay::call::{Answer, Call};
use crate::alipay::trade::{find, not_there};
use crate::alipay::{amount, param, text, yuan};
use crate::app::Simulator;
use crate::order::Order;
use crate::refund::{MadeRefund, NewRefund, Refund, RefundStatus, RefundTerms};

/// What the book knows a refund by: a number is one refund of one trade.
fn key(order: &Order, request_no: &str) -> String {
    format!("{}/{request_no}", order.key)
}

/// The transaction that a call is about: the one it names, else the first.
fn transaction<'a>(call: &'a Call, order: &'a Order) -> Option<&'a str> {
    let first = order.charges.first().map(|charge| charge.channel_txn_id.as_str());
    param(call, "trade_no").or(first).filter(|_| first.is_some())
}

pub(super) fn create(simulator: &Simulator, call: &Call) -> Answer {
    let Some(order) = find(simulator, call) else { return not_there() };
    let Some(txn) = transaction(call, &order) else {
        return Answer::failed("ACQ.TRADE_STATUS_ERROR", "交易状态不合法");
    };
    let Some(amount) = amount(call, "refund_amount") else {
        return Answer::failed("ACQ.INVALID_PARAMETER", "refund_amount must be yuan");
    };
    // Without a number of its own, the trade is given back once, and whole.
    let request_no = param(call, "out_request_no").unwrap_or(txn).to_owned();
    let terms = RefundTerms {
        refund_no: request_no.clone(),
        pay_no: order.terms.pay_no.clone(),
        channel_txn_id: txn.to_owned(),
        amount,
        currency: "CNY".to_owned(),
        // Only the amount is compared with that of a repeat.
        reason: String::new(),
        notify_url: order.terms.notify_url.clone(),
        metadata: BTreeMap::new(),
    };
    let asked = NewRefund { owner: order.owner.clone(), key: key(&order, &request_no), terms };
    match simulator.book.refund(asked, simulator.clock.now()) {
        MadeRefund::New(refund) => {
            simulator.refunded(&refund);
            let changed = refund.status == RefundStatus::Succeeded;
            told(simulator, &order, &refund, changed).befallen(0, refund.fate.fault)
        }
        MadeRefund::Same(refund) => told(simulator, &order, &refund, false),
        MadeRefund::TermsDiffer => Answer::failed("ACQ.DISCORDANT_REPEAT_REQUEST", "请求信息不一致"),
        MadeRefund::Exceeds => Answer::failed("ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", "退款金额超限"),
        MadeRefund::NoTransaction => not_there(),
        MadeRefund::Full => Answer::refused("40005", "isv.call-limited", "no more refunds are taken"),
        MadeRefund::FailedBeforeCommit => Answer::failed("ACQ.SYSTEM_ERROR", "系统错误"),
    }
}

/// The answer to a refund: whether money moved by this very call, and how much went back so far.
fn told(simulator: &Simulator, order: &Order, refund: &Refund, changed: bool) -> Answer {
    Answer::well(json!({
        "trade_no": refund.terms.channel_txn_id,
        "out_trade_no": order.terms.pay_no,
        "buyer_logon_id": "sim***@example.com",
        "buyer_user_id": "2088999999999999",
        "fund_change": if changed { "Y" } else { "N" },
        "refund_fee": yuan(simulator.refunded_of(order)),
        "send_back_fee": yuan(if changed { refund.terms.amount } else { 0 }),
    }))
}

pub(super) fn query(simulator: &Simulator, call: &Call) -> Answer {
    let Some(order) = find(simulator, call) else { return not_there() };
    let Some(request_no) = param(call, "out_request_no") else {
        return Answer::refused("40001", "isv.missing-out_request_no", "out_request_no must be there");
    };
    let refund = simulator.book.query_refund(&call.side.owner, &key(&order, request_no));
    // A refund that is not done is as good as none: no word of its state is said.
    let Some(refund) = refund.filter(|refund| refund.status == RefundStatus::Succeeded) else {
        return Answer::well(json!({}));
    };
    Answer::well(json!({
        "trade_no": refund.terms.channel_txn_id,
        "out_trade_no": order.terms.pay_no,
        "out_request_no": refund.terms.refund_no,
        "total_amount": yuan(order.terms.amount),
        "refund_amount": yuan(refund.terms.amount),
        "refund_status": "REFUND_SUCCESS",
        "send_back_fee": yuan(refund.terms.amount),
        "gmt_refund_pay": text(refund.changed_at),
    }))
}
