//! `CreateRefund`: checks, creates, then sends in a task of its own and waits for the channel as long as the caller can. A
//! caller that goes away leaves no half state: what was committed goes on.

use std::sync::Arc;
use std::time::Duration;

use contract::order::{CreateRefundRequest, CreateRefundResponse, Disposition};
use contract::validate;
use pay_types::{Money, RefundNo};
use service_kit::{grpc, task, telemetry};
use time::OffsetDateTime;
use tonic::{Request, Response};
use tracing::Span;

use super::{Core, convert};
use crate::Error;
use crate::refund::create::{self, Create, Outcome};
use crate::refund::{Approval, Refund, send};
use crate::store;

type Sent = tokio::task::JoinHandle<Option<()>>;

pub(super) async fn handle(
    core: &Core,
    request: Request<CreateRefundRequest>,
) -> Result<Response<CreateRefundResponse>, Error> {
    let (metadata, _, request) = request.into_parts();
    let wait = grpc::time_left(&metadata, core.dispatch_wait_max);
    let limit = grpc::time_left(&metadata, core.command_wait_max);
    let request = validate::refund_request(&request)?;
    let now = core.channels.clock.now();
    let validate_only = request.validate_only;
    let command = Create {
        biz_key: create::biz_key(request.merchant_id.as_str(), request.idempotency_key.as_str()),
        refund_no: RefundNo::new(core.channels.clock.now_ms(), rand::random(), request.pay_no.bucket()),
        approval: approval(core, request.amount),
        now,
        next_try_at: now.saturating_add(core.first_look),
        traceparent: telemetry::traceparent(&Span::current()),
        request,
    };
    if validate_only {
        // Rolled back, so it shares no transaction with those that stay.
        let answers = create::create(&core.channels.pool, &[command], true).await?;
        answers.into_iter().next().ok_or(Error::Overtaken)??;
        let disposition = Disposition::Validated.into();
        return Ok(Response::new(CreateRefundResponse { refund: None, disposition }));
    }
    // A task of its own: the caller may go away between the commit and the call to the channel.
    let work = task::spawn("payment_core.create_refund", run(core.clone(), command, limit));
    let (outcome, sent) = work.await.ok().flatten().ok_or(Error::Overtaken)??;
    answer(core, outcome, sent, wait, now).await
}

/// Above the limit of its currency a second person must agree.
fn approval(core: &Core, amount: Money) -> Approval {
    match core.approval_above.get(amount.currency().code()) {
        Some(limit) if amount.minor() > *limit => Approval::Waiting,
        Some(_) | None => Approval::NotNeeded,
    }
}

async fn run(core: Core, command: Create, limit: Duration) -> Result<(Outcome, Option<Sent>), Error> {
    let outcome = core.refunding.call(command, limit).await??;
    let sent = match &outcome {
        Outcome::Created(refund) if refund.approval == Approval::NotNeeded => go_on(&core, refund.clone()),
        Outcome::Created(_) | Outcome::Replayed(..) | Outcome::Joined(_) | Outcome::InFlight(_) => None,
    };
    Ok((outcome, sent))
}

/// Sends a refund in a task of its own; `None` when all places are taken and the job will send it.
pub(super) fn go_on(core: &Core, refund: Refund) -> Option<Sent> {
    let Ok(place) = Arc::clone(&core.dispatches).try_acquire_owned() else {
        metrics::counter!("oncepay_dispatches_deferred_total").increment(1);
        return None;
    };
    let channels = core.channels.clone();
    Some(task::spawn("payment_core.send_refund", async move {
        let _place = place;
        let number = refund.refund_no.clone();
        if let Err(error) = send::go_on(&channels, refund).await {
            tracing::warn!(refund.no = %number, %error, "a refund was not sent; the sweep goes on with it");
        }
    }))
}

async fn answer(
    core: &Core,
    outcome: Outcome,
    sent: Option<Sent>,
    wait: Duration,
    now: OffsetDateTime,
) -> Result<Response<CreateRefundResponse>, Error> {
    let (disposition, first_seen) = match &outcome {
        Outcome::Created(_) => (Disposition::Created, now),
        Outcome::Replayed(_, first_seen) => (Disposition::Replayed, *first_seen),
        Outcome::Joined(_) => (Disposition::Joined, now),
        Outcome::InFlight(_) => (Disposition::InFlight, now),
    };
    let mut refund = outcome.refund().clone();
    if let Some(sent) = sent
        && tokio::time::timeout(wait, sent).await.is_ok()
    {
        let read = store::refund::by_number(&core.channels.pool, &refund.refund_no).await?;
        refund = read.unwrap_or(refund);
    }
    let mut response = Response::new(CreateRefundResponse {
        refund: Some(convert::refund(refund)),
        disposition: disposition.into(),
    });
    // A key that met a refund in flight is free again: there is nothing to tell of it.
    if disposition != Disposition::InFlight {
        convert::about_key(
            response.metadata_mut(),
            disposition == Disposition::Replayed,
            first_seen,
            core.keys_kept,
        );
    }
    Ok(response)
}
