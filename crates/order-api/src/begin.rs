//! Beginning a payment or a refund: gates G1 (key), G2 (single flight), G3 (lease), then the core.
//!
//! The hole: a person clicks twice, on two devices; a gateway repeats a call; identical calls reach two processes before
//! any row exists. The guarantee: of the calls for one attempt of one order, or for one request to refund, that are under way,
//! one process works at a time, and calls of one process share its answer. It is quiet and speed, not truth: with both gates open the core and
//! its database give the same result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use contract::core::payment_core_client::PaymentCoreClient;
use contract::key;
use contract::order::{
    CreatePaymentRequest, CreatePaymentResponse, CreateRefundRequest, CreateRefundResponse, Disposition,
};
use contract::reason::{self, Reason, Refusal};
use contract::validate::{PaymentRequest, RefundRequest};
use idempotency::flight::{Flight, Lost, Shared};
use idempotency::lease::{Acquired, Lease, Leases};
use pay_types::{Fingerprint, FingerprintMatch, Gate};
use service_kit::grpc::CarryTrace;
use service_kit::switch::Switches;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::metadata::MetadataMap;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tracing::Instrument as _;

/// Longest life of the shared work, whoever waits for it; the core answers or fails within it.
const WORK_MAX: Duration = Duration::from_secs(12);
/// Pause between two looks at a busy lease.
const LEASE_POLL: Duration = Duration::from_millis(10);
/// How long a caller should wait when its first call is still running.
const IN_PROGRESS_RETRY: Duration = Duration::from_millis(200);

/// A client of the core that carries the trace.
pub(crate) type Core = PaymentCoreClient<InterceptedService<Channel, CarryTrace>>;

/// A call of the core that is to take effect once.
pub(crate) trait Operation: fmt::Debug + Send + Sync + 'static {
    type Wire: Clone + Send + Sync + 'static;
    type Answered: Clone + fmt::Debug + Send + Sync + 'static;

    fn call(
        core: Core,
        wire: Self::Wire,
    ) -> impl Future<Output = Result<Response<Self::Answered>, Status>> + Send;

    /// A follower did not create: for it the answer is a repeat's. True: it was a creation's.
    fn follow(answered: &mut Self::Answered) -> bool;
}

/// `CreatePayment`.
#[derive(Debug)]
pub(crate) struct CreatePayment;

impl Operation for CreatePayment {
    type Wire = CreatePaymentRequest;
    type Answered = CreatePaymentResponse;

    async fn call(mut core: Core, wire: Self::Wire) -> Result<Response<Self::Answered>, Status> {
        core.create_payment(Request::new(wire)).await
    }

    fn follow(answered: &mut Self::Answered) -> bool {
        let created = answered.disposition() == Disposition::Created;
        if created {
            answered.set_disposition(Disposition::Replayed);
        }
        created
    }
}

/// `CreateRefund`.
#[derive(Debug)]
pub(crate) struct CreateRefund;

impl Operation for CreateRefund {
    type Wire = CreateRefundRequest;
    type Answered = CreateRefundResponse;

    async fn call(mut core: Core, wire: Self::Wire) -> Result<Response<Self::Answered>, Status> {
        core.create_refund(Request::new(wire)).await
    }

    fn follow(answered: &mut Self::Answered) -> bool {
        let created = answered.disposition() == Disposition::Created;
        if created {
            answered.set_disposition(Disposition::Replayed);
        }
        created
    }
}

/// What gates G2 and G3 look at in a checked request.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    /// Name of what is to happen once; the lease's key.
    lock: String,
    asked: Asked,
    wait: bool,
    validate_only: bool,
}

impl From<&PaymentRequest> for Asking {
    fn from(request: &PaymentRequest) -> Self {
        Self {
            lock: format!("pay:lock:{}:{}:{}", request.merchant_id, request.order_no, request.attempt_no),
            asked: Asked {
                idempotency_key: request.idempotency_key.as_str().to_owned(),
                fingerprint: request.fingerprint(),
            },
            wait: request.wait_if_in_progress,
            validate_only: request.validate_only,
        }
    }
}

impl From<&RefundRequest> for Asking {
    fn from(request: &RefundRequest) -> Self {
        let (merchant, pay_no, number) = (&request.merchant_id, &request.pay_no, &request.refund_request_no);
        Self {
            lock: format!("refund:lock:{merchant}:{pay_no}:{number}"),
            asked: Asked {
                idempotency_key: request.idempotency_key.as_str().to_owned(),
                fingerprint: request.fingerprint(),
            },
            wait: request.wait_if_in_progress,
            validate_only: request.validate_only,
        }
    }
}

/// An answer of the core, in a form that can be shared.
#[derive(Debug, Clone)]
struct Answer<T> {
    response: T,
    metadata: MetadataMap,
}

/// What a call asks: which key is used for which body.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    idempotency_key: String,
    fingerprint: Fingerprint,
}

impl Asked {
    /// As a lease's note, for the calls of other processes.
    fn note(&self) -> String {
        format!("{}:{}", hex::encode(self.fingerprint.as_bytes()), self.idempotency_key)
    }

    /// A key that is in use for another body is refused at once, before *in progress*: waiting could not help.
    fn refuse_other_body(&self, idempotency_key: &str, fingerprint: &[u8]) -> Result<(), Status> {
        if self.idempotency_key != idempotency_key {
            return Ok(());
        }
        match self.fingerprint.compare(fingerprint) {
            FingerprintMatch::Same => Ok(()),
            FingerprintMatch::Differs(fields) => Err(reason::key_reused(&fields).into()),
        }
    }

    /// The same for the note of a busy lease; a note that cannot be read tells nothing.
    fn refuse_other_note(&self, note: &str) -> Result<(), Status> {
        let Some((fingerprint, key)) = note.split_once(':') else { return Ok(()) };
        hex::decode(fingerprint).map_or(Ok(()), |fingerprint| self.refuse_other_body(key, &fingerprint))
    }
}

type Told<T> = Result<Answer<T>, Status>;
type Flights<T> = Arc<Flight<String, Asked, Told<T>>>;

/// The use case.
#[derive(Debug)]
pub(crate) struct Begin<O: Operation> {
    core: Core,
    leases: Leases,
    flight: Flights<O::Answered>,
    switches: Switches,
}

impl<O: Operation> Clone for Begin<O> {
    fn clone(&self) -> Self {
        Self {
            core: self.core.clone(),
            leases: self.leases.clone(),
            flight: Arc::clone(&self.flight),
            switches: self.switches,
        }
    }
}

impl<O: Operation> Begin<O> {
    pub(crate) fn new(core: Core, leases: Leases, switches: Switches) -> Self {
        Self { core, leases, flight: Arc::default(), switches }
    }

    /// Begins within `deadline`. `wire` is the request as it came, `asking` what the gates look at in it, checked.
    pub(crate) async fn begin(
        &self,
        asking: Asking,
        wire: O::Wire,
        deadline: Instant,
    ) -> Result<Response<O::Answered>, Status> {
        let work = self.work(&asking, wire.clone());
        if asking.validate_only || !self.switches.is_on(Gate::G2) {
            return timeout_at(deadline, work).await.map_err(|_| in_progress())?.map(respond);
        }
        let asked = &asking.asked;
        if let Some(leader) = self.flight.under_way(&asking.lock) {
            asked.refuse_other_body(&leader.idempotency_key, leader.fingerprint.as_bytes())?;
            if !asking.wait {
                return Err(in_progress());
            }
        }
        let shared = self.flight.share(asking.lock.clone(), asked.clone(), work);
        match timeout_at(deadline, shared).await.map_err(|_| in_progress())? {
            Ok(Shared::Led(answer)) => answer.map(respond),
            Ok(Shared::Followed(leader, answer)) if leader == *asked => {
                metrics::counter!("oncepay_gate_closed_total", "gate" => "G2", "reason" => "shared")
                    .increment(1);
                answer.map(|answer| respond(followed::<O>(answer)))
            }
            // Another key, or another body under the same key: its own answer, now that the first call is done.
            Ok(Shared::Followed(..)) => {
                let work = self.work(&asking, wire);
                timeout_at(deadline, work).await.map_err(|_| in_progress())?.map(respond)
            }
            Err(Lost) => Err(unavailable()),
        }
    }

    /// The work of one flight; not tied to any caller.
    fn work(
        &self,
        asking: &Asking,
        wire: O::Wire,
    ) -> impl Future<Output = Told<O::Answered>> + Send + use<O> {
        let (this, asking) = (self.clone(), asking.clone());
        let leased = !asking.validate_only && self.switches.is_on(Gate::G3);
        let work = async move {
            let lease = leased.then_some((asking.lock.as_str(), &asking.asked));
            timeout(WORK_MAX, this.under_lease(lease, asking.wait, wire))
                .await
                .unwrap_or_else(|_| Err(in_progress()))
        };
        work.instrument(tracing::info_span!("order_api.begin"))
    }

    async fn under_lease(
        &self,
        lease: Option<(&str, &Asked)>,
        wait: bool,
        wire: O::Wire,
    ) -> Told<O::Answered> {
        let lease = match lease {
            Some((key, asked)) => self.lease(key, asked, wait).await?,
            None => None,
        };
        let answer = match &lease {
            Some(held) => tokio::select! {
                answer = self.call(wire) => answer,
                // The lease went to another process while we worked: stop, and let the caller ask again. Whatever the core
                // has begun, the same key finds.
                () = held.lost() => Err(in_progress()),
            },
            None => self.call(wire).await,
        };
        if let Some(lease) = lease {
            lease.release().await;
        }
        answer
    }

    /// Gate G3. `None`: Redis does not answer, and the gate stands open.
    async fn lease(&self, key: &str, asked: &Asked, wait: bool) -> Result<Option<Lease>, Status> {
        let (note, mut counted) = (asked.note(), false);
        loop {
            match self.leases.acquire(key, &note).await {
                Acquired::Held(lease) => return Ok(Some(lease)),
                Acquired::Open => return Ok(None),
                Acquired::Busy { note } => asked.refuse_other_note(&note)?,
            }
            if !counted {
                metrics::counter!("oncepay_gate_closed_total", "gate" => "G3", "reason" => "busy")
                    .increment(1);
                counted = true;
            }
            if !wait {
                return Err(in_progress());
            }
            tokio::time::sleep(LEASE_POLL).await;
        }
    }

    async fn call(&self, wire: O::Wire) -> Told<O::Answered> {
        let response = O::call(self.core.clone(), wire).await.map_err(of_core)?;
        let (metadata, response, _) = response.into_parts();
        Ok(Answer { response, metadata })
    }
}

fn followed<O: Operation>(mut answer: Answer<O::Answered>) -> Answer<O::Answered> {
    if O::follow(&mut answer.response) {
        answer.metadata.insert(key::REPLAYED, tonic::metadata::MetadataValue::from_static("true"));
    }
    answer
}

fn respond<T>(answer: Answer<T>) -> Response<T> {
    let mut response = Response::new(answer.response);
    for name in [key::REPLAYED, key::FIRST_SEEN, key::EXPIRES_AT] {
        if let Some(value) = answer.metadata.get(name) {
            response.metadata_mut().insert(name, value.clone());
        }
    }
    response
}

/// The core's own refusals pass as they are; a core that cannot be reached is told with a remedy.
pub(crate) fn of_core(status: Status) -> Status {
    if reason::of_status(&status).is_some() { status } else { unreachable_core(&status) }
}

fn unreachable_core(status: &Status) -> Status {
    tracing::warn!(code = ?status.code(), message = status.message(), "payment-core does not answer");
    unavailable()
}

fn unavailable() -> Status {
    Refusal::new(Reason::Unavailable, "payments cannot be taken right now; send the same key again")
        .retry_after(Duration::from_millis(500))
        .into()
}

fn in_progress() -> Status {
    Refusal::new(Reason::InProgress, "the first call for this is still running; send the same key again")
        .retry_after(IN_PROGRESS_RETRY)
        .into()
}
