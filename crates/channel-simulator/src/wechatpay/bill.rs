//! The day's statement: a link by a signed call, and the file behind it.

use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use serde_json::json;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

use crate::app::Simulator;
use crate::archive::gzip;
use crate::ids::in_china;
use crate::order::{Form, Order};
use crate::refund::{Refund, RefundStatus};
use crate::wechatpay::Side;
use crate::wechatpay::call::{Answer, authenticate};

const HEADER: &str = "交易时间,公众账号ID,商户号,特约商户号,设备号,微信订单号,商户订单号,用户标识,交易类型,交易状态,\
付款银行,货币种类,应结订单金额,代金券金额,微信退款单号,商户退款单号,退款金额,充值券退款金额,退款类型,退款状态,商品名称,\
商户数据包,手续费,费率,订单金额,申请退款金额,费率备注";
const SUMMARY: &str =
    "总交易单数,应结订单总金额,退款总金额,充值券退款总金额,手续费总金额,订单总金额,申请退款总金额";

/// Gives a link. Unlike the real channel, today's statement can be had too: a run rarely lasts until tomorrow.
pub(super) async fn link(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    let call = match authenticate(&simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let now = simulator.clock.now();
    let date = call
        .param("bill_date")
        .and_then(|text| Date::parse(text, format_description!("[year]-[month]-[day]")).ok());
    let Some(date) = date.filter(|date| *date <= in_china(now).date()) else {
        let answer = Answer::error(400, "PARAM_ERROR", "bill_date must be a day that has begun");
        return answer.signed(&simulator, &call);
    };
    if !matches!(call.param("bill_type"), None | Some("ALL")) {
        return Answer::error(400, "PARAM_ERROR", "only bill_type ALL is made here")
            .signed(&simulator, &call);
    }
    let Some(file) = statement(&simulator, &call.side, date) else {
        return Answer::error(400, "NO_STATEMENT_EXIST", "nothing happened that day")
            .signed(&simulator, &call);
    };
    // The hash is that of the file itself, whether it is sent as it is or in gzip.
    let hash = hex::encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, file.as_bytes()));
    let sent = match call.param("tar_type") {
        Some("GZIP") => gzip(file.as_bytes()),
        Some(_) | None => file.into_bytes(),
    };
    let token = simulator.links.give(Bytes::from(sent), now);
    let url = format!("{}/v3/billdownload/file?token={token}", simulator.public_url);
    Answer::well(json!({ "hash_type": "SHA1", "hash_value": hash, "download_url": url }))
        .signed(&simulator, &call)
}

/// The file; the call is signed, and the answer is not.
pub(super) async fn download(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    let call = match authenticate(&simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let file = call.param("token").and_then(|token| simulator.links.follow(token, simulator.clock.now()));
    match file {
        Some(file) => Response::new(Body::from(file)),
        None => Answer::error(404, "RESOURCE_NOT_EXISTS", "the link has ended").signed(&simulator, &call),
    }
}

/// The day's rows, payments and refunds; `None` when there is none.
fn statement(simulator: &Simulator, side: &Side, date: Date) -> Option<String> {
    let mut out = format!("\u{feff}{HEADER}\r\n");
    let (mut rows, mut paid, mut back) = (0_u64, 0_i64, 0_i64);
    let of_day = |at: OffsetDateTime| in_china(at).date() == date;
    for order in simulator.book.newest(&side.owner, simulator.clock.now()) {
        for charge in order.charges.iter().filter(|charge| of_day(charge.at)) {
            row(&mut out, side, &order, (charge.at, &charge.channel_txn_id), None);
            rows = rows.saturating_add(1);
            paid = paid.saturating_add(order.terms.amount);
        }
        let refunds = simulator.book.refunds_of(&order);
        let done = refunds.iter().filter(|refund| refund.status == RefundStatus::Succeeded);
        for refund in done.filter(|refund| of_day(refund.changed_at)) {
            let about = (refund.changed_at, refund.terms.channel_txn_id.as_str());
            row(&mut out, side, &order, about, Some(refund));
            rows = rows.saturating_add(1);
            back = back.saturating_add(refund.terms.amount);
        }
    }
    let (paid, back) = (yuan(paid), yuan(back));
    write!(out, "{SUMMARY}\r\n`{rows},`{paid},`{back},`0.00,`0.00000,`{paid},`{back}\r\n").ok()?;
    (rows > 0).then_some(out)
}

fn row(
    out: &mut String,
    side: &Side,
    order: &Order,
    (at, txn): (OffsetDateTime, &str),
    refund: Option<&Refund>,
) {
    let (trade_type, attach) = match &order.form {
        Form::WechatPay(deal) => (deal.trade_type, deal.attach.as_deref().unwrap_or_default()),
        Form::Generic | Form::Alipay(_) | Form::Stripe(_) => ("", ""),
    };
    let time = in_china(at)
        .format(format_description!("[year]-[month]-[day] [hour]:[minute]:[second]"))
        .unwrap_or_default();
    let amount = yuan(order.terms.amount);
    let back = refund.map_or_else(|| "0.00".to_owned(), |refund| yuan(refund.terms.amount));
    let total = if refund.is_some() { "0.00" } else { amount.as_str() };
    let cells = [
        time.as_str(),
        &side.appid,
        &side.mchid,
        "0",
        "",
        txn,
        &order.terms.pay_no,
        "oSimulatedPayer000000000000",
        trade_type,
        if refund.is_some() { "REFUND" } else { "SUCCESS" },
        "OTHERS",
        "CNY",
        total,
        "0.00",
        refund.map_or("0", |refund| &refund.channel_refund_no),
        refund.map_or("0", |refund| &refund.terms.refund_no),
        &back,
        "0.00",
        if refund.is_some() { "ORIGINAL" } else { "" },
        if refund.is_some() { "SUCCESS" } else { "" },
        &order.terms.subject,
        attach,
        "0.00000",
        "0.60%",
        total,
        &back,
        "",
    ];
    let line: Vec<String> = cells.iter().map(|cell| format!("`{cell}")).collect();
    out.push_str(&line.join(","));
    out.push_str("\r\n");
}

/// Fen as yuan with two digits.
fn yuan(fen: i64) -> String {
    let (whole, rest) = (fen.checked_div(100).unwrap_or(0), fen.checked_rem(100).unwrap_or(0));
    format!("{whole}.{:02}", rest.unsigned_abs())
}
