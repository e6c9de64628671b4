//! Orders: made by QR code or in a browser, asked for, closed.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::app::Simulator;
use crate::book::{Call as BookCall, Made};
use crate::fault::Answers;
use crate::order::{Form, NewOrder, Order, Status, Terms};
use crate::refund::RefundStatus;
use crate::wechatpay::call::{Answer, Call, authenticate};
use crate::wechatpay::{Deal, Side, text};

/// How long a code can be scanned, where the caller names no time.
const LIFE: Duration = Duration::hours(2);
/// Largest amount, fen.
const TOTAL_MAX: i64 = 100_000_000_000;

#[derive(Deserialize)]
struct Asked {
    appid: String,
    mchid: String,
    description: String,
    out_trade_no: String,
    notify_url: String,
    amount: Amount,
    time_expire: Option<String>,
    attach: Option<String>,
    scene_info: Option<SceneInfo>,
}

#[derive(Deserialize)]
struct Amount {
    total: i64,
    currency: Option<String>,
}

#[derive(Deserialize)]
struct SceneInfo {
    #[serde(rename = "payer_client_ip")]
    _payer_client_ip: String,
    h5_info: Option<H5Info>,
}

#[derive(Deserialize)]
struct H5Info {
    #[serde(rename = "type")]
    _kind: String,
}

pub(super) async fn native(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    create(&simulator, request, "NATIVE").await
}

pub(super) async fn h5(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    create(&simulator, request, "MWEB").await
}

async fn create(simulator: &Simulator, request: Request, trade_type: &'static str) -> Response {
    let call = match authenticate(simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let error = |status, code, message| Answer::error(status, code, message).signed(simulator, &call);
    let asked = match read(simulator, &call, trade_type) {
        Ok(asked) => asked,
        Err((code, message)) => return error(400, code, message),
    };
    let (order, new) = match simulator.book.make(asked, simulator.clock.now()) {
        Made::New(order) => (order, true),
        Made::Same(order) if order.status == Status::Created => (order, false),
        Made::Same(order) if order.status == Status::Paid => {
            return error(400, "ORDERPAID", "the order has been paid");
        }
        Made::Same(_) => return error(400, "ORDER_CLOSED", "the order has been closed"),
        Made::TermsDiffer => return error(403, "OUT_TRADE_NO_USED", "the number exists on other terms"),
        Made::Expired => return error(400, "PARAM_ERROR", "time_expire is in the past"),
        Made::Full => return error(429, "FREQUENCY_LIMITED", "no more orders are taken"),
        Made::FailedBeforeCommit => return error(500, "SYSTEM_ERROR", "nothing was done"),
    };
    let page = format!("{}/pay/{}", simulator.public_url, order.key);
    let name = if trade_type == "NATIVE" { "code_url" } else { "h5_url" };
    let truth = Answer::well(json!({ name: page }));
    if !new {
        return truth.signed(simulator, &call);
    }
    simulator.made(&order);
    let answers = Answers {
        truth: || truth.signed(simulator, &call),
        failed: || error(500, "SYSTEM_ERROR", "the order may exist"),
        spoilt: || truth.spoilt(simulator, &call),
    };
    answers.befall(simulator, order.fate.create_delay_ms, order.fate.create_fault).await
}

type Wrong = (&'static str, &'static str);

fn read(simulator: &Simulator, call: &Call, trade_type: &'static str) -> Result<NewOrder, Wrong> {
    let param = |message| ("PARAM_ERROR", message);
    let asked: Asked = serde_json::from_slice(&call.body)
        .map_err(|_| param("the body is not an order in JSON with all its fields"))?;
    if asked.mchid != call.side.mchid || asked.appid != call.side.appid {
        return Err(("APPID_MCHID_NOT_MATCH", "appid and mchid are not those of the caller"));
    }
    if !is_number(&asked.out_trade_no) {
        return Err(param("out_trade_no must be 6 to 32 letters, digits, '_', '-' or '*'"));
    }
    if asked.description.is_empty() || asked.description.chars().count() > 127 {
        return Err(param("description must have 1 to 127 characters"));
    }
    if !(1..=TOTAL_MAX).contains(&asked.amount.total) {
        return Err(param("amount.total must be whole fen, 1 at least"));
    }
    if asked.amount.currency.as_deref().is_some_and(|currency| currency != "CNY") {
        return Err(param("amount.currency must be CNY"));
    }
    let scene = asked.scene_info.as_ref().and_then(|scene| scene.h5_info.as_ref());
    if trade_type == "MWEB" && scene.is_none() {
        return Err(param("scene_info must be there with h5_info"));
    }
    match reqwest::Url::parse(&asked.notify_url) {
        Ok(url) if url.query().is_none() => {}
        Ok(_) | Err(_) => return Err(param("notify_url must be an address without a query")),
    }
    let expire_at = match &asked.time_expire {
        None => simulator.clock.now().saturating_add(LIFE),
        Some(text) => {
            OffsetDateTime::parse(text, &Rfc3339).map_err(|_| param("time_expire is not RFC 3339"))?
        }
    };
    Ok(NewOrder {
        owner: call.side.owner.clone(),
        key: asked.out_trade_no.clone(),
        form: Form::WechatPay(Deal { trade_type, attach: asked.attach }),
        terms: Terms {
            merchant_id: String::new(),
            pay_no: asked.out_trade_no,
            amount: asked.amount.total,
            currency: "CNY".to_owned(),
            subject: asked.description,
            expire_at,
            notify_url: asked.notify_url,
        },
    })
}

fn is_number(text: &str) -> bool {
    (6..=32).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'*'))
}

pub(super) async fn query(
    State(simulator): State<Arc<Simulator>>,
    Path(no): Path<String>,
    request: Request,
) -> Response {
    asked_for(&simulator, request, |order| order.terms.pay_no == no, &no).await
}

pub(super) async fn query_by_id(
    State(simulator): State<Arc<Simulator>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let has = |order: &Order| order.charges.iter().any(|charge| charge.channel_txn_id == id);
    asked_for(&simulator, request, has, &id).await
}

async fn asked_for(
    simulator: &Simulator,
    request: Request,
    is_it: impl FnOnce(&Order) -> bool + Send,
    name: &str,
) -> Response {
    let call = match authenticate(simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    if call.param("mchid") != Some(call.side.mchid.as_str()) {
        return Answer::error(400, "PARAM_ERROR", "mchid must be the caller's").signed(simulator, &call);
    }
    let order = simulator.book.call(&call.side.owner, name, BookCall::Query, simulator.clock.now());
    match order.filter(is_it) {
        Some(order) => Answer::well(show(simulator, &call.side, &order)).signed(simulator, &call),
        None => Answer::error(404, "ORDER_NOT_EXIST", "no such order").signed(simulator, &call),
    }
}

fn show(simulator: &Simulator, side: &Side, order: &Order) -> Value {
    let refunds = simulator.book.refunds_of(order);
    let refunded = refunds.iter().any(|refund| refund.status != RefundStatus::Failed);
    let (state, text) = match order.status {
        Status::Created => ("NOTPAY", "订单未支付"),
        Status::Paid if refunded => ("REFUND", "订单发生过退款"),
        Status::Paid => ("SUCCESS", "支付成功"),
        Status::Closed => ("CLOSED", "订单已关闭"),
        Status::Failed => ("PAYERROR", "支付失败"),
    };
    transaction(side, order, order.charges.first(), (state, text))
}

/// A transaction, as answers and notices carry it.
pub(super) fn transaction(
    side: &Side,
    order: &Order,
    charge: Option<&crate::order::Charge>,
    (state, desc): (&str, &str),
) -> Value {
    let mut shown = json!({
        "appid": side.appid,
        "mchid": side.mchid,
        "out_trade_no": order.terms.pay_no,
        "trade_state": state,
        "trade_state_desc": desc,
        "amount": { "total": order.terms.amount, "currency": "CNY" },
    });
    let Form::WechatPay(deal) = &order.form else { return shown };
    let Some(map) = shown.as_object_mut() else { return shown };
    if let Some(attach) = &deal.attach {
        map.insert("attach".to_owned(), json!(attach));
    }
    if let Some(charge) = charge {
        map.insert("transaction_id".to_owned(), json!(charge.channel_txn_id));
        map.insert("trade_type".to_owned(), json!(deal.trade_type));
        map.insert("bank_type".to_owned(), json!("OTHERS"));
        map.insert("success_time".to_owned(), json!(text(charge.at)));
        map.insert("payer".to_owned(), json!({ "openid": "oSimulatedPayer000000000000" }));
        let amount = json!({
            "total": order.terms.amount, "payer_total": order.terms.amount,
            "currency": "CNY", "payer_currency": "CNY",
        });
        map.insert("amount".to_owned(), amount);
    }
    shown
}

pub(super) async fn close(
    State(simulator): State<Arc<Simulator>>,
    Path(no): Path<String>,
    request: Request,
) -> Response {
    let call = match authenticate(&simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let error = |status, code, message| Answer::error(status, code, message).signed(&simulator, &call);
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    if body.get("mchid").and_then(Value::as_str) != Some(call.side.mchid.as_str()) {
        return error(400, "PARAM_ERROR", "mchid must be the caller's");
    }
    let now = simulator.clock.now();
    let before = simulator.book.find(&no, now).filter(|order| order.terms.pay_no == no);
    let after =
        before.as_ref().and_then(|_| simulator.book.call(&call.side.owner, &no, BookCall::Close, now));
    match (before.map(|order| order.status), after) {
        (Some(Status::Closed), Some(_)) => error(400, "ORDER_CLOSED", "the order has been closed"),
        (_, Some(order)) if order.status == Status::Closed => {
            Answer { status: 204, json: None }.signed(&simulator, &call)
        }
        (_, Some(order)) if order.status == Status::Paid => {
            error(400, "ORDERPAID", "the order has been paid")
        }
        (_, Some(_)) => error(403, "TRADE_ERROR", "the order has failed"),
        (_, None) => error(404, "ORDER_NOT_EXIST", "no such order"),
    }
}
