//! The catalogue of error reasons: one table, from which `docs/API.md` is made.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

/// `ErrorInfo.domain` of every error.
pub const DOMAIN: &str = "oncepay";

/// What the caller may do, `ErrorInfo.metadata["retryable"]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retryable {
    /// Send the same request again, with the same key.
    SameKey,
    /// Mend the request and send it with a new key.
    NewKey,
    /// Sending again cannot help.
    Never,
}

impl Retryable {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SameKey => "same_key",
            Self::NewKey => "new_key",
            Self::Never => "never",
        }
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $code:ident, $retryable:ident;)+) => {
        /// A stable reason, `ErrorInfo.reason`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            #[must_use]
            pub fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)+ }
            }

            #[must_use]
            pub fn retryable(self) -> Retryable {
                match self { $(Self::$name => Retryable::$retryable,)+ }
            }

            /// What it means, for the documents.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }
        }
    };
}

reasons! {
    /// No idempotency key was sent. Make one, store it, then send.
    IdempotencyKeyMissing = "IDEMPOTENCY_KEY_MISSING", InvalidArgument, NewKey;
    /// The idempotency key is blank, too long or not printable ASCII.
    IdempotencyKeyInvalid = "IDEMPOTENCY_KEY_INVALID", InvalidArgument, NewKey;
    /// The key was used for another request; the fields that differ are named.
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED", FailedPrecondition, NewKey;
    /// A field is missing or wrong; it is named with its rule.
    FieldInvalid = "FIELD_INVALID", InvalidArgument, NewKey;
    /// The order was paid.
    OrderAlreadyPaid = "ORDER_ALREADY_PAID", FailedPrecondition, Never;
    /// Another payment of the order is in process; it is named. Close it before a new attempt.
    OrderHasLivePayment = "ORDER_HAS_LIVE_PAYMENT", FailedPrecondition, NewKey;
    /// This attempt of the order exists on other terms and has ended. Use the next attempt number.
    OrderAttemptTaken = "ORDER_ATTEMPT_TAKEN", FailedPrecondition, NewKey;
    /// The first call with this key is still running.
    InProgress = "IN_PROGRESS", Aborted, SameKey;
    /// No payment of this merchant has this number, order or key.
    PaymentNotFound = "PAYMENT_NOT_FOUND", NotFound, Never;
    /// The payment has not been paid, or can give nothing back: its state is named.
    PaymentNotRefundable = "PAYMENT_NOT_REFUNDABLE", FailedPrecondition, NewKey;
    /// More would go back than was paid and is not on its way back already; what is left is named.
    RefundExceedsPaid = "REFUND_EXCEEDS_PAID", FailedPrecondition, NewKey;
    /// The refunded total would not be the one that the caller expects; it is named.
    RefundTotalUnexpected = "REFUND_TOTAL_UNEXPECTED", FailedPrecondition, NewKey;
    /// This `refund_request_no` stands for a refund on other terms; it is named. Use another number.
    RefundRequestTaken = "REFUND_REQUEST_TAKEN", FailedPrecondition, NewKey;
    /// The refund does not wait for a decision, or the same person asked for it.
    RefundNotDecidable = "REFUND_NOT_DECIDABLE", FailedPrecondition, Never;
    /// No refund of this merchant has this number, request or key.
    RefundNotFound = "REFUND_NOT_FOUND", NotFound, Never;
    /// No account has this code.
    AccountNotFound = "ACCOUNT_NOT_FOUND", NotFound, Never;
    /// No entry has this number or key.
    EntryNotFound = "ENTRY_NOT_FOUND", NotFound, Never;
    /// More work came than can be taken. Wait as `RetryInfo` says.
    Overloaded = "OVERLOADED", ResourceExhausted, SameKey;
    /// A part that the call needs is down. Nothing was acknowledged; wait as `RetryInfo` says.
    Unavailable = "UNAVAILABLE", Unavailable, SameKey;
    /// A fault of ours. The same key is safe to send again.
    Internal = "INTERNAL", Internal, SameKey;
}

/// An error on its way to a caller.
#[derive(Debug, Clone)]
pub struct Refusal {
    reason: Reason,
    message: String,
    fields: Vec<FieldViolation>,
    metadata: HashMap<String, String>,
    retry_after: Option<Duration>,
}

impl Refusal {
    /// `message` is for people: what is wrong, and what to do.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let retryable = ("retryable".to_owned(), reason.retryable().as_str().to_owned());
        Self {
            reason,
            message: message.into(),
            fields: Vec::new(),
            metadata: HashMap::from([retryable]),
            retry_after: None,
        }
    }

    /// Names a field and its rule, `BadRequest.field_violations`.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, rule: impl Into<String>) -> Self {
        self.fields.push(FieldViolation::new(field, rule));
        self
    }

    /// Adds a fact for machines, `ErrorInfo.metadata`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// Tells how long to wait, `RetryInfo`.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// The refusal of a key that was used for another request; `fields` are those that differ, as far as they are known.
#[must_use]
pub fn key_reused(fields: &[&'static str]) -> Refusal {
    let names = if fields.is_empty() { "other fields".to_owned() } else { fields.join(", ") };
    let message = format!("the idempotency key was used for another request ({names} differ); use a new key");
    fields.iter().fold(Refusal::new(Reason::IdempotencyKeyReused, message), |refusal, field| {
        refusal.field(*field, "differs from the first request with this key")
    })
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut details = ErrorDetails::new();
        details.set_error_info(refusal.reason.as_str(), DOMAIN, refusal.metadata);
        if !refusal.fields.is_empty() {
            details.set_bad_request(refusal.fields);
        }
        if let Some(delay) = refusal.retry_after {
            details.set_retry_info(Some(delay));
        }
        Self::with_error_details(refusal.reason.code(), refusal.message, details)
    }
}

/// The reason in a status that one of our services made; for clients and tests.
#[must_use]
pub fn of_status(status: &Status) -> Option<Reason> {
    let info = status.get_error_details().error_info().cloned()?;
    Reason::ALL.iter().copied().find(|reason| reason.as_str() == info.reason && info.domain == DOMAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_reason_fields_and_advice_on_the_wire() {
        let status: Status =
            Refusal::new(Reason::IdempotencyKeyReused, "the key was used for another amount")
                .field("amount", "differs from the first request")
                .retry_after(Duration::from_millis(50))
                .into();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(of_status(&status), Some(Reason::IdempotencyKeyReused));
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata["retryable"], "new_key");
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "amount");
        assert!(details.retry_info().is_some());
    }
}
