//! `CreatePayment`: checks, creates, then dispatches in a task of its own and waits for it as long as the caller can. A
//! caller that goes away leaves no half state: what was committed goes on.

use std::sync::Arc;
use std::time::Duration;

use contract::order::{CreatePaymentRequest, CreatePaymentResponse, Disposition};
use contract::reason::Refusal;
use contract::validate::{self, PaymentRequest};
use pay_types::{Bucket, ChannelAccount, Invalid, PayNo};
use service_kit::{grpc, task, telemetry};
use time::OffsetDateTime;
use tonic::{Request, Response};
use tracing::Span;

use super::{Core, convert};
use crate::Error;
use crate::payment::Payment;
use crate::payment::create::{self, Create, Made, Outcome};
use crate::store;

pub(super) async fn handle(
    core: &Core,
    request: Request<CreatePaymentRequest>,
) -> Result<Response<CreatePaymentResponse>, Error> {
    let (metadata, _, request) = request.into_parts();
    let wait = grpc::time_left(&metadata, core.dispatch_wait_max);
    let now = core.channels.clock.now();
    let request = validate::payment_request(request, now)?;
    let account = account(core, &request)?;
    let made = Made {
        pay_no: PayNo::new(
            core.channels.clock.now_ms(),
            rand::random(),
            Bucket::of(&request.merchant_id, &request.order_no),
        ),
        now,
        next_query_at: now.saturating_add(core.first_look),
        traceparent: telemetry::traceparent(&Span::current()),
    };
    let command = Create::new(&request, account, made);
    let validate_only = request.validate_only;
    // A task of its own: the caller may go away between the commit and the dispatch.
    let limit = grpc::time_left(&metadata, core.command_wait_max);
    let work = task::spawn("payment_core.create", run(core.clone(), command, validate_only, limit));
    let (outcome, dispatched) = work.await.ok().flatten().ok_or(Error::Overtaken)??;
    if validate_only {
        let disposition = Disposition::Validated.into();
        return Ok(Response::new(CreatePaymentResponse { payment: None, disposition }));
    }
    answer(core, outcome, dispatched, wait, now).await
}

type Dispatched = tokio::task::JoinHandle<Option<()>>;

async fn run(
    core: Core,
    command: Create,
    validate_only: bool,
    limit: Duration,
) -> Result<(Outcome, Option<Dispatched>), Error> {
    if validate_only {
        // Rolled back, so it shares no transaction with those that stay.
        let channels = &core.channels;
        let answers = create::create(&channels.pool, &[command], channels.switches, true).await?;
        return Ok((answers.into_iter().next().ok_or(Error::Overtaken)??, None));
    }
    let outcome = core.creating.call(command, limit).await??;
    let dispatched = match &outcome {
        Outcome::Created(payment) => dispatch(&core, payment.clone()),
        Outcome::Replayed(..) | Outcome::Joined(_) => None,
    };
    Ok((outcome, dispatched))
}

/// Dispatches in a task of its own; `None` when all places are taken and the job will send it.
fn dispatch(core: &Core, payment: Payment) -> Option<Dispatched> {
    let Ok(place) = Arc::clone(&core.dispatches).try_acquire_owned() else {
        metrics::counter!("oncepay_dispatches_deferred_total").increment(1);
        return None;
    };
    let channels = core.channels.clone();
    Some(task::spawn("payment_core.dispatch", async move {
        let _place = place;
        if let Err(error) = channels.dispatch(&payment).await {
            tracing::warn!(pay.no = %payment.pay_no, %error, "a dispatch was not noted; the sweep repeats it");
        }
    }))
}

async fn answer(
    core: &Core,
    outcome: Outcome,
    dispatched: Option<Dispatched>,
    wait: Duration,
    now: OffsetDateTime,
) -> Result<Response<CreatePaymentResponse>, Error> {
    let (disposition, first_seen) = match &outcome {
        Outcome::Created(_) => (Disposition::Created, now),
        Outcome::Replayed(_, first_seen) => (Disposition::Replayed, *first_seen),
        Outcome::Joined(_) => (Disposition::Joined, now),
    };
    let mut payment = outcome.into_payment();
    if let Some(dispatched) = dispatched
        && tokio::time::timeout(wait, dispatched).await.is_ok()
    {
        let read = store::payment::by_number(&core.channels.pool, &payment.pay_no).await?;
        payment = read.unwrap_or(payment);
    }
    let mut response = Response::new(CreatePaymentResponse {
        payment: Some(convert::payment(payment)),
        disposition: disposition.into(),
    });
    convert::about_key(
        response.metadata_mut(),
        disposition == Disposition::Replayed,
        first_seen,
        core.keys_kept,
    );
    Ok(response)
}

/// The account asked for, or the channel's default; one that is not configured is refused by name.
fn account(core: &Core, request: &PaymentRequest) -> Result<ChannelAccount, Refusal> {
    let accounts = &core.channels.accounts;
    let (account, field) = match &request.channel_account {
        Some(wished) => (accounts.get(request.channel, wished), "channel_account"),
        None => (accounts.default_of(request.channel), "channel"),
    };
    account
        .map(|account| account.account().clone())
        .ok_or_else(|| validate::invalid(Invalid::new(field, "must be one that is configured here")))
}
