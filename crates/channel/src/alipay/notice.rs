//! Notices of Alipay.
//!
//! Gate 7, its first half: what is forged or changed is refused here, before anything in it is believed. There is no time
//! window: the channel repeats a notice for a day, so a repeat is stopped by what it says and not by its age.
//!
//! What happened is told by marks, not by `trade_status` alone: a refund changes the status of a paid trade, up to *closed*.

use std::sync::Arc;

use bytes::Bytes;
use encoding_rs::GBK;
use http::StatusCode;
use time::OffsetDateTime;

use super::amount;
use super::client::{CURRENCY, read_time};
use super::settings::{EmptyValues, Settings};
use super::sign::{self, Parameter};
use crate::port::{
    Answer, Fact, HttpAnswer, Notice, NoticeError, NoticeReader, NoticeReason, RawNotice, StatedAmount,
};

/// Largest notice; real ones have two kilobytes.
const NOTICE_BYTES_MAX: usize = 64 * 1024;
/// Longest number of ours or of the channel's.
const NUMBER_BYTES_MAX: usize = 64;
/// Longest id of a notice.
const NOTIFY_ID_BYTES_MAX: usize = 128;

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

    /// A field of a notice as text, for people who look at one that was kept: decoded once, in the charset that it names.
    #[must_use]
    pub fn text(body: &[u8], name: &str) -> Option<String> {
        let parameters = sign::parameters(body)?;
        let value = raw(&parameters, name)?;
        match charset(&parameters)? {
            Charset::Utf8 => String::from_utf8(value.to_vec()).ok(),
            Charset::Gbk => GBK.decode_without_bom_handling_and_without_replacement(value).map(Into::into),
        }
    }
}

enum Charset {
    Utf8,
    Gbk,
}

/// The charset that the notice names, which is signed, and so wins over its content type.
fn charset(parameters: &[Parameter]) -> Option<Charset> {
    match raw(parameters, "charset") {
        None => Some(Charset::Utf8),
        Some(name) if name.eq_ignore_ascii_case(b"utf-8") => Some(Charset::Utf8),
        Some(name) if name.eq_ignore_ascii_case(b"gbk") || name.eq_ignore_ascii_case(b"gb2312") => {
            Some(Charset::Gbk)
        }
        Some(_) => None,
    }
}

fn raw<'a>(parameters: &'a [Parameter], name: &str) -> Option<&'a [u8]> {
    parameters.iter().find(|(known, _)| known == name.as_bytes()).map(|(_, value)| value.as_slice())
}

/// A field of printable ASCII; numbers, words and times are.
fn plain<'a>(parameters: &'a [Parameter], name: &str, bytes_max: usize) -> Option<&'a str> {
    raw(parameters, name)
        .filter(|value| (1..=bytes_max).contains(&value.len()))
        .filter(|value| value.iter().all(|b| (b' '..=b'~').contains(b)))
        .and_then(|value| std::str::from_utf8(value).ok())
}

const fn malformed(detail: &'static str) -> NoticeError {
    NoticeError::new(NoticeReason::NoticeMalformed, detail)
}

impl NoticeReader for Reader {
    fn read(&self, raw_notice: &RawNotice, now: OffsetDateTime) -> Result<Notice, NoticeError> {
        if raw_notice.body.len() > NOTICE_BYTES_MAX {
            return Err(malformed("the body is larger than 64 KiB"));
        }
        // A name that comes twice has no one signed text.
        let parameters =
            sign::parameters(&raw_notice.body).ok_or(malformed("the body must be a form, each name once"))?;
        let forged = |detail| NoticeError::new(NoticeReason::SignatureInvalid, detail);
        if raw(&parameters, "sign_type") != Some(b"RSA2") {
            return Err(forged("sign_type must be RSA2"));
        }
        let signature = plain(&parameters, "sign", 1024).ok_or_else(|| forged("sign is missing"))?;
        let keep_empty = self.settings.empty_values == EmptyValues::Keep;
        let message = sign::canonical(&parameters, &["sign", "sign_type"], keep_empty);
        let key = sign::verifying(&self.settings.keys, &message, signature)
            .ok_or_else(|| forged("no key of the channel verifies the signature"))?;
        self.parse(&parameters, key, now)
    }

    fn answer(&self, answer: Answer) -> HttpAnswer {
        let (status, body) = match answer {
            // Seven bytes, no more.
            Answer::Accept | Answer::Invalid(NoticeReason::ModeMismatch) => (StatusCode::OK, "success"),
            Answer::Refuse | Answer::Invalid(NoticeReason::CrossAccount) => (StatusCode::CONFLICT, "fail"),
            Answer::Invalid(NoticeReason::NoticeMalformed) => (StatusCode::BAD_REQUEST, "fail"),
            Answer::Invalid(
                NoticeReason::SignatureInvalid
                | NoticeReason::KeyUnknown
                | NoticeReason::TimestampOutsideWindow,
            ) => (StatusCode::UNAUTHORIZED, "fail"),
            Answer::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "fail"),
        };
        HttpAnswer { status, content_type: Some("text/plain"), body: Bytes::from_static(body.as_bytes()) }
    }
}

impl Reader {
    fn parse(
        &self,
        parameters: &[Parameter],
        key: usize,
        now: OffsetDateTime,
    ) -> Result<Notice, NoticeError> {
        if charset(parameters).is_none() {
            return Err(malformed("charset must be utf-8 or gbk"));
        }
        let notify_id = plain(parameters, "notify_id", NOTIFY_ID_BYTES_MAX)
            .ok_or(malformed("notify_id must be 1 to 128 printable ASCII characters"))?;
        let ours = plain(parameters, "app_id", NUMBER_BYTES_MAX) == Some(&self.settings.app_id)
            && raw(parameters, "seller_id").is_none_or(|seller| seller == self.settings.seller_id.as_bytes());
        if !ours {
            return Err(NoticeError::new(NoticeReason::CrossAccount, "app_id or seller_id is another one's"));
        }
        let mut notice = Notice {
            notify_id: notify_id.to_owned(),
            fact: Fact::Other,
            pay_no: String::new(),
            merchant_id: String::new(),
            channel_txn_id: None,
            refund_no: None,
            channel_refund_no: None,
            amount: None,
            occurred_at: None,
            key_id: format!("rsa-{key}"),
            nonce: None,
        };
        let (fact, amount_field, time_field) = fact(parameters);
        if fact == Fact::Other {
            return Ok(notice);
        }
        let number = plain(parameters, "out_trade_no", NUMBER_BYTES_MAX)
            .ok_or(malformed("out_trade_no must be 1 to 64 printable ASCII characters"))?;
        let txn = plain(parameters, "trade_no", NUMBER_BYTES_MAX)
            .and_then(|text| text.parse().ok())
            .ok_or(malformed("trade_no must be 1 to 64 printable ASCII characters"))?;
        let minor = plain(parameters, amount_field, NUMBER_BYTES_MAX)
            .and_then(amount::fen)
            .ok_or(malformed("total_amount or refund_fee is no amount in yuan"))?;
        notice.fact = fact;
        notice.pay_no = number.to_owned();
        notice.channel_txn_id = Some(txn);
        notice.amount = Some(StatedAmount { minor, currency: CURRENCY.to_owned() });
        notice.occurred_at =
            Some(plain(parameters, time_field, NUMBER_BYTES_MAX).and_then(read_time).unwrap_or(now));
        Ok(notice)
    }
}

/// What happened, and which fields say how much and when.
fn fact(parameters: &[Parameter]) -> (Fact, &'static str, &'static str) {
    let is_there = |name| raw(parameters, name).is_some_and(|value| !value.is_empty());
    if raw(parameters, "notify_type") != Some(b"trade_status_sync") {
        return (Fact::Other, "", "");
    }
    if is_there("gmt_refund") || is_there("refund_fee") {
        // How much went back in all, also where a refund's own number stands beside it.
        return (Fact::RefundedTotal, "refund_fee", "gmt_refund");
    }
    match raw(parameters, "trade_status") {
        // *Finished* says that no refund is possible any more; it is the same payment, paid.
        Some(b"TRADE_SUCCESS" | b"TRADE_FINISHED") => (Fact::PaySucceeded, "total_amount", "gmt_payment"),
        Some(b"TRADE_CLOSED") if !is_there("gmt_payment") => (Fact::PayClosed, "total_amount", "gmt_close"),
        // Closed and once paid, without the marks of a refund; or a word that we do not know.
        _ => (Fact::Other, "", ""),
    }
}
