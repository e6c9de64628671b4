//! Beginning a payment: gates G1 (key), G2 (single flight), G3 (lease), then the core.
//!
//! The hole: a person clicks twice, on two devices; a gateway repeats a call; identical calls reach two processes before
//! any row exists. The guarantee: of the calls for one attempt of one order that are under way, one process works at a
//! time, and calls of one process share its answer. It is quiet and speed, not truth: with both gates open the core and
//! its database give the same result.

use std::sync::Arc;
use std::time::Duration;

use contract::core::payment_core_client::PaymentCoreClient;
use contract::key;
use contract::order::{CreatePaymentRequest, CreatePaymentResponse, Disposition};
use contract::reason::{self, Reason, Refusal};
use contract::validate::PaymentRequest;
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

/// An answer of the core, in a form that can be shared.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) response: CreatePaymentResponse,
    pub(crate) metadata: MetadataMap,
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

type Told = Result<Answer, Status>;
/// Merchant, order, attempt.
type Attempt = (String, String, u16);

/// The use case.
#[derive(Debug, Clone)]
pub(crate) struct BeginPayment {
    core: Core,
    leases: Leases,
    flight: Arc<Flight<Attempt, Asked, Told>>,
    switches: Switches,
}

impl BeginPayment {
    pub(crate) fn new(core: Core, leases: Leases, switches: Switches) -> Self {
        Self { core, leases, flight: Arc::default(), switches }
    }

    /// Begins a payment within `deadline`. `wire` is the request as it came, `request` the same, checked.
    pub(crate) async fn begin(
        &self,
        request: &PaymentRequest,
        wire: CreatePaymentRequest,
        deadline: Instant,
    ) -> Result<Response<CreatePaymentResponse>, Status> {
        let asked = Asked {
            idempotency_key: request.idempotency_key.as_str().to_owned(),
            fingerprint: request.fingerprint(),
        };
        let work = self.work(request, &asked, wire.clone());
        if request.validate_only || !self.switches.is_on(Gate::G2) {
            return timeout_at(deadline, work).await.map_err(|_| in_progress())?.map(respond);
        }
        let attempt =
            (request.merchant_id.to_string(), request.order_no.to_string(), request.attempt_no.get());
        if let Some(leader) = self.flight.under_way(&attempt) {
            asked.refuse_other_body(&leader.idempotency_key, leader.fingerprint.as_bytes())?;
            if !request.wait_if_in_progress {
                return Err(in_progress());
            }
        }
        let shared = self.flight.share(attempt, asked.clone(), work);
        match timeout_at(deadline, shared).await.map_err(|_| in_progress())? {
            Ok(Shared::Led(answer)) => answer.map(respond),
            Ok(Shared::Followed(leader, answer)) if leader == asked => {
                metrics::counter!("oncepay_gate_closed_total", "gate" => "G2", "reason" => "shared")
                    .increment(1);
                answer.map(|answer| respond(followed(answer)))
            }
            // Another key, or another body under the same key: its own answer, now that the order's first call is done.
            Ok(Shared::Followed(..)) => {
                let work = self.work(request, &asked, wire);
                timeout_at(deadline, work).await.map_err(|_| in_progress())?.map(respond)
            }
            Err(Lost) => Err(unavailable()),
        }
    }

    /// The work of one flight; not tied to any caller.
    fn work(
        &self,
        request: &PaymentRequest,
        asked: &Asked,
        wire: CreatePaymentRequest,
    ) -> impl Future<Output = Told> + Send + use<> {
        let (this, asked) = (self.clone(), asked.clone());
        let key = format!("pay:lock:{}:{}:{}", request.merchant_id, request.order_no, request.attempt_no);
        let wait = request.wait_if_in_progress;
        let leased = !request.validate_only && self.switches.is_on(Gate::G3);
        let work = async move {
            let lease = leased.then_some((key.as_str(), &asked));
            timeout(WORK_MAX, this.under_lease(lease, wait, wire))
                .await
                .unwrap_or_else(|_| Err(in_progress()))
        };
        work.instrument(tracing::info_span!("order_api.begin_payment"))
    }

    async fn under_lease(
        &self,
        lease: Option<(&str, &Asked)>,
        wait: bool,
        wire: CreatePaymentRequest,
    ) -> Result<Answer, Status> {
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

    async fn call(&self, wire: CreatePaymentRequest) -> Result<Answer, Status> {
        let response = self.core.clone().create_payment(Request::new(wire)).await.map_err(of_core)?;
        let (metadata, response, _) = response.into_parts();
        Ok(Answer { response, metadata })
    }
}

/// A follower did not create: for it the payment is a repeat's.
fn followed(mut answer: Answer) -> Answer {
    if answer.response.disposition() == Disposition::Created {
        answer.response.set_disposition(Disposition::Replayed);
        answer.metadata.insert(key::REPLAYED, tonic::metadata::MetadataValue::from_static("true"));
    }
    answer
}

fn respond(answer: Answer) -> Response<CreatePaymentResponse> {
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
    Refusal::new(
        Reason::InProgress,
        "the first call for this order is still running; send the same key again",
    )
    .retry_after(IN_PROGRESS_RETRY)
    .into()
}
