//! Notices of Stripe: signed events.
//!
//! Gate 7, its first half: what is forged, changed or old is refused here, before anything in it is believed. Events come in
//! no order and more than once, and two may tell one fact: a session that is completed and its intent that succeeded have the
//! same transaction here, so the core takes the second one for what it is.
//!
//! Objects of an account that carry no number of ours were made by somebody else with the same account; events about them are
//! acknowledged and move nothing.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::object::{self, ID_BYTES_MAX, Number};
use super::settings::Settings;
use super::sign;
use super::states::{self, Event};
use crate::port::{Answer, Fact, HttpAnswer, Notice, NoticeError, NoticeReader, NoticeReason, RawNotice};
use crate::strict_json;

/// Largest notice: a charge with all that hangs on it has some twenty kilobytes, and metadata of others may have more.
const NOTICE_BYTES_MAX: usize = 256 * 1024;

/// Reads notices to one account.
#[derive(Debug)]
pub struct Reader {
    settings: Arc<Settings>,
}

impl Reader {
    #[must_use]
    pub fn new(settings: &Arc<Settings>) -> Self {
        Self { settings: Arc::clone(settings) }
    }
}

impl NoticeReader for Reader {
    fn read(&self, raw: &RawNotice, now: OffsetDateTime) -> Result<Notice, NoticeError> {
        if raw.body.len() > NOTICE_BYTES_MAX {
            return Err(malformed("the body is larger than 256 KiB"));
        }
        let key_id = sign::verify(&self.settings, &raw.headers, &raw.body, now)?;
        parse(&self.settings, &raw.body, key_id)
    }

    /// The status is all that the channel looks at: a 2xx ends it, anything else brings the notice again.
    fn answer(&self, answer: Answer) -> HttpAnswer {
        let (status, code) = match answer {
            // Kept as evidence; sent again it would be the same.
            Answer::Accept | Answer::Invalid(NoticeReason::ModeMismatch) => {
                return HttpAnswer { status: StatusCode::OK, content_type: None, body: Bytes::new() };
            }
            Answer::Refuse => (StatusCode::CONFLICT, "REFUSED"),
            Answer::Invalid(NoticeReason::CrossAccount) => {
                (StatusCode::FORBIDDEN, NoticeReason::CrossAccount.as_str())
            }
            Answer::Invalid(reason) => (StatusCode::BAD_REQUEST, reason.as_str()),
            Answer::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        };
        let body = Bytes::from(format!("{{\"code\":\"{code}\"}}"));
        HttpAnswer { status, content_type: Some("application/json"), body }
    }
}

fn parse(settings: &Settings, body: &[u8], key_id: &str) -> Result<Notice, NoticeError> {
    let event = strict_json::object(body)
        .ok_or(malformed("the body must be one JSON object, each key once, with nothing behind it"))?;
    let notify_id = strict_json::text(&event, "id")
        .filter(|text| object::is_printable(text, ID_BYTES_MAX))
        .ok_or(malformed("id must be 1 to 128 printable ASCII characters"))?;
    let kind = strict_json::text(&event, "type").ok_or(malformed("type must be a text"))?;
    match object::livemode(&event) {
        Some(livemode) if livemode == settings.livemode => {}
        Some(_) => return Err(mode_mismatch("livemode is not that of this account")),
        // Play money must not become money because a word is missing.
        None => return Err(mode_mismatch("livemode is not there")),
    }
    // Of accounts that are connected to ours; we take payments for our own.
    if event.get("account").is_some_and(|account| !account.is_null()) {
        let detail = "account names another account than ours";
        return Err(NoticeError::new(NoticeReason::CrossAccount, detail));
    }
    let notice = Notice {
        notify_id: notify_id.to_owned(),
        fact: Fact::Other,
        pay_no: String::new(),
        merchant_id: String::new(),
        channel_txn_id: None,
        refund_no: None,
        channel_refund_no: None,
        amount: None,
        occurred_at: None,
        key_id: key_id.to_owned(),
        // The same event is sent under the same id, and that is all there is against a replay within the window.
        nonce: None,
    };
    let Some(of) = states::event(kind) else { return Ok(notice) };
    let told = event
        .get("data")
        .and_then(|data| data.get("object"))
        .and_then(Value::as_object)
        .ok_or(malformed("data.object must be an object"))?;
    let at = object::created(&event).ok_or(malformed("created must be Unix seconds"))?;
    match of {
        Event::Intent(fact, status) => intent(notice, told, fact, status),
        Event::Session(fact, payment_status) => session(notice, told, fact, payment_status),
        Event::Refund => refund(notice, told),
        Event::RefundedTotal => refunded_total(notice, told),
    }
    .map(|notice| Notice { occurred_at: (notice.fact != Fact::Other).then_some(at), ..notice })
}

fn intent(
    notice: Notice,
    told: &Map<String, Value>,
    fact: Fact,
    status: Option<&str>,
) -> Result<Notice, NoticeError> {
    expect_object(told, "payment_intent")?;
    let Some(pay_no) = pay_no(told)? else { return Ok(notice) };
    if status.is_some() && strict_json::text(told, "status") != status {
        return Err(malformed("data.object.status is not that of the event"));
    }
    let channel_txn_id = object::intent_id(told).ok_or(malformed("data.object.id must be a pi_…"))?;
    // What was paid, which is not always what was asked for.
    let (field, fault) = if fact == Fact::PaySucceeded {
        ("amount_received", "data.object.amount_received must be a whole number in a currency's own units")
    } else {
        ("amount", "data.object.amount must be a whole number in a currency's own units")
    };
    let amount = object::stated(told, field).ok_or_else(|| malformed(fault))?;
    Ok(Notice { fact, pay_no, channel_txn_id: Some(channel_txn_id), amount: Some(amount), ..notice })
}

fn session(
    notice: Notice,
    told: &Map<String, Value>,
    fact: Fact,
    payment_status: Option<&str>,
) -> Result<Notice, NoticeError> {
    expect_object(told, "checkout.session")?;
    let Some(pay_no) = pay_no(told)? else { return Ok(notice) };
    if strict_json::text(told, "payment_status") != payment_status {
        // Completed by a method that takes days: its end is told by another event.
        return Ok(notice);
    }
    let channel_txn_id = object::intent_id(told);
    if fact == Fact::PaySucceeded && channel_txn_id.is_none() {
        return Err(malformed("data.object.payment_intent must be a pi_… when a session is paid"));
    }
    let amount = object::stated(told, "amount_total")
        .ok_or(malformed("data.object.amount_total must be a whole number in a currency's own units"))?;
    Ok(Notice { fact, pay_no, channel_txn_id, amount: Some(amount), ..notice })
}

/// A refund is told by its own number; one that does not carry it, by the channel's number of it alone. Refunds that somebody
/// made elsewhere succeed without a word here: the running total of their charge tells of them.
fn refund(notice: Notice, told: &Map<String, Value>) -> Result<Notice, NoticeError> {
    expect_object(told, "refund")?;
    let status = strict_json::text(told, "status").ok_or(malformed("data.object.status must be a text"))?;
    let fact = states::refund_fact(status);
    let refund_no = match object::number(told, "refund_no") {
        Number::There(number) => Some(number),
        Number::Not => None,
        Number::Malformed => {
            return Err(malformed(
                "data.object.metadata.refund_no must be 1 to 64 printable ASCII characters",
            ));
        }
    };
    if fact == Fact::Other || (fact == Fact::RefundSucceeded && refund_no.is_none()) {
        return Ok(notice);
    }
    let channel_refund_no = strict_json::text(told, "id")
        .filter(|text| object::is_printable(text, ID_BYTES_MAX))
        .ok_or(malformed("data.object.id must be 1 to 128 printable ASCII characters"))?;
    let amount = object::stated(told, "amount")
        .ok_or(malformed("data.object.amount must be a whole number in a currency's own units"))?;
    Ok(Notice {
        fact,
        pay_no: pay_no(told)?.unwrap_or_default(),
        channel_txn_id: object::intent_id(told),
        refund_no,
        channel_refund_no: Some(channel_refund_no.to_owned()),
        amount: Some(amount),
        ..notice
    })
}

/// The payment is found by its transaction where the charge does not carry its number.
fn refunded_total(notice: Notice, told: &Map<String, Value>) -> Result<Notice, NoticeError> {
    expect_object(told, "charge")?;
    // A charge without an intent is none of ours.
    let Some(channel_txn_id) = object::intent_id(told) else { return Ok(notice) };
    let amount = object::stated(told, "amount_refunded")
        .ok_or(malformed("data.object.amount_refunded must be a whole number in a currency's own units"))?;
    Ok(Notice {
        fact: Fact::RefundedTotal,
        pay_no: pay_no(told)?.unwrap_or_default(),
        channel_txn_id: Some(channel_txn_id),
        amount: Some(amount),
        ..notice
    })
}

fn expect_object(told: &Map<String, Value>, kind: &str) -> Result<(), NoticeError> {
    if object::is(told, kind) { Ok(()) } else { Err(malformed("data.object is not what the type is about")) }
}

fn pay_no(told: &Map<String, Value>) -> Result<Option<String>, NoticeError> {
    match object::number(told, "pay_no") {
        Number::There(number) => Ok(Some(number)),
        Number::Not => Ok(None),
        Number::Malformed => {
            Err(malformed("data.object.metadata.pay_no must be 1 to 64 printable ASCII characters"))
        }
    }
}

const fn malformed(detail: &'static str) -> NoticeError {
    NoticeError::new(NoticeReason::NoticeMalformed, detail)
}

const fn mode_mismatch(detail: &'static str) -> NoticeError {
    NoticeError::new(NoticeReason::ModeMismatch, detail)
}
