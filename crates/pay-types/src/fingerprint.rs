//! Gate 4, the comparison: is a request with a known key the same request?
//!
//! The fingerprint covers a *written list* of business fields in canonical form, under a version tag. Map order, unknown
//! fields, trace ids and a later build therefore never turn a retry into a conflict. Beside the digest of the whole it
//! keeps four bytes for each field, so that a conflict can name the fields that differ without storing their values.

use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::{AttemptNo, ChannelAccount, ChannelCode, Money, OrderNo, PayNo, RefundRequestNo, Subject};

/// The newest version for payments; what new log rows are written with.
const PAYMENT_V1: u8 = 1;
/// The newest version for refunds.
const REFUND_V1: u8 = 2;
/// Fields of version 1, in order. Never reorder or remove: stored rows depend on it. New fields make a new version.
const FIELDS_V1: [&str; 9] = [
    "order_no",
    "attempt_no",
    "amount",
    "currency",
    "channel",
    "channel_account",
    "subject",
    "expire_at",
    "metadata",
];
/// The same for refunds.
const REFUND_FIELDS_V1: [&str; 7] = [
    "pay_no",
    "refund_request_no",
    "amount",
    "currency",
    "reason",
    "requested_by",
    "expected_refunded_total",
];
const DIGEST_LEN: usize = 32;
const FIELD_LEN: usize = 4;

/// The business fields of a payment request: what a fingerprint is taken over.
#[derive(Debug, Clone, Copy)]
pub struct PaymentTerms<'a> {
    pub order_no: &'a OrderNo,
    pub attempt_no: AttemptNo,
    pub amount: Money,
    pub channel: ChannelCode,
    /// As asked for; a default filled in by the server does not enter.
    pub channel_account: Option<&'a ChannelAccount>,
    pub subject: &'a Subject,
    /// Whole seconds count.
    pub expire_at: Option<OffsetDateTime>,
    /// In any order; sorted here.
    pub metadata: &'a [(String, String)],
}

/// The business fields of a refund request.
#[derive(Debug, Clone, Copy)]
pub struct RefundTerms<'a> {
    pub pay_no: &'a PayNo,
    pub refund_request_no: &'a RefundRequestNo,
    pub amount: Money,
    pub reason: &'a str,
    pub requested_by: &'a str,
    pub expected_refunded_total: Option<i64>,
}

/// Fingerprint of a request, as stored in `idempotent_log.request_hash`: version, digest, four bytes a field.
#[derive(Clone, PartialEq, Eq)]
pub struct Fingerprint(Vec<u8>);

/// How a stored fingerprint compares with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum FingerprintMatch {
    Same,
    /// The names of the fields that differ; empty when the stored row cannot be read.
    Differs(Vec<&'static str>),
}

impl Fingerprint {
    /// Fingerprint of a payment request, in the newest version.
    #[must_use]
    pub fn of_payment(terms: &PaymentTerms<'_>) -> Self {
        Self::of(PAYMENT_V1, &canonical_v1(terms))
    }

    /// Fingerprint of a refund request, in the newest version.
    #[must_use]
    pub fn of_refund(terms: &RefundTerms<'_>) -> Self {
        let fields = [
            terms.pay_no.as_str().as_bytes().to_vec(),
            terms.refund_request_no.as_str().as_bytes().to_vec(),
            terms.amount.minor().to_be_bytes().to_vec(),
            terms.amount.currency().code().as_bytes().to_vec(),
            terms.reason.as_bytes().to_vec(),
            terms.requested_by.as_bytes().to_vec(),
            terms.expected_refunded_total.map(|total| total.to_be_bytes().to_vec()).unwrap_or_default(),
        ];
        Self::of(REFUND_V1, &fields)
    }

    fn of(version: u8, fields: &[Vec<u8>]) -> Self {
        let mut whole = Sha256::new();
        whole.update([version]);
        let mut bytes = vec![version];
        let mut tails: Vec<u8> = Vec::with_capacity(fields.len().saturating_mul(FIELD_LEN));
        for field in fields {
            let len = u64::try_from(field.len()).expect("a field is shorter than 2^64 bytes");
            whole.update(len.to_be_bytes());
            whole.update(field);
            tails.extend(Sha256::digest(field).iter().take(FIELD_LEN));
        }
        bytes.extend(whole.finalize());
        bytes.extend(tails);
        Self(bytes)
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Compares this request with a stored fingerprint.
    pub fn compare(&self, stored: &[u8]) -> FingerprintMatch {
        if self.0 == stored {
            return FingerprintMatch::Same;
        }
        let start = DIGEST_LEN.saturating_add(1);
        let tails = |bytes: &[u8]| -> Vec<Vec<u8>> {
            bytes.get(start..).unwrap_or_default().chunks(FIELD_LEN).map(<[u8]>::to_vec).collect()
        };
        let (ours, theirs) = (tails(&self.0), tails(stored));
        if ours.len() != theirs.len() || stored.first() != self.0.first() {
            return FingerprintMatch::Differs(Vec::new());
        }
        let names: &[&'static str] =
            if stored.first() == Some(&REFUND_V1) { &REFUND_FIELDS_V1 } else { &FIELDS_V1 };
        let differing = names.iter().zip(ours.iter().zip(&theirs)).filter(|(_, (a, b))| a != b);
        FingerprintMatch::Differs(differing.map(|(name, _)| *name).collect())
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fingerprint(v{})", self.0.first().copied().unwrap_or_default())
    }
}

fn canonical_v1(terms: &PaymentTerms<'_>) -> [Vec<u8>; 9] {
    let mut metadata: Vec<_> = terms.metadata.iter().collect();
    metadata.sort();
    let mut metadata_bytes = Vec::new();
    for part in metadata.iter().flat_map(|(key, value)| [key, value]) {
        let len = u64::try_from(part.len()).expect("a text is shorter than 2^64 bytes");
        metadata_bytes.extend(len.to_be_bytes());
        metadata_bytes.extend(part.as_bytes());
    }
    [
        terms.order_no.as_str().as_bytes().to_vec(),
        terms.attempt_no.get().to_be_bytes().to_vec(),
        terms.amount.minor().to_be_bytes().to_vec(),
        terms.amount.currency().code().as_bytes().to_vec(),
        terms.channel.as_str().as_bytes().to_vec(),
        terms.channel_account.map(|a| a.as_str().as_bytes().to_vec()).unwrap_or_default(),
        terms.subject.as_str().as_bytes().to_vec(),
        terms.expire_at.map(|t| t.unix_timestamp().to_be_bytes().to_vec()).unwrap_or_default(),
        metadata_bytes,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Currency;

    struct Request {
        order_no: OrderNo,
        subject: Subject,
        account: ChannelAccount,
        metadata: Vec<(String, String)>,
    }

    impl Request {
        fn new() -> Self {
            Self {
                order_no: "O1".parse().unwrap(),
                subject: "tea".parse().unwrap(),
                account: "main".parse().unwrap(),
                metadata: vec![("a".into(), "1".into()), ("b".into(), "2".into())],
            }
        }

        fn terms(&self, minor: i64) -> PaymentTerms<'_> {
            PaymentTerms {
                order_no: &self.order_no,
                attempt_no: AttemptNo::try_new(1).unwrap(),
                amount: Money::try_new(minor, Currency::from_code("CNY").unwrap()).unwrap(),
                channel: ChannelCode::Generic,
                channel_account: Some(&self.account),
                subject: &self.subject,
                expire_at: None,
                metadata: &self.metadata,
            }
        }
    }

    #[test]
    fn map_order_does_not_turn_a_retry_into_a_conflict() {
        let first = Request::new();
        let mut second = Request::new();
        second.metadata.reverse();
        let stored = Fingerprint::of_payment(&first.terms(100));
        assert_eq!(
            Fingerprint::of_payment(&second.terms(100)).compare(stored.as_bytes()),
            FingerprintMatch::Same
        );
    }

    #[test]
    fn a_conflict_names_the_fields_that_differ() {
        let first = Request::new();
        let mut second = Request::new();
        second.subject = "coffee".parse().unwrap();
        let stored = Fingerprint::of_payment(&first.terms(100));
        assert_eq!(
            Fingerprint::of_payment(&second.terms(200)).compare(stored.as_bytes()),
            FingerprintMatch::Differs(vec!["amount", "subject"])
        );
    }

    #[test]
    fn moving_a_character_between_key_and_value_is_a_conflict() {
        let mut first = Request::new();
        first.metadata = vec![("ab".into(), "c".into())];
        let mut second = Request::new();
        second.metadata = vec![("a".into(), "bc".into())];
        let stored = Fingerprint::of_payment(&first.terms(100));
        assert_eq!(
            Fingerprint::of_payment(&second.terms(100)).compare(stored.as_bytes()),
            FingerprintMatch::Differs(vec!["metadata"])
        );
    }

    #[test]
    fn an_unreadable_stored_row_is_a_conflict_not_a_match() {
        let request = Request::new();
        assert_eq!(
            Fingerprint::of_payment(&request.terms(1)).compare(b""),
            FingerprintMatch::Differs(vec![])
        );
    }
}
