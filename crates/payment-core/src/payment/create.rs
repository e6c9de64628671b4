//! Creating payments. Gates G4 (idempotent log) and G5 (unique order).
//!
//! The hole: two requests race before either row exists; a key comes again, with the same body or another. The guarantee:
//! one transaction claims the keys, inserts the payments and writes their events, or nothing of a command is written. A
//! batch behaves as if its commands had run one by one, and a refused command never spoils its neighbours: it gives its
//! key back inside the same transaction.
//!
//! ```text
//! claim keys ──first──► insert payments ──inserted──► PAY_CREATED + outbox          CREATED
//!     │                        └─left out─► who is there? ─same terms─► point key   JOINED
//!     │                                               └─other───────► forget key    refused
//!     └─seen──► same fingerprint? ─yes─► read payment                               REPLAYED
//!                            └─no──────────────────────────────────────────────────► refused
//! ```
//!
//! The caller (`grpc/create_payment.rs`) dispatches to the channel after the commit, never inside.

use std::collections::{HashMap, HashSet};

use contract::reason::{Reason, Refusal, key_reused};
use contract::validate::PaymentRequest;
use idempotency::log::{self, Claim, Claimed, LogRow};
use pay_types::{ChannelAccount, Fingerprint, FingerprintMatch, Gate, PayNo, PaymentState};
use service_kit::switch::{Switches, kill_point};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use crate::Error;
use crate::payment::{NewPayment, Payment, event, transaction, waves};
use crate::store;

/// A checked command to create a payment.
#[derive(Debug, Clone)]
pub(crate) struct Create {
    pub(crate) biz_key: String,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) payment: NewPayment,
    /// The wished expiry is past or near. Told only if the payment is new: an old request that comes again must still
    /// find its payment.
    pub(crate) too_late: bool,
}

impl Create {
    /// The command for a request, under a number that was made for it.
    pub(crate) fn new(request: &PaymentRequest, account: ChannelAccount, made: Made) -> Self {
        let expire_at = contract::validate::expiry_of_new_payment(request.expire_at, made.now);
        let metadata =
            request.metadata.iter().map(|(k, v)| (k.clone(), serde_json::Value::from(v.clone()))).collect();
        Self {
            biz_key: biz_key(request.merchant_id.as_str(), request.idempotency_key.as_str()),
            fingerprint: request.fingerprint(),
            payment: NewPayment {
                pay_no: made.pay_no,
                merchant_id: request.merchant_id.clone(),
                order_no: request.order_no.clone(),
                attempt_no: request.attempt_no,
                amount: request.amount,
                channel: request.channel,
                channel_account: account,
                subject: request.subject.clone(),
                expire_at: *expire_at.as_ref().unwrap_or(&made.now),
                next_query_at: made.next_query_at,
                metadata: serde_json::Value::Object(metadata),
                traceparent: made.traceparent,
                created_at: made.now,
            },
            too_late: expire_at.is_err(),
        }
    }
}

/// What the caller made for a new payment: its number, its times, its trace.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) pay_no: PayNo,
    pub(crate) now: OffsetDateTime,
    pub(crate) next_query_at: OffsetDateTime,
    pub(crate) traceparent: Option<String>,
}

/// Key of the log row of a creation: scoped by merchant and operation.
pub(crate) fn biz_key(merchant_id: &str, idempotency_key: &str) -> String {
    format!("PAY:CREATE:{merchant_id}:{idempotency_key}")
}

/// How a command ended well.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Created(Payment),
    /// With the time at which the key was first seen.
    Replayed(Payment, OffsetDateTime),
    Joined(Payment),
}

impl Outcome {
    pub(crate) fn into_payment(self) -> Payment {
        match self {
            Self::Created(payment) | Self::Replayed(payment, _) | Self::Joined(payment) => payment,
        }
    }
}

pub(crate) type Answer = Result<Outcome, Refusal>;

/// Creates payments; each command gets its own answer, in the order given. Commands about one key or one order go into
/// transactions one after another, all others into one: a batch behaves as if its commands had run one by one.
pub(crate) async fn create(
    pool: &PgPool,
    commands: &[Create],
    switches: Switches,
    validate_only: bool,
) -> Result<Vec<Answer>, Error> {
    let mut answers: Vec<Option<Answer>> = vec![None; commands.len()];
    for (place, answer) in known(pool, commands, switches).await? {
        put(&mut answers, place, answer);
    }
    let open: Vec<usize> =
        (0..commands.len()).filter(|place| !matches!(answers.get(*place), Some(Some(_)))).collect();
    let names = |command: &Create| {
        let order = format!("O{}:{}", command.payment.merchant_id, command.payment.order_no);
        [format!("K{}", command.biz_key), order]
    };
    for wave in waves::of(open.iter().filter_map(|place| commands.get(*place)).map(names)) {
        let wave: Vec<usize> = wave.iter().filter_map(|place| open.get(*place).copied()).collect();
        let batch: Vec<&Create> = wave.iter().filter_map(|place| commands.get(*place)).collect();
        let told = transaction::run("create", || async {
            let mut tx = pool.begin().await?;
            let told = decide(&mut tx, &batch, switches).await?;
            kill_point("payment_core.create.before_commit");
            if validate_only {
                tx.rollback().await?;
            } else {
                tx.commit().await.map_err(Error::CommitUnheard)?;
            }
            kill_point("payment_core.create.after_commit");
            Ok(told)
        })
        .await?;
        for (place, answer) in wave.into_iter().zip(told) {
            put(&mut answers, place, answer);
        }
    }
    answers.into_iter().collect::<Option<Vec<_>>>().ok_or(Error::Overtaken)
}

/// Gate G4 for keys that were known before: a duplicate costs two reads, and neither a transaction nor a commit. A key that is
/// not seen here may still turn out to be known inside the transaction, which decides.
async fn known(pool: &PgPool, commands: &[Create], switches: Switches) -> Result<Placed, Error> {
    if !switches.is_on(Gate::G4) {
        return Ok(Vec::new());
    }
    let mut connection = pool.acquire().await?;
    let keys: Vec<String> = commands.iter().map(|command| command.biz_key.clone()).collect();
    let rows = log::find_all(&mut connection, &keys).await?;
    let seen: Vec<(usize, &Create, LogRow)> = commands
        .iter()
        .enumerate()
        .filter_map(|(place, command)| Some((place, command, rows.get(&command.biz_key)?.clone())))
        .collect();
    replay(&mut connection, &seen).await
}

async fn decide(
    tx: &mut PgConnection,
    commands: &[&Create],
    switches: Switches,
) -> Result<Vec<Answer>, Error> {
    let claimed = claim(tx, commands, switches).await?;
    kill_point("payment_core.create.after_claim");
    let mut answers: Vec<Option<Answer>> = vec![None; commands.len()];
    let mut first = Vec::new();
    let mut seen = Vec::new();
    for (place, (command, claimed)) in commands.iter().zip(claimed).enumerate() {
        match claimed {
            Claimed::First => first.push((place, *command)),
            Claimed::Seen(row) => seen.push((place, *command, row)),
        }
    }
    for (place, answer) in insert(tx, &first, switches).await? {
        put(&mut answers, place, answer);
    }
    for (place, answer) in replay(tx, &seen).await? {
        put(&mut answers, place, answer);
    }
    answers.into_iter().collect::<Option<Vec<_>>>().ok_or(Error::Overtaken)
}

fn put(answers: &mut [Option<Answer>], place: usize, answer: Answer) {
    if let Some(slot) = answers.get_mut(place) {
        *slot = Some(answer);
    }
}

/// Gate G4.
async fn claim(
    tx: &mut PgConnection,
    commands: &[&Create],
    switches: Switches,
) -> Result<Vec<Claimed>, Error> {
    if !switches.is_on(Gate::G4) {
        return Ok(vec![Claimed::First; commands.len()]);
    }
    let claims: Vec<Claim> = commands
        .iter()
        .map(|command| Claim {
            biz_key: command.biz_key.clone(),
            request_hash: command.fingerprint.as_bytes().to_vec(),
            result_no: command.payment.pay_no.to_string(),
        })
        .collect();
    Ok(log::claim_in_tx(tx, &claims).await?)
}

type Placed = Vec<(usize, Answer)>;

/// Gate G5: inserts the payments of new keys, and resolves those whose order was there before.
async fn insert(
    tx: &mut PgConnection,
    first: &[(usize, &Create)],
    switches: Switches,
) -> Result<Placed, Error> {
    if first.is_empty() {
        return Ok(Vec::new());
    }
    let (late, good): (Vec<_>, Vec<_>) = first.iter().partition(|(_, command)| command.too_late);
    let mut answers: Placed = late.iter().map(|(place, _)| (*place, Err(too_late()))).collect();
    let payments: Vec<&NewPayment> = good.iter().map(|(_, command)| &command.payment).collect();
    let inserted = store::payment::insert_in_tx(tx, &payments).await?;
    kill_point("payment_core.create.after_payment");
    let (new, left_out): (Vec<(usize, &Create)>, Vec<_>) =
        good.into_iter().partition(|(_, command)| inserted.contains(command.payment.pay_no.as_str()));
    let events = new
        .iter()
        .map(|(_, command)| event::created(&command.payment, "CREATE_PAYMENT"))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some((_, any)) = first.first() {
        store::event::append_in_tx(tx, &events, any.payment.created_at).await?;
    }
    kill_point("payment_core.create.after_event");
    answers.extend(
        new.iter().map(|(place, command)| (*place, Ok(Outcome::Created(as_created(&command.payment))))),
    );
    answers.extend(resolve(tx, &left_out).await?);
    if switches.is_on(Gate::G4) {
        settle_keys(tx, first, &answers).await?;
    }
    Ok(answers)
}

/// Those whose order's attempt, or another live payment, stood in the way: the same purchase joins, another is refused.
async fn resolve(tx: &mut PgConnection, left_out: &[(usize, &Create)]) -> Result<Placed, Error> {
    if left_out.is_empty() {
        return Ok(Vec::new());
    }
    metrics::counter!("oncepay_gate_closed_total", "gate" => "G5", "reason" => "order_exists")
        .increment(u64::try_from(left_out.len()).unwrap_or(0));
    let orders: Vec<_> = left_out
        .iter()
        .map(|(_, command)| (&command.payment.merchant_id, &command.payment.order_no))
        .collect();
    let there = store::payment::of_orders_in_tx(tx, &orders).await?;
    left_out
        .iter()
        .map(|(place, command)| {
            let rivals = there.iter().filter(|payment| {
                payment.merchant_id == command.payment.merchant_id
                    && payment.order_no == command.payment.order_no
            });
            // Nobody there any more: the rival left between the two statements. Run the transaction again.
            let answer = judge_rivals(&command.payment, rivals).ok_or(sqlx::Error::RowNotFound)?;
            Ok((*place, answer))
        })
        .collect()
}

/// Decides between a new payment and those of the same order; `None` when none of them stands in its way.
fn judge_rivals<'a>(new: &NewPayment, rivals: impl Iterator<Item = &'a Payment> + Clone) -> Option<Answer> {
    if let Some(same) = rivals.clone().find(|rival| rival.attempt_no == new.attempt_no) {
        let differing = differing_terms(new, same);
        if differing.is_empty() {
            return Some(Ok(Outcome::Joined(same.clone())));
        }
        return Some(Err(refuse_for(same, &differing)));
    }
    rivals
        .into_iter()
        .find(|rival| matches!(rival.state, PaymentState::Processing | PaymentState::Success))
        .map(|live| Err(refuse_for(live, &[])))
}

fn differing_terms(new: &NewPayment, rival: &Payment) -> Vec<&'static str> {
    [
        ("amount", new.amount.minor() != rival.amount.minor()),
        ("currency", new.amount.currency() != rival.amount.currency()),
        ("channel", new.channel != rival.channel),
        ("channel_account", new.channel_account != rival.channel_account),
    ]
    .into_iter()
    .filter_map(|(field, differs)| differs.then_some(field))
    .collect()
}

fn refuse_for(rival: &Payment, differing: &[&'static str]) -> Refusal {
    let (reason, words) = match rival.state {
        PaymentState::Success => (Reason::OrderAlreadyPaid, "the order was paid"),
        PaymentState::Processing => {
            (Reason::OrderHasLivePayment, "the order has a payment in process; close it before a new attempt")
        }
        PaymentState::Fail | PaymentState::Closed => {
            (Reason::OrderAttemptTaken, "this attempt has ended on other terms; use the next attempt_no")
        }
    };
    let refusal = Refusal::new(reason, format!("{words}: {}", rival.pay_no))
        .with("pay_no", rival.pay_no.as_str())
        .with("state", rival.state.as_str());
    differing.iter().fold(refusal, |refusal, field| refusal.field(*field, "differs from the order's payment"))
}

fn too_late() -> Refusal {
    contract::validate::invalid(pay_types::Invalid::new("expire_at", "must be at least one minute ahead"))
}

/// Keys of joined commands point to the payment that they joined; keys of refused ones are free again.
async fn settle_keys(
    tx: &mut PgConnection,
    first: &[(usize, &Create)],
    answers: &Placed,
) -> Result<(), Error> {
    let keys: HashMap<usize, &str> =
        first.iter().map(|(place, command)| (*place, command.biz_key.as_str())).collect();
    let (mut moves, mut free) = (Vec::new(), Vec::new());
    for (place, answer) in answers {
        let Some(key) = keys.get(place) else { continue };
        match answer {
            Ok(Outcome::Joined(payment)) => moves.push(((*key).to_owned(), payment.pay_no.to_string())),
            Ok(Outcome::Created(_) | Outcome::Replayed(..)) => {}
            Err(_) => free.push((*key).to_owned()),
        }
    }
    log::repoint_in_tx(tx, &moves).await?;
    log::forget_in_tx(tx, &free).await?;
    Ok(())
}

/// Known keys: the same request gets its payment in its current state, another request is refused with the fields that
/// differ.
async fn replay(tx: &mut PgConnection, seen: &[(usize, &Create, LogRow)]) -> Result<Placed, Error> {
    if seen.is_empty() {
        return Ok(Vec::new());
    }
    let numbers = seen
        .iter()
        .map(|(_, _, row)| row.result_no.parse())
        .collect::<Result<HashSet<PayNo>, _>>()
        .map_err(Error::Corrupt)?;
    let numbers: Vec<PayNo> = numbers.into_iter().collect();
    let payments = store::payment::by_numbers_in_tx(tx, &numbers).await?;
    seen.iter()
        .map(|(place, command, row)| {
            let answer = match command.fingerprint.compare(&row.request_hash) {
                FingerprintMatch::Differs(fields) => {
                    closed("key_reused");
                    Err(key_reused(&fields))
                }
                FingerprintMatch::Same => {
                    // The payment commits with the key that points to it.
                    let payment = payments
                        .values()
                        .find(|payment| payment.pay_no.as_str() == row.result_no)
                        .cloned()
                        .ok_or(sqlx::Error::RowNotFound)?;
                    if payment.pay_no == command.payment.pay_no {
                        // Our own earlier run, whose commit was not heard of.
                        Ok(Outcome::Created(payment))
                    } else {
                        closed("replayed");
                        Ok(Outcome::Replayed(payment, row.created_at))
                    }
                }
            };
            Ok((*place, answer))
        })
        .collect()
}

fn closed(reason: &'static str) {
    metrics::counter!("oncepay_gate_closed_total", "gate" => "G4", "reason" => reason).increment(1);
}

/// The row that an insert has just made.
fn as_created(new: &NewPayment) -> Payment {
    Payment {
        pay_no: new.pay_no.clone(),
        merchant_id: new.merchant_id.clone(),
        order_no: new.order_no.clone(),
        attempt_no: new.attempt_no,
        amount: new.amount,
        channel: new.channel,
        channel_account: new.channel_account.clone(),
        subject: new.subject.clone(),
        state: PaymentState::Processing,
        version: 1,
        channel_txn_id: None,
        paid_at: None,
        credential: None,
        last_error: None,
        refunded: 0,
        refund_reserved: 0,
        channel_order_no: None,
        expire_at: new.expire_at,
        dispatched_at: None,
        metadata: new.metadata.clone(),
        traceparent: new.traceparent.clone(),
        created_at: new.created_at,
        updated_at: new.created_at,
    }
}
