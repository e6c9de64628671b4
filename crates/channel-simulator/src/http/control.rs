//! Control calls: what tests, the demo and a curious person do to the channel. JSON in and out, from this machine only.

use std::net::SocketAddr;
use std::str::FromStr as _;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, Query, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use channel::generic::sign;
use futures::StreamExt as _;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use pay_types::ChannelCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::app::Simulator;
use crate::book::Refused;
use crate::control_types::{DirectNotice, PayOptions, Received, RefundOptions};
use crate::generic::{Fact, Message, text};
use crate::letter::{Event, Letter, letters, post, post_copies};
use crate::order::{Charge, Order, Status};
use crate::plan::Plan;
use crate::refund::{MadeRefund, RefundStatus};

/// Most copies of one direct notice; a test of a flood needs more than a limit of a few hundred.
const COPIES_MAX: u32 = 10_000;
/// Most copies on their way at once.
const PARALLEL_MAX: u32 = 1_000;

/// Refuses callers on other machines, unless the settings open the control calls to them.
pub(super) async fn only_from_here(
    State(simulator): State<Arc<Simulator>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if simulator.control_open || peer.ip().to_canonical().is_loopback() {
        next.run(request).await
    } else {
        refuse(
            StatusCode::FORBIDDEN,
            "control calls are taken from this machine only; set control_open to change it",
        )
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct BookQuery {
    /// False: totals only.
    #[serde(default = "yes")]
    orders: bool,
}

fn yes() -> bool {
    true
}

pub(super) async fn book(
    State(simulator): State<Arc<Simulator>>,
    Query(query): Query<BookQuery>,
) -> Response {
    // Looked at first: when nothing is pending, the totals read after it are whole.
    let pending = simulator.queue.pending();
    let mut view = simulator.book.view(query.orders, simulator.clock.now());
    view.totals.pending = pending;
    Json(view).into_response()
}

pub(super) async fn plan(State(simulator): State<Arc<Simulator>>) -> Response {
    Json(simulator.book.plan()).into_response()
}

pub(super) async fn set_plan(State(simulator): State<Arc<Simulator>>, body: Bytes) -> Response {
    let plan = match read::<Plan>(&body) {
        Ok(plan) => plan,
        Err(error) => return refuse(StatusCode::UNPROCESSABLE_ENTITY, &error),
    };
    if let Err(error) = plan.check() {
        return refuse(StatusCode::UNPROCESSABLE_ENTITY, &error);
    }
    tracing::info!(seed = plan.seed, "a new plan");
    simulator.book.set_plan(plan.clone());
    Json(plan).into_response()
}

pub(super) async fn order(State(simulator): State<Arc<Simulator>>, Path(pay_no): Path<String>) -> Response {
    shown(simulator.book.find(&pay_no, simulator.clock.now()).ok_or(Refused::NoSuchOrder))
}

pub(super) async fn pay(
    State(simulator): State<Arc<Simulator>>,
    Path(pay_no): Path<String>,
    body: Bytes,
) -> Response {
    with_options(&body, |options| simulator.pay(&pay_no, options))
}

pub(super) async fn second_transaction(
    State(simulator): State<Arc<Simulator>>,
    Path(pay_no): Path<String>,
    body: Bytes,
) -> Response {
    with_options(&body, |options| simulator.pay_again(&pay_no, options))
}

pub(super) async fn close(
    State(simulator): State<Arc<Simulator>>,
    Path(pay_no): Path<String>,
    body: Bytes,
) -> Response {
    with_options(&body, |options| simulator.end(&pay_no, Status::Closed, options))
}

pub(super) async fn fail(
    State(simulator): State<Arc<Simulator>>,
    Path(pay_no): Path<String>,
    body: Bytes,
) -> Response {
    with_options(&body, |options| simulator.end(&pay_no, Status::Failed, options))
}

pub(super) async fn decline(
    State(simulator): State<Arc<Simulator>>,
    Path(pay_no): Path<String>,
    body: Bytes,
) -> Response {
    with_options(&body, |options| simulator.decline(&pay_no, options))
}

/// The payer's side meets the order, as by opening or scanning.
pub(super) async fn meet(State(simulator): State<Arc<Simulator>>, Path(pay_no): Path<String>) -> Response {
    simulator.book.meet(&pay_no);
    order(State(simulator), Path(pay_no)).await
}

/// Gives money back from the channel's side.
pub(super) async fn refund(
    State(simulator): State<Arc<Simulator>>,
    Path(pay_no): Path<String>,
    body: Bytes,
) -> Response {
    let options = if body.is_empty() { Ok(RefundOptions::default()) } else { read::<RefundOptions>(&body) };
    let options = match options {
        Ok(options) => options,
        Err(error) => return refuse(StatusCode::UNPROCESSABLE_ENTITY, &error),
    };
    match simulator.refund_here(&pay_no, &options) {
        Ok(MadeRefund::New(refund) | MadeRefund::Same(refund)) => Json(refund.view()).into_response(),
        Ok(_) => refuse(StatusCode::CONFLICT, "the order has no such transaction, or less is left of it"),
        Err(refused) => shown(Err(refused)),
    }
}

/// Ends a refund by a person's word.
pub(super) async fn set_refund(
    State(simulator): State<Arc<Simulator>>,
    Path((refund_no, word)): Path<(String, String)>,
) -> Response {
    let status = match word.as_str() {
        "succeed" => RefundStatus::Succeeded,
        "fail" => RefundStatus::Failed,
        "abnormal" => RefundStatus::Abnormal,
        _ => return refuse(StatusCode::NOT_FOUND, "a refund can be told to succeed, fail or abnormal"),
    };
    match simulator.set_refund(&refund_no, status) {
        Some(refund) => Json(refund.view()).into_response(),
        None => refuse(StatusCode::NOT_FOUND, "the book has no such refund"),
    }
}

/// Sends a notice of the caller's making, and tells what came back, copy by copy.
pub(super) async fn notices(State(simulator): State<Arc<Simulator>>, body: Bytes) -> Response {
    let notice = match read::<DirectNotice>(&body) {
        Ok(notice) => notice,
        Err(error) => return refuse(StatusCode::UNPROCESSABLE_ENTITY, &error),
    };
    let order = notice.pay_no.as_deref().and_then(|no| simulator.book.find(no, simulator.clock.now()));
    let channel = notice.channel.as_deref().or_else(|| order.as_ref().map(|o| o.owner.channel.as_str()));
    if channel.is_some_and(|channel| channel != ChannelCode::Generic.as_str()) {
        return direct(&simulator, &notice, order).await;
    }
    let message = match message(&simulator, &notice) {
        Ok(message) => message,
        Err(error) => return refuse(StatusCode::UNPROCESSABLE_ENTITY, error),
    };
    let copies = notice.repeats.unwrap_or(1).clamp(1, COPIES_MAX);
    let parallel = notice.parallel.unwrap_or(1).clamp(1, PARALLEL_MAX);
    simulator.book.count(|totals| {
        totals.direct_notices = totals.direct_notices.saturating_add(u64::from(copies));
    });
    let messages = (0..copies).map(|_| {
        let mut message = message.clone();
        if notice.fresh_nonces {
            message.nonce = sign::fresh_nonce();
        }
        message
    });
    let http = &simulator.http;
    let answers: Vec<Received> = futures::stream::iter(messages)
        .map(|message| post(http, message.method.clone(), message.url.clone(), message.sealed()))
        .buffered(usize::try_from(parallel).unwrap_or(1))
        .collect()
        .await;
    Json(json!({ "answers": answers })).into_response()
}

/// A notice of another channel than the generic one: about an order of the book, with some of its terms changed.
async fn direct(simulator: &Simulator, notice: &DirectNotice, order: Option<Order>) -> Response {
    let Some(mut order) = order else {
        return refuse(StatusCode::UNPROCESSABLE_ENTITY, "pay_no must be an order of the book");
    };
    let first = order.charges.first().map(|charge| charge.channel_txn_id.clone());
    let id = notice.channel_txn_id.clone().or(first);
    let charge = Charge {
        channel_txn_id: id.unwrap_or_else(|| simulator.book.ids().no_transaction(order.owner.channel)),
        at: simulator.clock.now(),
    };
    order.terms.amount = notice.amount.unwrap_or(order.terms.amount);
    if let Some(account) = &notice.account {
        order.owner.account.clone_from(account);
    }
    let event = match notice.event.as_deref() {
        None | Some("payment.succeeded") => Event::Paid(&charge),
        Some("payment.closed") => Event::Closed,
        Some("payment.failed") => Event::Failed,
        Some("payment.declined") => Event::Declined,
        Some(_) => return refuse(StatusCode::UNPROCESSABLE_ENTITY, "event is none of these"),
    };
    let told: Vec<Letter> = letters(simulator, &order, event, None);
    let to = notice.url.as_deref().unwrap_or(&order.terms.notify_url);
    let Ok(url) = reqwest::Url::parse(to) else {
        return refuse(StatusCode::UNPROCESSABLE_ENTITY, "url is no address");
    };
    let offset = time::Duration::seconds(notice.timestamp_offset_s);
    let at = simulator.clock.now().checked_add(offset).unwrap_or_else(|| simulator.clock.now());
    let copies = notice.repeats.unwrap_or(1).clamp(1, COPIES_MAX);
    let at_once = notice.parallel.unwrap_or(1).clamp(1, PARALLEL_MAX);
    let mut answers = Vec::new();
    for letter in told {
        let mut sealed = letter.seal(&url, at, notice.signature);
        if let Some(body) = &notice.body {
            sealed.body = Bytes::from(body.clone());
        }
        let at_once = usize::try_from(at_once).unwrap_or(1);
        answers.extend(post_copies(&simulator.http, &url, &sealed, copies, at_once).await);
    }
    simulator.book.count(|totals| {
        let sent = u64::try_from(answers.len()).unwrap_or(u64::MAX);
        totals.direct_notices = totals.direct_notices.saturating_add(sent);
    });
    Json(json!({ "answers": answers })).into_response()
}

fn message(simulator: &Simulator, notice: &DirectNotice) -> Result<Message, &'static str> {
    let now = simulator.clock.now();
    let order = notice.pay_no.as_deref().and_then(|pay_no| simulator.book.find(pay_no, now));
    let account = match notice
        .account
        .as_deref()
        .or_else(|| order.as_ref().map(|order| order.owner.account.as_str()))
    {
        Some(name) => {
            simulator.account(name).ok_or("account is in no [[account]] table of channel generic")?
        }
        None => simulator.accounts.first().ok_or("there is no account")?,
    };
    let url = notice
        .url
        .as_deref()
        .or_else(|| order.as_ref().map(|order| order.terms.notify_url.as_str()))
        .unwrap_or_else(|| account.notify_url());
    let url = reqwest::Url::parse(url).map_err(|_| "url is no address")?;
    let body = match &notice.body {
        Some(body) => Bytes::from(body.clone()),
        None => body(simulator, notice, order.as_ref()),
    };
    let mut message = Message::new(Arc::clone(account), url, body, now);
    if let Some(method) = &notice.method {
        message.method = Method::from_str(method).map_err(|_| "method is none of HTTP")?;
    }
    let seconds =
        notice.timestamp.unwrap_or_else(|| now.unix_timestamp()).saturating_add(notice.timestamp_offset_s);
    message.at =
        time::OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| "timestamp is out of range")?;
    if let Some(nonce) = &notice.nonce {
        HeaderValue::from_str(nonce).map_err(|_| "nonce cannot stand in a header")?;
        message.nonce.clone_from(nonce);
    }
    message.signature = notice.signature;
    message.key_id.clone_from(&notice.key_id);
    message.signed_path.clone_from(&notice.signed_path);
    for (name, value) in &notice.headers {
        let name = HeaderName::from_str(name).map_err(|_| "headers: a name is none of HTTP")?;
        let value = HeaderValue::from_str(value).map_err(|_| "headers: a value cannot stand in a header")?;
        message.headers.push((name, value));
    }
    Ok(message)
}

fn body(simulator: &Simulator, notice: &DirectNotice, order: Option<&Order>) -> Bytes {
    let pick = |given: &Option<String>, of_order: Option<String>, else_: &dyn Fn() -> String| {
        given.clone().or(of_order).unwrap_or_else(else_)
    };
    let terms = order.map(|order| &order.terms);
    let event = pick(&notice.event, None, &|| "payment.succeeded".to_owned());
    let first_charge = order.and_then(|order| order.charges.first()).map(|c| c.channel_txn_id.clone());
    let channel_txn_id = pick(&notice.channel_txn_id, first_charge, &|| simulator.book.ids().id("T"));
    Fact {
        notify_id: &pick(&notice.notify_id, None, &|| simulator.book.ids().id("N")),
        event: &event,
        merchant_id: &pick(&notice.merchant_id, terms.map(|t| t.merchant_id.clone()), &|| "M1".to_owned()),
        pay_no: notice.pay_no.as_deref().unwrap_or_default(),
        channel_txn_id: &channel_txn_id,
        amount: notice.amount.or_else(|| terms.map(|terms| terms.amount)).unwrap_or(1),
        currency: &pick(&notice.currency, terms.map(|t| t.currency.clone()), &|| "CNY".to_owned()),
        occurred_at: pick(&notice.occurred_at, None, &|| text(simulator.clock.now())),
        refund: notice.refund_no.as_deref().zip(Some(notice.channel_refund_no.as_deref().unwrap_or("C0"))),
    }
    .body()
}

/// Reads options, of which an empty body has none, and does what is asked.
fn with_options(body: &[u8], act: impl FnOnce(&PayOptions) -> Result<Order, Refused>) -> Response {
    let options = if body.is_empty() { Ok(PayOptions::default()) } else { read::<PayOptions>(body) };
    match options {
        Ok(options) => shown(act(&options)),
        Err(error) => refuse(StatusCode::UNPROCESSABLE_ENTITY, &error),
    }
}

fn shown(order: Result<Order, Refused>) -> Response {
    match order {
        Ok(order) => Json(order.view()).into_response(),
        Err(Refused::NoSuchOrder) => refuse(StatusCode::NOT_FOUND, "the book has no such order"),
        Err(Refused::NotIn(status)) => refuse(
            StatusCode::CONFLICT,
            &format!("the order is {}", json!(status).as_str().unwrap_or_default()),
        ),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": message }))).into_response()
}
