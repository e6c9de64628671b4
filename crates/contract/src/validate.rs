//! The one reading of a payment request: every field checked, all faults told at once.

use std::time::Duration;

use pay_types::{
    AMOUNT_MAX, Actor, AttemptNo, ChannelAccount, ChannelCode, Currency, Fingerprint, IdempotencyKey,
    Invalid, MerchantId, Money, OrderNo, PayNo, PaymentTerms, RefundReason, RefundRequestNo, RefundTerms,
    Subject,
};
use time::OffsetDateTime;

use crate::order::{CreatePaymentRequest, CreateRefundRequest, IfInProgress};
use crate::reason::{Reason, Refusal};
use crate::to_offset_date_time;

/// A payment lives this long when the caller sets no time.
pub const EXPIRE_AFTER_DEFAULT: Duration = Duration::from_secs(2 * 3600);
/// Shortest life: a payer needs time to pay, and the channel's own minimum is one minute.
pub const EXPIRE_AFTER_MIN: Duration = Duration::from_secs(60);
/// Longest life; beyond it channels forget orders.
pub const EXPIRE_AFTER_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Labels a request may carry.
pub const METADATA_ENTRIES_MAX: usize = 20;
/// Bytes of a label's key.
pub const METADATA_KEY_BYTES_MAX: usize = 40;
/// Bytes of a label's value.
pub const METADATA_VALUE_BYTES_MAX: usize = 500;

/// A payment request whose every field was checked.
#[derive(Debug, Clone)]
pub struct PaymentRequest {
    pub merchant_id: MerchantId,
    pub idempotency_key: IdempotencyKey,
    pub order_no: OrderNo,
    pub attempt_no: AttemptNo,
    pub amount: Money,
    pub channel: ChannelCode,
    /// As asked for; `None` leaves the choice to the core.
    pub channel_account: Option<ChannelAccount>,
    pub subject: Subject,
    /// As asked for; `None` is [`EXPIRE_AFTER_DEFAULT`] from creation.
    pub expire_at: Option<OffsetDateTime>,
    /// Sorted by key.
    pub metadata: Vec<(String, String)>,
    /// False: the caller wants `IN_PROGRESS` at once instead of waiting.
    pub wait_if_in_progress: bool,
    pub validate_only: bool,
}

impl PaymentRequest {
    /// Fingerprint over the business fields.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_payment(&PaymentTerms {
            order_no: &self.order_no,
            attempt_no: self.attempt_no,
            amount: self.amount,
            channel: self.channel,
            channel_account: self.channel_account.as_ref(),
            subject: &self.subject,
            expire_at: self.expire_at,
            metadata: &self.metadata,
        })
    }
}

/// Collects the faults of one request.
#[derive(Default)]
struct Faults(Vec<(String, String)>);

impl Faults {
    fn take<T>(&mut self, field: &str, result: Result<T, Invalid>) -> Option<T> {
        result.map_err(|invalid| self.add(field, invalid.rule)).ok()
    }

    fn add(&mut self, field: &str, rule: &str) {
        self.0.push((field.to_owned(), rule.to_owned()));
    }
}

/// Reads and checks a key.
///
/// # Errors
/// `IDEMPOTENCY_KEY_MISSING` or `IDEMPOTENCY_KEY_INVALID`.
pub fn idempotency_key(text: &str) -> Result<IdempotencyKey, Refusal> {
    text.parse().map_err(|invalid: Invalid| {
        let (reason, message) = if text.is_empty() {
            (
                Reason::IdempotencyKeyMissing,
                "idempotency_key is missing: make one, store it, then send it".to_owned(),
            )
        } else {
            (Reason::IdempotencyKeyInvalid, invalid.to_string())
        };
        Refusal::new(reason, message).field(invalid.field, invalid.rule)
    })
}

/// Reads a merchant id.
///
/// # Errors
/// `FIELD_INVALID` naming `merchant_id`.
pub fn merchant_id(text: &str) -> Result<MerchantId, Refusal> {
    text.parse().map_err(invalid)
}

/// `FIELD_INVALID` for one field.
#[must_use]
pub fn invalid(invalid: Invalid) -> Refusal {
    Refusal::new(Reason::FieldInvalid, invalid.to_string()).field(invalid.field, invalid.rule)
}

/// Reads and checks a payment request at time `now`.
///
/// # Errors
/// The key's own reasons first, then `FIELD_INVALID` with every wrong field.
pub fn payment_request(
    request: CreatePaymentRequest,
    now: OffsetDateTime,
) -> Result<PaymentRequest, Refusal> {
    let key = idempotency_key(&request.idempotency_key)?;
    let mut faults = Faults::default();
    let merchant = faults.take("merchant_id", request.merchant_id.parse());
    let order = faults.take("order_no", request.order_no.parse());
    let attempt = faults.take(
        "attempt_no",
        AttemptNo::try_new(i64::from(request.attempt_no.max(i32::from(request.attempt_no == 0)))),
    );
    let amount = money(&mut faults, request.amount.as_ref());
    let channel = faults.take("channel", request.channel.parse::<ChannelCode>());
    let account = if request.channel_account.is_empty() {
        None
    } else {
        faults.take("channel_account", request.channel_account.parse())
    };
    let subject = faults.take("subject", request.subject.parse());
    let expire_at = request.expire_at.as_ref().map(|at| expiry(&mut faults, at, now));
    let wait = IfInProgress::try_from(request.if_in_progress).ok();
    if wait.is_none() {
        faults.add("if_in_progress", "must be WAIT or FAIL");
    }
    check_metadata(&mut faults, &request);
    let mut metadata: Vec<_> = request.metadata.into_iter().collect();
    metadata.sort();
    match (merchant, order, attempt, amount, channel, subject) {
        (Some(merchant_id), Some(order_no), Some(attempt_no), Some(amount), Some(channel), Some(subject))
            if faults.0.is_empty() =>
        {
            Ok(PaymentRequest {
                merchant_id,
                idempotency_key: key,
                order_no,
                attempt_no,
                amount,
                channel,
                channel_account: account,
                subject,
                expire_at: expire_at.flatten(),
                metadata,
                wait_if_in_progress: wait != Some(IfInProgress::Fail),
                validate_only: request.validate_only,
            })
        }
        _ => Err(refuse(faults)),
    }
}

/// A refund request whose every field was checked.
#[derive(Debug, Clone)]
pub struct RefundRequest {
    pub merchant_id: MerchantId,
    pub idempotency_key: IdempotencyKey,
    pub pay_no: PayNo,
    pub refund_request_no: RefundRequestNo,
    pub amount: Money,
    pub reason: RefundReason,
    pub requested_by: Actor,
    /// Minor units of the amount's currency.
    pub expected_refunded_total: Option<i64>,
    /// False: the caller wants `IN_PROGRESS` at once instead of waiting.
    pub wait_if_in_progress: bool,
    pub validate_only: bool,
}

impl RefundRequest {
    /// Fingerprint over the business fields.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_refund(&RefundTerms {
            pay_no: &self.pay_no,
            refund_request_no: &self.refund_request_no,
            amount: self.amount,
            reason: self.reason.as_str(),
            requested_by: self.requested_by.as_str(),
            expected_refunded_total: self.expected_refunded_total,
        })
    }
}

/// Reads and checks a refund request.
///
/// # Errors
/// The key's own reasons first, then `FIELD_INVALID` with every wrong field.
pub fn refund_request(request: &CreateRefundRequest) -> Result<RefundRequest, Refusal> {
    let idempotency_key = idempotency_key(&request.idempotency_key)?;
    let mut faults = Faults::default();
    let merchant = faults.take("merchant_id", request.merchant_id.parse());
    let pay_no = faults.take("pay_no", request.pay_no.parse());
    let number = faults.take("refund_request_no", request.refund_request_no.parse());
    let amount = money(&mut faults, request.amount.as_ref());
    let reason = faults.take("reason", request.reason.parse());
    let requested_by = faults.take("requested_by", request.requested_by.parse());
    if request.expected_refunded_total.is_some_and(|total| !(1..=AMOUNT_MAX).contains(&total)) {
        faults.add("expected_refunded_total", "must be a positive amount in minor units, or unset");
    }
    let wait = IfInProgress::try_from(request.if_in_progress).ok();
    if wait.is_none() {
        faults.add("if_in_progress", "must be WAIT or FAIL");
    }
    match (merchant, pay_no, number, amount, reason, requested_by) {
        (
            Some(merchant_id),
            Some(pay_no),
            Some(refund_request_no),
            Some(amount),
            Some(reason),
            Some(requested_by),
        ) if faults.0.is_empty() => Ok(RefundRequest {
            merchant_id,
            idempotency_key,
            pay_no,
            refund_request_no,
            amount,
            reason,
            requested_by,
            expected_refunded_total: request.expected_refunded_total,
            wait_if_in_progress: wait != Some(IfInProgress::Fail),
            validate_only: request.validate_only,
        }),
        _ => Err(refuse(faults)),
    }
}

fn refuse(faults: Faults) -> Refusal {
    let words: Vec<_> = faults.0.iter().map(|(field, rule)| format!("{field} {rule}")).collect();
    let refusal = Refusal::new(Reason::FieldInvalid, words.join("; "));
    faults.0.into_iter().fold(refusal, |refusal, (field, rule)| refusal.field(field, rule))
}

fn money(faults: &mut Faults, money: Option<&crate::common::Money>) -> Option<Money> {
    let Some(money) = money else {
        faults.add("amount", "is missing");
        return None;
    };
    let currency = faults.take("amount.currency", Currency::from_code(&money.currency));
    // The amount is judged even when the currency is wrong, so that both faults are told.
    let any = currency.or_else(|| Currency::from_code("CNY").ok())?;
    let amount = faults.take("amount.amount", Money::try_new(money.amount, any))?;
    currency.map(|_| amount)
}

fn expiry(faults: &mut Faults, at: &prost_types::Timestamp, now: OffsetDateTime) -> Option<OffsetDateTime> {
    let read = to_offset_date_time(at).filter(|at| *at <= now.saturating_add(expire_max()));
    match read {
        Some(at) => Some(at),
        None => {
            faults.add("expire_at", "must be at most 30 days ahead");
            None
        }
    }
}

fn expire_max() -> time::Duration {
    time::Duration::try_from(EXPIRE_AFTER_MAX).expect("thirty days fit")
}

/// Whether a *new* payment may still expire at `at`. Not part of [`payment_request`]: a late retry of a request that was
/// good when it was first sent must be answered with its payment, not refused for its age.
///
/// # Errors
/// `FIELD_INVALID` naming `expire_at`.
pub fn expiry_of_new_payment(
    at: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> Result<OffsetDateTime, Refusal> {
    let Some(at) = at else {
        return Ok(now.saturating_add(time::Duration::try_from(EXPIRE_AFTER_DEFAULT).expect("two hours fit")));
    };
    if at < now.saturating_add(time::Duration::try_from(EXPIRE_AFTER_MIN).expect("a minute fits")) {
        return Err(invalid(Invalid::new("expire_at", "must be at least one minute ahead")));
    }
    Ok(at)
}

fn check_metadata(faults: &mut Faults, request: &CreatePaymentRequest) {
    if request.metadata.len() > METADATA_ENTRIES_MAX {
        faults.add("metadata", "must have at most 20 entries");
    }
    for (key, value) in &request.metadata {
        if key.is_empty() || key.len() > METADATA_KEY_BYTES_MAX || value.len() > METADATA_VALUE_BYTES_MAX {
            faults.add("metadata", "keys must be 1 to 40 and values at most 500 bytes");
        }
        if key.contains('\0') || value.contains('\0') {
            faults.add("metadata", "must not contain NUL");
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};
    use tonic_types::StatusExt as _;

    use super::*;
    use crate::common;

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_741_919_400).unwrap()
    }

    fn good() -> CreatePaymentRequest {
        CreatePaymentRequest {
            merchant_id: "M1".into(),
            idempotency_key: "k1".into(),
            order_no: "O1".into(),
            attempt_no: 1,
            amount: Some(common::Money { amount: 1999, currency: "CNY".into() }),
            channel: "generic".into(),
            subject: "tea".into(),
            ..Default::default()
        }
    }

    fn fields(request: CreatePaymentRequest) -> Vec<String> {
        let status: Status = payment_request(request, now()).unwrap_err().into();
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_error_details();
        details.bad_request().unwrap().field_violations.iter().map(|f| f.field.clone()).collect()
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let request = CreatePaymentRequest {
            amount: Some(common::Money { amount: -1, currency: "ABC".into() }),
            channel: "cash".into(),
            order_no: "a:b".into(),
            ..good()
        };
        assert_eq!(fields(request), ["order_no", "amount.currency", "amount.amount", "channel"]);
    }

    #[test]
    fn amounts_that_are_not_money_are_refused() {
        for amount in [0, -1, i64::MIN, i64::MAX, 1_000_000_000_001] {
            let request = CreatePaymentRequest {
                amount: Some(common::Money { amount, currency: "CNY".into() }),
                ..good()
            };
            assert_eq!(fields(request), ["amount.amount"], "{amount}");
        }
        assert_eq!(fields(CreatePaymentRequest { amount: None, ..good() }), ["amount"]);
    }

    #[test]
    fn attempt_zero_is_one_and_a_negative_one_is_refused() {
        assert_eq!(
            payment_request(CreatePaymentRequest { attempt_no: 0, ..good() }, now())
                .unwrap()
                .attempt_no
                .get(),
            1
        );
        assert_eq!(fields(CreatePaymentRequest { attempt_no: -1, ..good() }), ["attempt_no"]);
    }

    #[test]
    fn one_instant_in_two_offsets_is_one_fingerprint() {
        let at = |text: &str| {
            let time = OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).unwrap();
            let request = CreatePaymentRequest { expire_at: Some(crate::timestamp(time)), ..good() };
            payment_request(request, now()).unwrap()
        };
        let (a, b) = (at("2025-03-14T10:40:00+08:00"), at("2025-03-14T02:40:00Z"));
        assert_eq!(a.expire_at.unwrap().unix_timestamp(), b.expire_at.unwrap().unix_timestamp());
        assert_eq!(a.fingerprint(), b.fingerprint());
    }

    #[test]
    fn a_retry_after_its_expiry_is_still_read() {
        let request = CreatePaymentRequest { expire_at: Some(crate::timestamp(now())), ..good() };
        let later = now() + Duration::from_secs(3600);
        let read = payment_request(request, later).unwrap();
        assert!(expiry_of_new_payment(read.expire_at, later).is_err());
    }
}
