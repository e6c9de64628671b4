//! Giving back: every fifth order in full, every seventh in two parts, each request repeated at once and raced by a rival one.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::common::Money;
use contract::order::get_payment_request::By;
use contract::order::get_refund_request::By as RefundBy;
use contract::order::{
    CreateRefundRequest, GetPaymentRequest, GetRefundRequest, OrderAttempt, Payment, Refund, RefundState,
};
use contract::reason::{Reason, of_status};
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use tonic::Request;

use crate::storm::{PATIENCE, RETRY, Storm};

/// Orders at one time.
const ORDERS_AT_ONCE: usize = 16;
/// Identical calls at once for one request.
const REPEATS: usize = 3;
/// Longest wait for the end of one refund.
const END_MAX: Duration = Duration::from_secs(60);
/// Pause between two looks at a refund on its way.
const LOOK: Duration = Duration::from_millis(50);

/// What was to go back.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) refunds: i64,
    pub(crate) amount: i64,
}

/// Gives back what was paid for some of the orders; returns when every refund has ended.
pub(crate) async fn run(storm: &Storm) -> Wanted {
    stream::iter(0..storm.orders)
        .map(|number| async move {
            let parts = match number {
                number if number.is_multiple_of(5) => 1,
                number if number.is_multiple_of(7) => 2,
                _ => return Wanted::default(),
            };
            match give_back(storm, number, parts).await {
                Ok(wanted) => wanted,
                Err(words) => {
                    storm.complain(format!("refund of order {number}: {words}"));
                    Wanted::default()
                }
            }
        })
        .buffer_unordered(ORDERS_AT_ONCE)
        .fold(Wanted::default(), |sum, one| async move {
            Wanted {
                refunds: sum.refunds.saturating_add(one.refunds),
                amount: sum.amount.saturating_add(one.amount),
            }
        })
        .await
}

async fn give_back(storm: &Storm, number: u32, parts: i64) -> Result<Wanted, String> {
    let payment = payment(storm, number).await?;
    let whole = payment.amount.as_ref().map_or(0, |money| money.amount);
    let (mut left, mut wanted) = (whole, Wanted::default());
    for part in 1..=parts {
        let amount = if part == parts { left } else { whole.checked_div(3).unwrap_or(whole) };
        left = left.saturating_sub(amount);
        let asked = request(&payment, amount, &format!("refund-{number}-{part}"));
        // A rival with a number of its own, at the same moment, over the whole: it finds this one in flight or too little left.
        let rival = request(&payment, whole, &format!("rival-{number}-{part}"));
        let calls = join_all((0..REPEATS).map(|_| ask(storm, &asked)));
        let first = ask(storm, &asked).await?.ok_or("the first of its requests was turned down")?;
        let (repeats, raced) = tokio::join!(calls, ask(storm, &rival));
        let mut numbers: HashSet<String> = HashSet::from([first.refund_no.clone()]);
        for answer in repeats {
            numbers.extend(answer?.map(|refund| refund.refund_no));
        }
        numbers.extend(raced?.map(|refund| refund.refund_no));
        if numbers.len() != 1 {
            return Err(format!("{} refunds for one request: {numbers:?}", numbers.len()));
        }
        until_done(storm, &first).await?;
        wanted.refunds = wanted.refunds.saturating_add(1);
        wanted.amount = wanted.amount.saturating_add(amount);
    }
    Ok(wanted)
}

fn request(payment: &Payment, amount: i64, name: &str) -> CreateRefundRequest {
    CreateRefundRequest {
        merchant_id: payment.merchant_id.clone(),
        idempotency_key: name.to_owned(),
        pay_no: payment.pay_no.clone(),
        refund_request_no: name.to_owned(),
        amount: Some(Money { amount, currency: "CNY".to_owned() }),
        reason: "演示退款 demo".to_owned(),
        requested_by: "demo".to_owned(),
        ..Default::default()
    }
}

async fn payment(storm: &Storm, number: u32) -> Result<Payment, String> {
    let order = OrderAttempt { order_no: format!("O{number}"), attempt_no: 1 };
    let request = GetPaymentRequest { merchant_id: storm.merchant_id.clone(), by: Some(By::Order(order)) };
    let answer = storm.client.clone().get_payment(request).await.map_err(|status| status.to_string())?;
    answer.into_inner().payment.ok_or_else(|| "no payment".to_owned())
}

/// Sends a request with its key until the answer is final. `None`: too little is left for it.
async fn ask(storm: &Storm, request: &CreateRefundRequest) -> Result<Option<Refund>, String> {
    let started = tokio::time::Instant::now();
    loop {
        storm.requests.fetch_add(1, Ordering::Relaxed);
        let mut call = Request::new(request.clone());
        call.set_timeout(Duration::from_secs(10));
        let status = match storm.client.clone().create_refund(call).await {
            Ok(response) => return Ok(response.into_inner().refund),
            Err(status) => status,
        };
        match of_status(&status) {
            Some(Reason::RefundExceedsPaid) => return Ok(None),
            None | Some(Reason::InProgress | Reason::Unavailable | Reason::Overloaded | Reason::Internal)
                if started.elapsed() < PATIENCE => {}
            _ => return Err(format!("{:?}: {}", status.code(), status.message())),
        }
        storm.retries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(RETRY).await;
    }
}

async fn until_done(storm: &Storm, refund: &Refund) -> Result<(), String> {
    let started = tokio::time::Instant::now();
    let request = GetRefundRequest {
        merchant_id: refund.merchant_id.clone(),
        by: Some(RefundBy::RefundNo(refund.refund_no.clone())),
    };
    while started.elapsed() < END_MAX {
        let told = storm.client.clone().get_refund(request.clone()).await;
        let state = told.ok().and_then(|answer| answer.into_inner().refund).map(|refund| refund.state());
        match state {
            Some(RefundState::Success) => return Ok(()),
            Some(RefundState::Fail) => return Err(format!("{} has failed", refund.refund_no)),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
    Err(format!("{} has not ended within {END_MAX:?}", refund.refund_no))
}
