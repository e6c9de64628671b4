//! Notices of WeChat Pay.
//!
//! Gate 7, its first half: what is forged, changed or old is refused here, before anything in it is believed. That a
//! `resource` opens proves nothing about the sender of a notice; the signature is checked first, always.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use pay_types::ChannelTxnId;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::exchange::Exchange;
use super::keys;
use super::settings::Settings;
use super::sign::{self, SERIAL, Verified};
use super::states;
use crate::port::{
    Answer, Fact, HttpAnswer, Notice, NoticeError, NoticeReader, NoticeReason, RawNotice, StatedAmount,
};
use crate::{strict_header, strict_json};

/// Largest notice; real ones have two kilobytes.
const NOTICE_BYTES_MAX: usize = 64 * 1024;
/// Longest id of a notice; the channel's have 36.
const NOTIFY_ID_BYTES_MAX: usize = 128;
/// Longest number that we look up; ours have 29.
const NUMBER_BYTES_MAX: usize = 64;
/// Longest number of a refund that the channel may give; longer ones fit no column.
pub(super) const CHANNEL_REFUND_NO_BYTES_MAX: usize = 128;
/// Notices of refunds name no currency, for there is one.
pub(super) const CURRENCY: &str = "CNY";

/// Reads notices to one account.
#[derive(Debug)]
pub struct Reader {
    settings: Arc<Settings>,
    exchange: Exchange,
}

impl Reader {
    pub(super) fn with(settings: Arc<Settings>, exchange: Exchange) -> Self {
        Self { settings, exchange }
    }
}

impl NoticeReader for Reader {
    fn read(&self, raw: &RawNotice, now: OffsetDateTime) -> Result<Notice, NoticeError> {
        if raw.body.len() > NOTICE_BYTES_MAX {
            return Err(malformed("the body is larger than 64 KiB"));
        }
        let verified = sign::verify(&self.settings, &raw.headers, &raw.body, now).inspect_err(|error| {
            // The channel sends again in 15 seconds, and then the key is there.
            if error.reason == NoticeReason::KeyUnknown
                && let Some(serial) = strict_header::single(&raw.headers, &SERIAL)
            {
                keys::refresh(&self.settings, &self.exchange, serial);
            }
        })?;
        parse(&self.settings, &raw.body, verified)
    }

    fn answer(&self, answer: Answer) -> HttpAnswer {
        let (status, message) = match answer {
            Answer::Accept => {
                return HttpAnswer { status: StatusCode::NO_CONTENT, content_type: None, body: Bytes::new() };
            }
            // The status decides whether it is sent again; the body is for the channel's log.
            Answer::Refuse => (StatusCode::CONFLICT, "REFUSED"),
            Answer::Invalid(NoticeReason::NoticeMalformed) => {
                (StatusCode::BAD_REQUEST, NoticeReason::NoticeMalformed.as_str())
            }
            Answer::Invalid(reason) => (StatusCode::UNAUTHORIZED, reason.as_str()),
            Answer::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        };
        let body = Bytes::from(format!("{{\"code\":\"FAIL\",\"message\":\"{message}\"}}"));
        HttpAnswer { status, content_type: Some("application/json"), body }
    }
}

fn parse(settings: &Settings, body: &[u8], verified: Verified) -> Result<Notice, NoticeError> {
    let envelope = strict_json::object(body)
        .ok_or(malformed("the body must be one JSON object, each key once, with nothing behind it"))?;
    let notify_id = printable(&envelope, "id", NOTIFY_ID_BYTES_MAX)
        .ok_or(malformed("id must be 1 to 128 printable ASCII characters"))?;
    let event = strict_json::text(&envelope, "event_type").ok_or(malformed("event_type must be a text"))?;
    let mut notice = Notice {
        notify_id,
        fact: Fact::Other,
        pay_no: String::new(),
        merchant_id: String::new(),
        channel_txn_id: None,
        refund_no: None,
        channel_refund_no: None,
        amount: None,
        occurred_at: None,
        key_id: verified.key_id,
        nonce: Some(verified.nonce),
    };
    let Some((fact, word)) = states::event(event) else { return Ok(notice) };
    let sealed =
        envelope.get("resource").and_then(Value::as_object).ok_or(malformed("resource must be an object"))?;
    let plain = settings
        .api_v3_key
        .open(sealed)
        .ok_or(malformed("resource does not open with the account's api_v3_key"))?;
    let plain = strict_json::object(&plain)
        .ok_or(malformed("resource must hold one JSON object, each key once, with nothing behind it"))?;
    if strict_json::text(&plain, "mchid") != Some(&settings.mchid) {
        return Err(NoticeError::new(NoticeReason::CrossAccount, "mchid is not that of this account"));
    }
    notice.fact = fact;
    notice.pay_no = printable(&plain, "out_trade_no", NUMBER_BYTES_MAX)
        .ok_or(malformed("out_trade_no must be 1 to 64 printable ASCII characters"))?;
    let id = strict_json::text(&plain, "transaction_id").and_then(|text| text.parse::<ChannelTxnId>().ok());
    notice.channel_txn_id =
        Some(id.ok_or(malformed("transaction_id must be 1 to 128 printable ASCII characters"))?);
    if fact == Fact::PaySucceeded {
        payment(settings, &mut notice, &plain, word)?;
    } else {
        refund(&mut notice, &plain, word, &envelope)?;
    }
    Ok(notice)
}

fn payment(
    settings: &Settings,
    notice: &mut Notice,
    plain: &Map<String, Value>,
    word: &str,
) -> Result<(), NoticeError> {
    if strict_json::text(plain, "appid") != Some(&settings.appid) {
        return Err(NoticeError::new(NoticeReason::CrossAccount, "appid is not that of this account"));
    }
    // `REFUND` of a payment that was refunded before this notice was sent again.
    let state = strict_json::text(plain, "trade_state").and_then(states::trade_state);
    if state.is_none() || state != states::trade_state(word) {
        return Err(malformed("trade_state is not that of a payment that succeeded"));
    }
    // What the order costs; `payer_total` is what is left of it after the payer's coupons.
    let amount =
        amount(plain, "total").ok_or(malformed("amount.total must be a whole number within 64 bits"))?;
    let currency = currency(plain)
        .ok_or(malformed("amount.currency must be three upper-case letters"))?
        .ok_or(malformed("amount.currency must be there"))?;
    notice.amount = Some(StatedAmount { minor: amount, currency });
    notice.occurred_at = Some(
        time_of(plain, "success_time")
            .ok_or(malformed("success_time must be a time of RFC 3339 with its offset"))?,
    );
    Ok(())
}

fn refund(
    notice: &mut Notice,
    plain: &Map<String, Value>,
    word: &str,
    envelope: &Map<String, Value>,
) -> Result<(), NoticeError> {
    if strict_json::text(plain, "refund_status") != Some(word) {
        return Err(malformed("refund_status is not that of the event"));
    }
    let refund_no = printable(plain, "out_refund_no", NUMBER_BYTES_MAX)
        .ok_or(malformed("out_refund_no must be 1 to 64 printable ASCII characters"))?;
    notice.refund_no = Some(refund_no);
    notice.channel_refund_no = printable(plain, "refund_id", CHANNEL_REFUND_NO_BYTES_MAX);
    let minor =
        amount(plain, "refund").ok_or(malformed("amount.refund must be a whole number within 64 bits"))?;
    let currency = currency(plain)
        .ok_or(malformed("amount.currency must be three upper-case letters"))?
        .unwrap_or_else(|| CURRENCY.to_owned());
    notice.amount = Some(StatedAmount { minor, currency });
    // Only a refund that succeeded has a time of its own.
    notice.occurred_at = Some(
        time_of(plain, "success_time")
            .or_else(|| time_of(envelope, "create_time"))
            .ok_or(malformed("success_time or create_time must be a time of RFC 3339 with its offset"))?,
    );
    Ok(())
}

/// A whole number of fen in `amount`.
pub(super) fn amount(map: &Map<String, Value>, name: &str) -> Option<i64> {
    map.get("amount")?.get(name)?.as_i64()
}

/// The currency in `amount`: `None` when it is no currency, `Some(None)` when there is none.
#[expect(clippy::option_option, reason = "missing and wrong are two things here")]
pub(super) fn currency(map: &Map<String, Value>) -> Option<Option<String>> {
    match map.get("amount").and_then(|amount| amount.get("currency")) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value
            .as_str()
            .filter(|code| code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase()))
            .map(|code| Some(code.to_owned())),
    }
}

pub(super) fn time_of(map: &Map<String, Value>, name: &str) -> Option<OffsetDateTime> {
    strict_json::text(map, name).and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok())
}

pub(super) fn printable(map: &Map<String, Value>, name: &str, len_max: usize) -> Option<String> {
    strict_json::text(map, name)
        .filter(|t| (1..=len_max).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_graphic()))
        .map(str::to_owned)
}

const fn malformed(detail: &'static str) -> NoticeError {
    NoticeError::new(NoticeReason::NoticeMalformed, detail)
}
