//! What should be true, kept beside the system from what was asked and what was answered. It never looks at a database.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use contract::order::{CreatePaymentRequest, CreateRefundRequest, Payment, PaymentState, Refund};
use contract::reason::Reason;

/// Merchant and key.
type Key = (String, String);
/// Merchant, order, attempt.
type Attempt = (String, String, i32);

/// A stored request: what a good client keeps before its first send.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) request: CreatePaymentRequest,
    /// The first answer's payment.
    pub(super) pay_no: Option<String>,
}

#[derive(Debug, Default)]
struct Inner {
    keys: BTreeMap<Key, Asked>,
    attempts: BTreeMap<Attempt, String>,
    /// Refunds by payment and the shop's number.
    refunds: BTreeMap<(String, String), String>,
    ended: BTreeMap<String, PaymentState>,
    findings: Vec<String>,
    operations: BTreeMap<&'static str, u64>,
    calls: u64,
    calls_in_flight: u64,
}

/// What is known of all purchases.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    inner: Mutex<Inner>,
}

/// A call that is under way; gone when dropped.
#[derive(Debug)]
pub(super) struct InFlight<'a>(&'a Shadow);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.calls_in_flight = inner.calls_in_flight.saturating_sub(1);
    }
}

impl Shadow {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, operation: &'static str) {
        let mut inner = self.lock();
        let count = inner.operations.entry(operation).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn call(&self) -> InFlight<'_> {
        let mut inner = self.lock();
        inner.calls = inner.calls.saturating_add(1);
        inner.calls_in_flight = inner.calls_in_flight.saturating_add(1);
        InFlight(self)
    }

    /// Stored before it is sent.
    pub(super) fn asked(&self, request: &CreatePaymentRequest) {
        let asked = Asked { request: request.clone(), pay_no: None };
        self.lock().keys.entry(key(request)).or_insert(asked);
    }

    /// An answer: one key, one payment; one attempt, one payment; on the terms that were asked.
    pub(super) fn answered(&self, request: &CreatePaymentRequest, payment: &Payment) {
        let mut inner = self.lock();
        let told = payment.pay_no.clone();
        let mut wrong = Vec::new();
        if payment.amount != request.amount || payment.order_no != request.order_no {
            wrong.push(format!(
                "key {} was answered with payment {told} of other terms",
                request.idempotency_key
            ));
        }
        if let Some(asked) = inner.keys.get_mut(&key(request)) {
            let first = asked.pay_no.get_or_insert_with(|| told.clone());
            if *first != told {
                wrong.push(format!("key {} led to {first} and to {told}", request.idempotency_key));
            }
        }
        let attempt = (request.merchant_id.clone(), request.order_no.clone(), request.attempt_no);
        let first = inner.attempts.entry(attempt).or_insert_with(|| told.clone());
        if *first != told {
            wrong.push(format!("order {} has {first} and {told} for one attempt", request.order_no));
        }
        inner.findings.extend(wrong);
        drop(inner);
        self.seen(payment);
    }

    /// An answer: one request to refund, one refund, on the terms that were asked.
    pub(super) fn given_back(&self, request: &CreateRefundRequest, refund: &Refund) {
        let told = refund.refund_no.clone();
        if refund.amount != request.amount || refund.pay_no != request.pay_no {
            self.found(format!("refund {told} was made on other terms"));
        }
        let key = (request.pay_no.clone(), request.refund_request_no.clone());
        let first = self.lock().refunds.entry(key).or_insert_with(|| told.clone()).clone();
        if first != told {
            self.found(format!("request {} led to {first} and to {told}", request.refund_request_no));
        }
    }

    /// A final refusal of a request that is good in itself. Only another attempt of the order may stand in its way.
    pub(super) fn refused(&self, request: &CreatePaymentRequest, reason: Reason) {
        let mut inner = self.lock();
        let known = inner.keys.get(&key(request)).is_some_and(|asked| asked.pay_no.is_some());
        let others = inner.keys.values().any(|asked| {
            asked.request.merchant_id == request.merchant_id
                && asked.request.order_no == request.order_no
                && asked.request.attempt_no != request.attempt_no
        });
        let by_another = matches!(reason, Reason::OrderHasLivePayment | Reason::OrderAlreadyPaid);
        if known || !others || !by_another {
            inner.findings.push(format!("key {} was refused: {}", request.idempotency_key, reason.as_str()));
        }
    }

    /// A payment as someone read it: an end is never left.
    pub(super) fn seen(&self, payment: &Payment) {
        let state = payment.state();
        if matches!(state, PaymentState::Processing | PaymentState::Unspecified) {
            let inner = self.lock();
            let ended = inner.ended.get(&payment.pay_no).copied();
            drop(inner);
            if let Some(ended) = ended {
                self.found(format!("{} was {ended:?} and is in process again", payment.pay_no));
            }
            return;
        }
        let first = *self.lock().ended.entry(payment.pay_no.clone()).or_insert(state);
        if first != state {
            self.found(format!("{} was {first:?} and is {state:?}", payment.pay_no));
        }
    }

    pub(super) fn found(&self, words: String) {
        let mut inner = self.lock();
        if !inner.findings.contains(&words) {
            inner.findings.push(words);
        }
    }

    pub(super) fn findings(&self) -> Vec<String> {
        self.lock().findings.clone()
    }

    /// Every request that was stored.
    pub(super) fn all_asked(&self) -> Vec<Asked> {
        self.lock().keys.values().cloned().collect()
    }

    pub(super) fn operations(&self) -> BTreeMap<&'static str, u64> {
        self.lock().operations.clone()
    }

    /// Calls so far, and those under way.
    pub(super) fn calls(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.calls, inner.calls_in_flight)
    }
}

fn key(request: &CreatePaymentRequest) -> Key {
    (request.merchant_id.clone(), request.idempotency_key.clone())
}
