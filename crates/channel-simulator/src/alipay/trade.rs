//! Asking for a trade, and closing it.

use serde_json::{Value, json};

use crate::alipay::call::{Answer, Call};
use crate::alipay::{param, text, yuan};
use crate::app::Simulator;
use crate::book::Call as BookCall;
use crate::order::{Order, Status};

/// The trade that a call names, by Alipay's number before ours, once the payer's side has met it.
pub(super) fn find(simulator: &Simulator, call: &Call) -> Option<Order> {
    let name = param(call, "trade_no").or_else(|| param(call, "out_trade_no"))?;
    let order = simulator.book.find(name, simulator.clock.now())?;
    (order.owner == call.side.owner && order.is_met()).then_some(order)
}

pub(super) fn not_there() -> Answer {
    Answer::failed("ACQ.TRADE_NOT_EXIST", "交易不存在")
}

pub(super) fn query(simulator: &Simulator, call: &Call) -> Answer {
    let now = simulator.clock.now();
    let found = find(simulator, call);
    let order =
        found.and_then(|order| simulator.book.call(&call.side.owner, &order.key, BookCall::Query, now));
    match order {
        Some(order) => Answer::well(show(simulator, &order)),
        None => not_there(),
    }
}

/// The state of a trade in Alipay's words.
pub(super) fn status(order: &Order, refunded: i64) -> &'static str {
    match order.status {
        Status::Created => "WAIT_BUYER_PAY",
        Status::Paid if refunded >= order.terms.amount => "TRADE_CLOSED",
        Status::Paid => "TRADE_SUCCESS",
        Status::Closed | Status::Failed => "TRADE_CLOSED",
    }
}

fn show(simulator: &Simulator, order: &Order) -> Value {
    let amount = yuan(order.terms.amount);
    let paid = if order.charges.is_empty() { "0.00" } else { amount.as_str() };
    let mut shown = json!({
        "out_trade_no": order.terms.pay_no,
        "trade_status": status(order, simulator.refunded_of(order)),
        "total_amount": amount,
        "receipt_amount": paid,
        "buyer_pay_amount": paid,
        "point_amount": "0.00",
        "invoice_amount": paid,
        "buyer_logon_id": "sim***@example.com",
        "buyer_user_id": "2088999999999999",
    });
    if let (Some(charge), Some(map)) = (order.charges.first(), shown.as_object_mut()) {
        map.insert("trade_no".to_owned(), json!(charge.channel_txn_id));
        map.insert("send_pay_date".to_owned(), json!(text(charge.at)));
        map.insert(
            "fund_bill_list".to_owned(),
            json!([{ "fund_channel": "ALIPAYACCOUNT", "amount": amount }]),
        );
    }
    shown
}

pub(super) fn close(simulator: &Simulator, call: &Call) -> Answer {
    let Some(before) = find(simulator, call) else { return not_there() };
    let now = simulator.clock.now();
    let Some(order) = simulator.book.call(&call.side.owner, &before.key, BookCall::Close, now) else {
        return not_there();
    };
    match (before.status, order.status) {
        (Status::Created, Status::Closed) => Answer::well(json!({ "out_trade_no": order.terms.pay_no })),
        (Status::Closed | Status::Failed, _) => Answer::failed("ACQ.TRADE_HAS_CLOSE", "交易已经关闭"),
        _ => Answer::failed("ACQ.REASON_TRADE_STATUS_INVALID", "交易状态不合法"),
    }
}
