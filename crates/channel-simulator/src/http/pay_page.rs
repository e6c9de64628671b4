//! The page that a payer opens: what is to be paid, and one button.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use pay_types::{Currency, Money};

use crate::app::Simulator;
use crate::control_types::PayOptions;
use crate::order::{Order, Status};

pub(crate) async fn show(State(simulator): State<Arc<Simulator>>, Path(pay_no): Path<String>) -> Response {
    // Whoever opens the page has met the order.
    simulator.book.meet(&pay_no);
    match simulator.book.find(&pay_no, simulator.clock.now()) {
        Some(order) => page(StatusCode::OK, &order_body(&order)),
        None => page(StatusCode::NOT_FOUND, "<h1>No such order<br><small>没有这个订单</small></h1>"),
    }
}

/// The button. Pressing it twice pays once.
pub(super) async fn pay(State(simulator): State<Arc<Simulator>>, Path(pay_no): Path<String>) -> Response {
    // A refusal is told by the page itself: it shows the order's state.
    let _refused = simulator.pay(&pay_no, &PayOptions::default()).is_err();
    show(State(simulator), Path(pay_no)).await
}

fn order_body(order: &Order) -> String {
    let amount = Currency::from_code(&order.terms.currency)
        .and_then(|currency| Money::try_new(order.terms.amount, currency))
        .map_or_else(|_| order.terms.amount.to_string(), |money| money.to_string());
    let action = match order.status {
        Status::Created => format!(
            "<form method=\"post\" action=\"/pay/{}\"><button>Pay &nbsp; 支付</button></form>",
            escaped(&order.key)
        ),
        Status::Paid => {
            let txn = order.charges.first().map(|charge| escaped(&charge.channel_txn_id)).unwrap_or_default();
            format!("<p class=\"done\">Paid &nbsp; 已支付</p><p><small>{txn}</small></p>")
        }
        Status::Closed => "<p>Closed &nbsp; 已关闭</p>".to_owned(),
        Status::Failed => "<p>Failed &nbsp; 支付失败</p>".to_owned(),
    };
    format!(
        "<h1>{amount}</h1><p>{subject}</p>{action}<dl><dt>Payment 支付单号</dt><dd>{pay_no}</dd>\
         <dt>Merchant 商户</dt><dd>{merchant}</dd></dl>\
         <footer>Simulated channel: no money moves.<br>模拟渠道：不会发生真实扣款。</footer>",
        subject = escaped(&order.terms.subject),
        pay_no = escaped(&order.terms.pay_no),
        merchant = escaped(&order.terms.merchant_id),
    )
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:10vh auto;padding:0 1rem;\
text-align:center;color:#1c2733}h1{font-size:2.4rem;margin:.2em 0}button{font-size:1.2rem;padding:.7rem 2.4rem;\
border:0;border-radius:.6rem;background:#0b6e4f;color:#fff;cursor:pointer}button:focus-visible{outline:3px solid #8fd3bb}\
.done{font-size:1.3rem;color:#0b6e4f}dl{text-align:left;font-size:.85rem;overflow-wrap:anywhere}dt{color:#5b6b7a}\
dd{margin:0 0 .6rem}footer{font-size:.8rem;color:#5b6b7a;margin-top:2rem}";

fn page(status: StatusCode, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Pay 支付</title><style>{STYLE}</style></head>\
         <body><main>{body}</main></body></html>"
    );
    let mut response = (status, Html(html)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"),
    );
    response
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_text_and_never_markup() {
        assert_eq!(escaped("<b a='1'>\"&茶"), "&lt;b a=&#39;1&#39;&gt;&quot;&amp;茶");
    }
}
