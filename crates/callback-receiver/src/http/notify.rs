//! `POST /v1/callbacks/{channel}/{channel_account}`.
//!
//! Gate 7, the edge. The order is fixed: the account, the size, the signature over the raw bytes, the time window, the form;
//! then a place and one call to the core; then the answer, after the core has committed.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use bytes::Bytes;
use channel::{Answer, HttpAnswer, NoticeError, NoticeReader, NoticeReason, RawNotice};
use contract::core::{RecordRefusedNoticeRequest, ResultOutcome};
use http::{HeaderValue, StatusCode, header};
use pay_types::{ChannelAccount, ChannelCode, Gate};
use sha2::{Digest as _, Sha256};
use tracing::Instrument as _;

use super::body::{self, NoBody};
use crate::app::Receiver;
use crate::apply::{self, Decision, Heard};
use crate::evidence::Kept;

/// How much of a refused body is kept as evidence; the core takes no more.
const RAW_PREFIX_BYTES_MAX: usize = 4 * 1024;

/// An answer, with the outcome that is counted.
struct Done {
    outcome: &'static str,
    response: Response,
}

pub(super) async fn notify(
    State(receiver): State<Arc<Receiver>>,
    Path((channel, account)): Path<(String, String)>,
    request: Request,
) -> Response {
    let begun = Instant::now();
    // Names from outside become labels and fields only once they are ours.
    let account = channel.parse::<ChannelCode>().ok().zip(account.parse::<ChannelAccount>().ok());
    let reader = account
        .as_ref()
        .and_then(|(channel, account)| receiver.readers.get(*channel, account))
        .map(Arc::clone);
    let (label, done) = match account.zip(reader) {
        Some((account, reader)) => {
            let span = tracing::info_span!(
                "callback_receiver.notify",
                channel = account.0.as_str(),
                channel.account = account.1.as_str(),
                pay.no = tracing::field::Empty,
                outcome = tracing::field::Empty,
            );
            let label = account.0.as_str();
            let done = async {
                let done = take(&receiver, account, &*reader, request).await;
                tracing::Span::current().record("outcome", done.outcome);
                done
            };
            (label, done.instrument(span).await)
        }
        None => ("unknown", Done { outcome: "no_such_account", response: plain(404, "NO_SUCH_ACCOUNT") }),
    };
    metrics::counter!("oncepay_callbacks_total", "channel" => label, "outcome" => done.outcome).increment(1);
    metrics::histogram!("oncepay_callback_seconds", "channel" => label).record(begun.elapsed());
    done.response
}

async fn take(
    receiver: &Receiver,
    account: (ChannelCode, ChannelAccount),
    reader: &dyn NoticeReader,
    request: Request,
) -> Done {
    let (parts, body) = request.into_parts();
    let body = match body::read(&parts.headers, body).await {
        Ok(body) => body,
        Err(NoBody::TooLarge) => return ended("too_large", 413, "BODY_TOO_LARGE"),
        Err(NoBody::TooSlow) => return ended("too_slow", 408, "BODY_TOO_SLOW"),
        Err(NoBody::Broken) => return ended("broken", 400, "BODY_BROKEN"),
    };
    let raw = RawNotice {
        method: parts.method,
        path_and_query: parts.uri.path_and_query().map_or_else(String::new, |path| path.as_str().to_owned()),
        headers: parts.headers,
        body,
    };
    // Inline: a MAC over 64 KiB takes less time than a hand-over to another thread and back.
    let notice = match reader.read(&raw, receiver.clock.now()) {
        Ok(notice) => notice,
        Err(error) => return refuse(receiver, &account, reader, &raw.body, &error).await,
    };
    tracing::Span::current().record("pay.no", notice.pay_no.as_str());
    // Only what verified takes a place: a flood of forgeries holds back nobody.
    let Ok(_place) = receiver.places.try_acquire() else {
        return answer(reader, Answer::Unavailable, "overloaded");
    };
    let (channel, name) = account.clone();
    let body_sha256 = Sha256::digest(&raw.body).to_vec();
    let heard = Heard { channel, account: name, notice, raw: raw.body.to_vec(), body_sha256 };
    match apply::apply(receiver.core.clone(), heard, receiver.core_limit).await {
        Decision::Core(word, outcome) => answer(reader, word, outcome_label(outcome)),
        Decision::NotOurs => answer(reader, Answer::Accept, "not_ours"),
        Decision::Unavailable => answer(reader, Answer::Unavailable, "unavailable"),
        Decision::Unreadable => {
            let error = NoticeError::new(NoticeReason::NoticeMalformed, "the core could not read it");
            refuse(receiver, &account, reader, &raw.body, &error).await
        }
    }
}

/// Refuses a notice that is not believed, its evidence first.
async fn refuse(
    receiver: &Receiver,
    account: &(ChannelCode, ChannelAccount),
    reader: &dyn NoticeReader,
    body: &Bytes,
    error: &NoticeError,
) -> Done {
    let reason = error.reason.as_str();
    metrics::counter!("oncepay_gate_closed_total", "gate" => Gate::G7.as_str(), "reason" => reason)
        .increment(1);
    let evidence = RecordRefusedNoticeRequest {
        channel: account.0.as_str().to_owned(),
        channel_account: account.1.as_str().to_owned(),
        reason: reason.to_owned(),
        body_sha256: Sha256::digest(body).to_vec(),
        raw_prefix: body.iter().take(RAW_PREFIX_BYTES_MAX).copied().collect(),
        detail: error.detail.to_owned(),
    };
    match receiver.evidence.keep(account, evidence).await {
        Kept::Committed | Kept::Later | Kept::Lost => {
            tracing::warn!(reason, detail = error.detail, "a notice was refused");
        }
        // A flood fills the log no more than the database; the metrics count it.
        Kept::OverRate | Kept::QueueFull => tracing::debug!(reason, "a notice was refused without evidence"),
    }
    answer(reader, Answer::Invalid(error.reason), reason)
}

fn outcome_label(outcome: ResultOutcome) -> &'static str {
    match outcome {
        ResultOutcome::Unspecified => "unspecified",
        ResultOutcome::Applied => "applied",
        ResultOutcome::Duplicate => "duplicate",
        ResultOutcome::Ignored => "ignored",
        ResultOutcome::UnexpectedReceipt => "unexpected_receipt",
        ResultOutcome::AmountMismatch => "amount_mismatch",
        ResultOutcome::CrossAccount => "cross_account",
        ResultOutcome::Orphan => "orphan",
        ResultOutcome::NonceReused => "nonce_reused",
        ResultOutcome::Recorded => "recorded",
    }
}

/// An answer in the channel's own form.
fn answer(reader: &dyn NoticeReader, answer: Answer, outcome: &'static str) -> Done {
    let HttpAnswer { status, content_type, body } = reader.answer(answer);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    if let Some(content_type) = content_type {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    Done { outcome, response }
}

/// An answer to what is no notice, after which the connection ends: its rest is not read.
fn ended(outcome: &'static str, status: u16, code: &str) -> Done {
    let mut response = plain(status, code);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Done { outcome, response }
}

fn plain(status: u16, code: &str) -> Response {
    let mut response = Response::new(Body::from(format!("{{\"code\":\"{code}\"}}")));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
