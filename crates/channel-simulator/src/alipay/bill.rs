//! The day's statement: a link by a signed call, and the archive behind it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use encoding_rs::GBK;
use http::StatusCode;
use serde_json::json;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

use crate::alipay::call::{Answer, Call};
use crate::alipay::{Side, param, text, yuan};
use crate::app::Simulator;
use crate::archive::zip;
use crate::ids::in_china;
use crate::order::Order;
use crate::refund::{Refund, RefundStatus};

const HEADER: &str = "支付宝交易号,商户订单号,业务类型,商品名称,创建时间,完成时间,门店编号,门店名称,操作员,终端号,对方账户,\
订单金额（元）,商家实收（元）,支付宝红包（元）,集分宝（元）,支付宝优惠（元）,商家优惠（元）,券核销金额（元）,券名称,\
商家红包消费金额（元）,卡消费金额（元）,退款批次号/请求号,服务费（元）,分润（元）,备注";

/// Gives a link. Unlike the real channel, today's statement can be had too: a run rarely lasts until tomorrow.
pub(super) fn link(simulator: &Simulator, call: &Call) -> Answer {
    let now = simulator.clock.now();
    if param(call, "bill_type") != Some("trade") {
        return Answer::refused("40002", "isv.invalid-arguments", "only bill_type trade is made here");
    }
    let date = param(call, "bill_date")
        .and_then(|text| Date::parse(text, format_description!("[year]-[month]-[day]")).ok())
        .filter(|date| *date <= in_china(now).date());
    let Some(date) = date else {
        return Answer::refused("40002", "isv.invalid-arguments", "bill_date must be a day that has begun");
    };
    let Some(file) = statement(simulator, &call.side, date) else {
        return Answer::failed("isp.bill_not_exist", "账单不存在");
    };
    let name = format!("{}_{}_业务明细.csv", call.side.seller_id, date.to_string().replace('-', ""));
    let (name, file) = (GBK.encode(&name).0, GBK.encode(&file).0);
    let token = simulator.links.give(Bytes::from(zip(&[(&name, &file)])), now);
    Answer::well(
        json!({ "bill_download_url": format!("{}/alipay/bill.zip?token={token}", simulator.public_url) }),
    )
}

/// The archive, for whoever has the link while it is good.
pub(super) async fn download(
    State(simulator): State<Arc<Simulator>>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let file = query.get("token").and_then(|token| simulator.links.follow(token, simulator.clock.now()));
    file.map_or_else(|| StatusCode::FORBIDDEN.into_response(), |file| Response::new(Body::from(file)))
}

fn statement(simulator: &Simulator, side: &Side, date: Date) -> Option<String> {
    let (mut lines, mut paid, mut back) = (Vec::new(), (0_u64, 0_i64), (0_u64, 0_i64));
    let of_day = |at: OffsetDateTime| in_china(at).date() == date;
    for order in simulator.book.newest(&side.owner, simulator.clock.now()) {
        for charge in order.charges.iter().filter(|charge| of_day(charge.at)) {
            lines.push(row(&order, &charge.channel_txn_id, charge.at, None));
            paid = (paid.0.saturating_add(1), paid.1.saturating_add(order.terms.amount));
        }
        let refunds = simulator.book.refunds_of(&order);
        let done = refunds.iter().filter(|refund| refund.status == RefundStatus::Succeeded);
        for refund in done.filter(|refund| of_day(refund.changed_at)) {
            lines.push(row(&order, &refund.terms.channel_txn_id, refund.changed_at, Some(refund)));
            back = (back.0.saturating_add(1), back.1.saturating_add(refund.terms.amount));
        }
    }
    let rule =
        "#-----------------------------------------业务明细列表----------------------------------------";
    (!lines.is_empty()).then(|| {
        format!(
            "#支付宝业务明细查询\r\n#账号：[{seller}0156]\r\n#起始日期：[{date}]   终止日期：[{date}]\r\n{rule}\r\n{HEADER}\r\n\
             {rows}\r\n#-----------------------------------------业务明细列表结束------------------------------------\r\n\
             #交易合计：{count}笔，商家实收共{sum}元\r\n#退款合计：{back_count}笔，商家实收退款共-{back_sum}元\r\n\
             #导出时间：[{now}]\r\n",
            seller = side.seller_id,
            rows = lines.join("\r\n"),
            count = paid.0,
            sum = yuan(paid.1),
            back_count = back.0,
            back_sum = yuan(back.1),
            now = text(simulator.clock.now()),
        )
    })
}

fn row(order: &Order, txn: &str, at: OffsetDateTime, refund: Option<&Refund>) -> String {
    let amount = match refund {
        None => yuan(order.terms.amount),
        Some(refund) => format!("-{}", yuan(refund.terms.amount)),
    };
    let zero = "0.00";
    let cells = [
        txn,
        &order.terms.pay_no,
        if refund.is_some() { "退款" } else { "交易" },
        &order.terms.subject,
        &text(order.created_at),
        &text(at),
        "",
        "",
        "",
        "",
        "*模拟(sim***@example.com)",
        &amount,
        &amount,
        zero,
        zero,
        zero,
        zero,
        zero,
        "",
        zero,
        zero,
        refund.map_or("", |refund| &refund.terms.refund_no),
        zero,
        zero,
        "",
    ];
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell}\t")).collect();
    cells.join(",")
}
