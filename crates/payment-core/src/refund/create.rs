//! Creating refunds that merchants ask for. Gates G4 (idempotent log) and G10 (once, and never more than was paid).
//!
//! The hole: two requests pass the same check, write two rows and make two calls to the channel. The guarantee: one
//! transaction takes the payment's row for itself, decides, writes the refund, reserves its amount on the payment and writes
//! the event, or nothing of it; the channel is called after the commit. Below the decision the database judges once more:
//! `uk_refund_request`, `uk_refund_live` and `ck_refund_within_paid`.
//!
//! ```text
//! claim keys ──first──► lock the payments ──► judge ──► insert refund, reserve, REFUND_CREATED    CREATED
//!     │                                         ├─same request number, same terms─► point key     JOINED
//!     │                                         ├─another refund in flight────────► forget key    IN_FLIGHT
//!     │                                         └─not allowed─────────────────────► forget key    refused
//!     └─seen──► same fingerprint? ─yes─► read refund                                              REPLAYED
//!                            └─no───────────────────────────────────────────────────────────────► refused
//! ```
//!
//! A batch behaves as if its commands had run one by one, as creations do. The caller (`grpc/create_refund.rs`) sends the
//! refund to the channel after the commit.

use std::collections::HashMap;

use contract::reason::{Reason, Refusal, key_reused};
use contract::validate::{self, RefundRequest};
use idempotency::log::{self, Claim, Claimed, LogRow};
use pay_types::{FingerprintMatch, Invalid, PayNo, PaymentState, RefundNo};
use service_kit::switch::kill_point;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use crate::Error;
use crate::payment::{Payment, event, transaction, waves};
use crate::refund::{Approval, NewRefund, Refund, RefundKind};
use crate::store;

/// A checked command to refund.
#[derive(Debug, Clone)]
pub(crate) struct Create {
    pub(crate) biz_key: String,
    pub(crate) request: RefundRequest,
    pub(crate) refund_no: RefundNo,
    /// Above the limit: a second person must agree.
    pub(crate) approval: Approval,
    pub(crate) now: OffsetDateTime,
    pub(crate) next_try_at: OffsetDateTime,
    pub(crate) traceparent: Option<String>,
}

/// Key of the log row of a refund request: scoped by merchant and operation.
pub(crate) fn biz_key(merchant_id: &str, idempotency_key: &str) -> String {
    format!("REFUND:CREATE:{merchant_id}:{idempotency_key}")
}

/// How a command ended well.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Created(Refund),
    /// With the time at which the key was first seen.
    Replayed(Refund, OffsetDateTime),
    Joined(Refund),
    InFlight(Refund),
}

impl Outcome {
    pub(crate) fn refund(&self) -> &Refund {
        match self {
            Self::Created(refund)
            | Self::Replayed(refund, _)
            | Self::Joined(refund)
            | Self::InFlight(refund) => refund,
        }
    }
}

pub(crate) type Answer = Result<Outcome, Refusal>;
type Placed = Vec<(usize, Answer)>;

/// What the rules say about a request.
#[derive(Debug)]
enum Judgement {
    New,
    Told(Box<Answer>),
}

/// Creates refunds; each command gets its own answer, in the order given.
pub(crate) async fn create(
    pool: &PgPool,
    commands: &[Create],
    validate_only: bool,
) -> Result<Vec<Answer>, Error> {
    let mut answers: HashMap<usize, Answer> = HashMap::new();
    let names = |command: &Create| [format!("K{}", command.biz_key), format!("P{}", command.request.pay_no)];
    for wave in waves::of(commands.iter().map(names)) {
        let batch: Vec<&Create> = wave.iter().filter_map(|place| commands.get(*place)).collect();
        let told = transaction::run("refund_create", || async {
            let mut tx = pool.begin().await?;
            let told = decide(&mut tx, &batch).await?;
            kill_point("payment_core.refund_create.before_commit");
            if validate_only {
                tx.rollback().await?;
            } else {
                tx.commit().await.map_err(Error::CommitUnheard)?;
            }
            kill_point("payment_core.refund_create.after_commit");
            Ok(told)
        })
        .await?;
        answers.extend(wave.into_iter().zip(told));
    }
    (0..commands.len())
        .map(|place| answers.remove(&place))
        .collect::<Option<Vec<_>>>()
        .ok_or(Error::Overtaken)
}

async fn decide(tx: &mut PgConnection, commands: &[&Create]) -> Result<Vec<Answer>, Error> {
    let claims: Vec<Claim> = commands
        .iter()
        .map(|command| Claim {
            biz_key: command.biz_key.clone(),
            request_hash: command.request.fingerprint().as_bytes().to_vec(),
            result_no: command.refund_no.to_string(),
        })
        .collect();
    let claimed = log::claim_in_tx(tx, &claims).await?;
    kill_point("payment_core.refund_create.after_claim");
    let (mut first, mut seen) = (Vec::new(), Vec::new());
    for (place, (command, claimed)) in commands.iter().zip(claimed).enumerate() {
        match claimed {
            Claimed::First => first.push((place, *command)),
            Claimed::Seen(row) => seen.push((place, *command, row)),
        }
    }
    let mut answers: HashMap<usize, Answer> = HashMap::new();
    answers.extend(reserve(tx, &first).await?);
    answers.extend(replay(tx, &seen).await?);
    (0..commands.len())
        .map(|place| answers.remove(&place))
        .collect::<Option<Vec<_>>>()
        .ok_or(Error::Overtaken)
}

/// Gate G10: judges new requests with their payments' rows held, and writes the refunds of those that may.
async fn reserve(tx: &mut PgConnection, first: &[(usize, &Create)]) -> Result<Placed, Error> {
    if first.is_empty() {
        return Ok(Vec::new());
    }
    let pay_nos: Vec<PayNo> = first.iter().map(|(_, command)| command.request.pay_no.clone()).collect();
    let payments = store::payment::lock_in_tx(tx, &pay_nos).await?;
    kill_point("payment_core.refund_create.after_lock");
    let asked: Vec<_> = first
        .iter()
        .map(|(_, command)| (&command.request.pay_no, &command.request.refund_request_no))
        .collect();
    let rivals = store::refund::rivals_in_tx(tx, &asked).await?;
    let (mut answers, mut new) = (Placed::new(), Vec::new());
    for (place, command) in first {
        let payment = payments.get(&command.request.pay_no);
        match judge(&command.request, payment, &rivals) {
            Judgement::Told(answer) => answers.push((*place, *answer)),
            Judgement::New => {
                let payment = payment.ok_or(Error::Overtaken)?;
                new.push((*place, *command, payment, new_refund(command, payment)?));
            }
        }
    }
    let rows: Vec<&NewRefund> = new.iter().map(|(.., row)| row).collect();
    let reserved: Vec<(PayNo, i64)> =
        rows.iter().map(|row| (row.pay_no.clone(), row.amount.minor())).collect();
    if let Some((_, any)) = first.first()
        && !new.is_empty()
    {
        let wanted = u64::try_from(new.len()).unwrap_or(u64::MAX);
        if store::refund::insert_in_tx(tx, &rows, any.now).await? != wanted {
            return Err(Error::Overtaken);
        }
        kill_point("payment_core.refund_create.after_insert");
        if store::payment::reserve_refunds_in_tx(tx, &reserved, any.now).await? != wanted {
            return Err(Error::Overtaken);
        }
        kill_point("payment_core.refund_create.after_reserve");
        let numbers: Vec<RefundNo> = rows.iter().map(|row| row.refund_no.clone()).collect();
        let written = store::refund::by_numbers_in_tx(tx, &numbers).await?;
        let mut events = Vec::with_capacity(new.len());
        for (place, command, payment, row) in &new {
            let refund = written.get(&row.refund_no).ok_or(Error::Overtaken)?;
            events.push(event::refund_created(payment, refund, command.now)?);
            answers.push((*place, Ok(Outcome::Created(refund.clone()))));
        }
        if store::event::append_in_tx(tx, &events, any.now).await? != wanted {
            return Err(Error::Overtaken);
        }
        kill_point("payment_core.refund_create.after_event");
    }
    settle_keys(tx, first, &answers).await?;
    Ok(answers)
}

fn new_refund(command: &Create, payment: &Payment) -> Result<NewRefund, Error> {
    let request = &command.request;
    let txn = payment.channel_txn_id.as_deref().ok_or(sqlx::Error::RowNotFound)?;
    Ok(NewRefund {
        refund_no: command.refund_no.clone(),
        kind: RefundKind::Payment,
        pay_no: request.pay_no.clone(),
        merchant_id: request.merchant_id.clone(),
        refund_request_no: Some(request.refund_request_no.to_string()),
        amount: request.amount,
        reason: request.reason.to_string(),
        channel: payment.channel,
        channel_account: payment.channel_account.clone(),
        channel_txn_id: txn.parse().map_err(Error::Corrupt)?,
        approval: command.approval,
        requested_by: Some(request.requested_by.to_string()),
        next_try_at: command.next_try_at,
        traceparent: command.traceparent.clone(),
    })
}

/// The rules, pure. A request number that is known comes first: a repeat is answered whatever has happened since.
fn judge(request: &RefundRequest, payment: Option<&Payment>, rivals: &[Refund]) -> Judgement {
    let told = |answer: Answer| Judgement::Told(Box::new(answer));
    let Some(payment) = payment.filter(|payment| payment.merchant_id == request.merchant_id) else {
        let words = "no payment of this merchant has this number";
        return told(Err(Refusal::new(Reason::PaymentNotFound, words)));
    };
    let of_payment = || rivals.iter().filter(|refund| refund.pay_no == request.pay_no);
    let known = of_payment()
        .find(|refund| refund.refund_request_no.as_deref() == Some(request.refund_request_no.as_str()));
    if let Some(refund) = known {
        closed("request_known");
        return told(if refund.amount == request.amount {
            Ok(Outcome::Joined(refund.clone()))
        } else {
            let words = format!("refund_request_no stands for refund {} of another amount", refund.refund_no);
            Err(Refusal::new(Reason::RefundRequestTaken, words)
                .with("refund_no", refund.refund_no.as_str())
                .field("amount", "differs from the refund of this refund_request_no"))
        });
    }
    if payment.state != PaymentState::Success {
        let words = format!("payment {} is {}; only paid money can go back", payment.pay_no, payment.state);
        return told(Err(Refusal::new(Reason::PaymentNotRefundable, words)
            .with("pay_no", payment.pay_no.as_str())
            .with("state", payment.state.as_str())));
    }
    if payment.amount.currency() != request.amount.currency() {
        let fault = Invalid::new("amount.currency", "must be the payment's currency");
        return told(Err(validate::invalid(fault)));
    }
    if let Some(live) = of_payment().find(|refund| !refund.state.is_terminal()) {
        closed("in_flight");
        return told(Ok(Outcome::InFlight(live.clone())));
    }
    match within_paid(request, payment) {
        Ok(()) => Judgement::New,
        Err(refusal) => told(Err(refusal)),
    }
}

fn within_paid(request: &RefundRequest, payment: &Payment) -> Result<(), Refusal> {
    let left = payment.amount.minor().saturating_sub(payment.refund_reserved);
    if request.amount.minor() > left {
        closed("exceeds_paid");
        let words = format!("payment {} can give back {left} more at most", payment.pay_no);
        return Err(Refusal::new(Reason::RefundExceedsPaid, words)
            .with("pay_no", payment.pay_no.as_str())
            .with("left", left.to_string())
            .field("amount", "must be at most what was paid and is not on its way back"));
    }
    let total = payment.refund_reserved.saturating_add(request.amount.minor());
    match request.expected_refunded_total {
        Some(expected) if expected != total => {
            closed("total_unexpected");
            let words = format!("the refunded total would be {total} and not {expected}");
            Err(Refusal::new(Reason::RefundTotalUnexpected, words)
                .with("pay_no", payment.pay_no.as_str())
                .with("total", total.to_string())
                .field("expected_refunded_total", "is not what the total would be"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Keys of joined commands point to the refund that they joined; keys of refused ones are free again, and so are those that
/// met a refund in flight: they created nothing, and may when it has ended.
async fn settle_keys(
    tx: &mut PgConnection,
    first: &[(usize, &Create)],
    answers: &[(usize, Answer)],
) -> Result<(), Error> {
    let keys: HashMap<usize, &str> =
        first.iter().map(|(place, command)| (*place, command.biz_key.as_str())).collect();
    let (mut moves, mut free) = (Vec::new(), Vec::new());
    for (place, answer) in answers {
        let Some(key) = keys.get(place) else { continue };
        match answer {
            Ok(Outcome::Joined(refund)) => moves.push(((*key).to_owned(), refund.refund_no.to_string())),
            Ok(Outcome::Created(_) | Outcome::Replayed(..)) => {}
            Ok(Outcome::InFlight(_)) | Err(_) => free.push((*key).to_owned()),
        }
    }
    log::repoint_in_tx(tx, &moves).await?;
    log::forget_in_tx(tx, &free).await?;
    Ok(())
}

/// Known keys: the same request gets its refund in its current state, another request is refused with the fields that differ.
async fn replay(tx: &mut PgConnection, seen: &[(usize, &Create, LogRow)]) -> Result<Placed, Error> {
    if seen.is_empty() {
        return Ok(Vec::new());
    }
    let numbers = seen
        .iter()
        .map(|(_, _, row)| row.result_no.parse())
        .collect::<Result<Vec<RefundNo>, _>>()
        .map_err(Error::Corrupt)?;
    let refunds = store::refund::by_numbers_in_tx(tx, &numbers).await?;
    let mut answers = Placed::new();
    for ((place, command, row), number) in seen.iter().zip(&numbers) {
        let answer = match command.request.fingerprint().compare(&row.request_hash) {
            FingerprintMatch::Differs(fields) => {
                metrics::counter!("oncepay_gate_closed_total", "gate" => "G4", "reason" => "key_reused")
                    .increment(1);
                Err(key_reused(&fields))
            }
            FingerprintMatch::Same => {
                // The refund commits with the key that points to it.
                let refund = refunds.get(number).cloned().ok_or(sqlx::Error::RowNotFound)?;
                if refund.refund_no == command.refund_no {
                    // Our own earlier run, whose commit was not heard of.
                    Ok(Outcome::Created(refund))
                } else {
                    metrics::counter!("oncepay_gate_closed_total", "gate" => "G4", "reason" => "replayed")
                        .increment(1);
                    Ok(Outcome::Replayed(refund, row.created_at))
                }
            }
        };
        answers.push((*place, answer));
    }
    Ok(answers)
}

fn closed(reason: &'static str) {
    metrics::counter!("oncepay_gate_closed_total", "gate" => "G10", "reason" => reason).increment(1);
}
