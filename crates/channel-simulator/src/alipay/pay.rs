//! Payments by QR code and in a browser.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse as _, Response};
use http::StatusCode;
use serde_json::json;
use time::macros::format_description;
use time::{Duration, OffsetDateTime, PrimitiveDateTime, UtcOffset};

use crate::alipay::call::{Answer, Call};
use crate::alipay::{Trade, amount, param};
use crate::app::Simulator;
use crate::book::Made;
use crate::http::show_pay_page;
use crate::ids::in_china;
use crate::order::{Form, NewOrder, Order, Status, Terms};

/// How long a code can be scanned, where the caller names no time.
const LIFE: Duration = Duration::hours(2);

/// Makes an order and gives its code. The trade begins when the payer scans it.
pub(super) fn precreate(simulator: &Simulator, call: &Call) -> Answer {
    let asked = match read(simulator, call, false) {
        Ok(asked) => asked,
        Err(message) => return Answer::failed("ACQ.INVALID_PARAMETER", message),
    };
    match make(simulator, asked) {
        Ok((order, new)) => {
            let code = format!("{}/pay/{}", simulator.public_url, order.key);
            let well = Answer::well(json!({ "out_trade_no": order.terms.pay_no, "qr_code": code }));
            if new { well.befallen(order.fate.create_delay_ms, order.fate.create_fault) } else { well }
        }
        Err(answer) => answer,
    }
}

/// A payer's browser comes with a signed address: the order is made, and the page shows it.
pub(super) async fn page(simulator: &Arc<Simulator>, call: &Call) -> Response {
    let made = read(simulator, call, true)
        .map_err(|message| Answer::failed("ACQ.INVALID_PARAMETER", message))
        .and_then(|asked| {
            let number = asked.key.clone();
            match make(simulator, asked) {
                Ok((order, _)) => Ok(order.key),
                // The page tells what became of an order that has ended.
                Err(answer) => {
                    simulator.book.find(&number, simulator.clock.now()).map(|o| o.key).ok_or(answer)
                }
            }
        });
    match made {
        Ok(key) => show_pay_page(State(Arc::clone(simulator)), Path(key)).await,
        Err(_) => {
            let page = "<!doctype html><meta charset=\"utf-8\"><h1>This order cannot be paid<br>\
                        <small>订单信息有误，无法支付</small></h1>";
            (StatusCode::BAD_REQUEST, Html(page)).into_response()
        }
    }
}

fn make(simulator: &Simulator, asked: NewOrder) -> Result<(Order, bool), Answer> {
    match simulator.book.make(asked, simulator.clock.now()) {
        Made::New(order) => {
            simulator.made(&order);
            Ok((order, true))
        }
        Made::Same(order) if order.status == Status::Created => Ok((order, false)),
        Made::Same(order) if order.status == Status::Paid => {
            Err(Answer::failed("ACQ.TRADE_HAS_SUCCESS", "交易已被支付"))
        }
        Made::Same(_) => Err(Answer::failed("ACQ.TRADE_HAS_CLOSE", "交易已经关闭")),
        Made::TermsDiffer => Err(Answer::failed("ACQ.CONTEXT_INCONSISTENT", "交易信息被篡改")),
        Made::Expired => Err(Answer::failed("ACQ.INVALID_PARAMETER", "time_expire is in the past")),
        Made::Full => Err(Answer::refused("40005", "isv.call-limited", "no more orders are taken")),
        Made::FailedBeforeCommit => Err(Answer::failed("ACQ.SYSTEM_ERROR", "系统错误")),
    }
}

fn read(simulator: &Simulator, call: &Call, met: bool) -> Result<NewOrder, &'static str> {
    let number = param(call, "out_trade_no").filter(|text| is_number(text));
    let number = number.ok_or("out_trade_no must be 1 to 64 letters, digits or '_'")?;
    let total = amount(call, "total_amount").ok_or("total_amount must be 0.01 to 100000000.00")?;
    let subject = param(call, "subject").ok_or("subject must be there")?;
    if met && !matches!(param(call, "product_code"), Some("FAST_INSTANT_TRADE_PAY" | "QUICK_WAP_WAY")) {
        return Err("product_code must be that of the method");
    }
    let now = simulator.clock.now();
    let expire_at = match (param(call, "time_expire"), param(call, "timeout_express")) {
        (Some(text), _) => at(text).ok_or("time_expire must be yyyy-MM-dd HH:mm:ss")?,
        (None, Some(text)) => now.saturating_add(span(text).ok_or("timeout_express must be as 90m")?),
        (None, None) => now.saturating_add(LIFE),
    };
    let passback_params = param(call, "passback_params").map(str::to_owned);
    Ok(NewOrder {
        owner: call.side.owner.clone(),
        key: number.to_owned(),
        form: Form::Alipay(Trade { met, passback_params, gbk: call.gbk }),
        terms: Terms {
            merchant_id: String::new(),
            pay_no: number.to_owned(),
            amount: total,
            currency: "CNY".to_owned(),
            subject: subject.to_owned(),
            expire_at,
            notify_url: call.notify_url.clone(),
        },
    })
}

fn is_number(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A time in China; some clients leave the seconds out.
fn at(text: &str) -> Option<OffsetDateTime> {
    let whole = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    let short = format_description!("[year]-[month]-[day] [hour]:[minute]");
    let read =
        PrimitiveDateTime::parse(text, whole).or_else(|_| PrimitiveDateTime::parse(text, short)).ok()?;
    let china: UtcOffset = in_china(OffsetDateTime::UNIX_EPOCH).offset();
    Some(read.assume_offset(china))
}

fn span(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let count = text.strip_suffix(unit)?.parse::<i64>().ok().filter(|count| (1..=21_600).contains(count))?;
    match unit {
        'm' => Some(Duration::minutes(count)),
        'h' => Some(Duration::hours(count)),
        'd' => Some(Duration::days(count)),
        _ => None,
    }
}
