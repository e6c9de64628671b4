//! Notices of the generic channel.
//!
//! Gate 7, its first half: what is forged, moved, changed or old is refused here, before anything in it is believed. The
//! second half (known payment, account, amount, state, dedupe) is the core's.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use pay_types::ChannelTxnId;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::refund::CHANNEL_REFUND_NO_BYTES_MAX;
use super::sign::{self, Covered, Verified};
use crate::accounts::Account;
use crate::port::{
    Answer, Fact, HttpAnswer, Notice, NoticeError, NoticeReader, NoticeReason, RawNotice, StatedAmount,
};
use crate::strict_json;

/// Longest id of a notice; longer ones fit no column.
const NOTIFY_ID_BYTES_MAX: usize = 128;
/// Longest number or merchant that we look up; ours have 29.
const NUMBER_BYTES_MAX: usize = 64;

/// Reads notices to one account.
#[derive(Debug)]
pub struct Reader {
    account: Arc<Account>,
}

impl Reader {
    #[must_use]
    pub fn new(account: Arc<Account>) -> Self {
        Self { account }
    }
}

impl NoticeReader for Reader {
    fn read(&self, raw: &RawNotice, now: OffsetDateTime) -> Result<Notice, NoticeError> {
        let covered = Covered::Request { method: raw.method.as_str(), path_and_query: &raw.path_and_query };
        let verified = sign::verify(&self.account, covered, &raw.headers, &raw.body, now)?;
        parse(&raw.body, verified)
    }

    fn answer(&self, answer: Answer) -> HttpAnswer {
        let (status, code) = match answer {
            // Any 2xx acknowledges; there is nothing to say.
            Answer::Accept => {
                return HttpAnswer { status: StatusCode::NO_CONTENT, content_type: None, body: Bytes::new() };
            }
            Answer::Refuse => (StatusCode::CONFLICT, "REFUSED"),
            Answer::Invalid(NoticeReason::NoticeMalformed) => {
                (StatusCode::BAD_REQUEST, NoticeReason::NoticeMalformed.as_str())
            }
            Answer::Invalid(reason) => (StatusCode::UNAUTHORIZED, reason.as_str()),
            Answer::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        };
        let body = Bytes::from(format!("{{\"code\":\"{code}\"}}"));
        HttpAnswer { status, content_type: Some("application/json"), body }
    }
}

fn parse(body: &[u8], verified: Verified) -> Result<Notice, NoticeError> {
    let map = strict_json::object(body)
        .ok_or(malformed("the body must be one JSON object, each key once, with nothing behind it"))?;
    let notify_id = printable(&map, "notify_id", NOTIFY_ID_BYTES_MAX)
        .ok_or(malformed("notify_id must be 1 to 128 printable ASCII characters"))?;
    let fact = fact(strict_json::text(&map, "event").ok_or(malformed("event must be a text"))?);
    let mut notice = Notice {
        notify_id,
        fact,
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
    if fact != Fact::Other {
        fill(&mut notice, &map)?;
    }
    if matches!(fact, Fact::RefundSucceeded | Fact::RefundFailed) {
        notice.refund_no = Some(
            printable(&map, "refund_no", NUMBER_BYTES_MAX)
                .ok_or(malformed("refund_no must be 1 to 64 printable ASCII characters"))?,
        );
        notice.channel_refund_no = printable(&map, "channel_refund_no", CHANNEL_REFUND_NO_BYTES_MAX);
    }
    Ok(notice)
}

/// The fields that every event about a payment or a refund has.
fn fill(notice: &mut Notice, map: &Map<String, Value>) -> Result<(), NoticeError> {
    notice.pay_no = printable(map, "pay_no", NUMBER_BYTES_MAX)
        .ok_or(malformed("pay_no must be 1 to 64 printable ASCII characters"))?;
    notice.merchant_id = printable(map, "merchant_id", NUMBER_BYTES_MAX)
        .ok_or(malformed("merchant_id must be 1 to 64 printable ASCII characters"))?;
    notice.channel_txn_id = match map.get("channel_txn_id") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let id = value.as_str().and_then(|text| text.parse::<ChannelTxnId>().ok());
            Some(id.ok_or(malformed("channel_txn_id must be 1 to 128 printable ASCII characters"))?)
        }
    };
    if notice.fact == Fact::PaySucceeded && notice.channel_txn_id.is_none() {
        return Err(malformed("channel_txn_id must be there when a payment succeeded"));
    }
    let minor = map
        .get("amount")
        .and_then(Value::as_i64)
        .ok_or(malformed("amount must be a whole number of minor units within 64 bits"))?;
    let currency = strict_json::text(map, "currency")
        .filter(|code| code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase()))
        .ok_or(malformed("currency must be three upper-case letters"))?;
    notice.amount = Some(StatedAmount { minor, currency: currency.to_owned() });
    let occurred_at = strict_json::text(map, "occurred_at")
        .and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok())
        .ok_or(malformed("occurred_at must be a time of RFC 3339 with its offset"))?;
    notice.occurred_at = Some(occurred_at);
    Ok(())
}

fn fact(event: &str) -> Fact {
    match event {
        "payment.succeeded" => Fact::PaySucceeded,
        "payment.closed" => Fact::PayClosed,
        "payment.failed" => Fact::PayFailed,
        "payment.declined" => Fact::PayDeclined,
        "refund.succeeded" => Fact::RefundSucceeded,
        "refund.failed" => Fact::RefundFailed,
        "refund.abnormal" => Fact::RefundAbnormal,
        _ => Fact::Other,
    }
}

fn printable(map: &Map<String, Value>, name: &str, len_max: usize) -> Option<String> {
    strict_json::text(map, name)
        .filter(|t| (1..=len_max).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_graphic()))
        .map(str::to_owned)
}

const fn malformed(detail: &'static str) -> NoticeError {
    NoticeError::new(NoticeReason::NoticeMalformed, detail)
}

#[cfg(test)]
pub(super) mod tests {
    use http::{HeaderMap, Method};

    use super::*;
    use crate::accounts::Accounts;
    use crate::generic::sign::{Stamp, sign};

    pub(in crate::generic) fn account() -> Arc<Account> {
        let accounts = Accounts::parse(
            r#"
[[account]]
channel = "generic"
account = "main"
base_url = "http://127.0.0.1:1"
notify_url = "http://127.0.0.1:2/v1/callbacks/generic/main"
current_key_id = "k1"
[[account.key]]
key_id = "k0"
secret = "generic-secret-previous-000"
[[account.key]]
key_id = "k1"
secret = "generic-secret-current-0001"
"#,
        )
        .unwrap();
        Arc::clone(accounts.iter().next().unwrap())
    }

    pub(in crate::generic) fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_767_240_006).unwrap()
    }

    const GOOD: &str = r#"{"notify_id":"G-1","event":"payment.succeeded","merchant_id":"M1","pay_no":"P1","channel_txn_id":"T1","amount":1000,"currency":"CNY","occurred_at":"2026-01-01T12:00:05+08:00"}"#;

    fn read(body: &[u8]) -> Result<Notice, NoticeError> {
        let account = account();
        let mut headers = HeaderMap::new();
        let covered = Covered::Request { method: "POST", path_and_query: "/n" };
        sign(
            &mut headers,
            account.current_key().unwrap(),
            covered,
            Stamp { at: now(), nonce: "nonce-0001" },
            body,
        );
        let raw = RawNotice {
            method: Method::POST,
            path_and_query: "/n".to_owned(),
            headers,
            body: Bytes::copy_from_slice(body),
        };
        Reader::new(account).read(&raw, now())
    }

    fn replaced(from: &str, to: &str) -> String {
        let body = GOOD.replacen(from, to, 1);
        assert_ne!(body, GOOD, "{from} is not in the body");
        body
    }

    fn changed(from: &str, to: &str) -> Result<Notice, NoticeError> {
        read(replaced(from, to).as_bytes())
    }

    #[test]
    fn a_good_notice_is_read_in_full() {
        let notice = read(GOOD.as_bytes()).unwrap();
        assert_eq!(notice.fact, Fact::PaySucceeded);
        assert_eq!((notice.notify_id.as_str(), notice.pay_no.as_str()), ("G-1", "P1"));
        assert_eq!(notice.merchant_id, "M1");
        assert_eq!(notice.channel_txn_id.unwrap().as_str(), "T1");
        assert_eq!(notice.amount, Some(StatedAmount { minor: 1000, currency: "CNY".to_owned() }));
        assert_eq!(notice.occurred_at.unwrap().unix_timestamp(), 1_767_240_005);
        assert_eq!((notice.key_id.as_str(), notice.nonce.as_deref()), ("k1", Some("nonce-0001")));
    }

    #[test]
    fn a_signed_notice_of_bad_form_is_malformed_and_never_a_panic() {
        for (from, to) in [
            ("\"G-1\"", "1"),
            ("\"G-1\"", "\"\""),
            ("\"G-1\"", "\"a b\""),
            ("\"notify_id\":\"G-1\",", ""),
            ("\"event\":\"payment.succeeded\",", ""),
            ("\"payment.succeeded\"", "null"),
            ("\"P1\"", "\"P1\\u0000\""),
            ("\"P1\"", "\"支付\""),
            ("\"pay_no\":\"P1\",", ""),
            ("\"M1\"", "[]"),
            ("\"T1\"", "\"\""),
            ("\"T1\"", "null"),
            ("\"channel_txn_id\":\"T1\",", ""),
            ("1000", "1000.0"),
            ("1000", "1e3"),
            ("1000", "\"1000\""),
            ("1000", "9223372036854775808"),
            ("1000", "NaN"),
            ("1000", "01000"),
            ("\"amount\":1000,", ""),
            ("\"CNY\"", "\"cny\""),
            ("\"CNY\"", "\"CNYY\""),
            ("2026-01-01T12:00:05+08:00", "2026-01-01 12:00:05"),
            ("2026-01-01T12:00:05+08:00", "2026-02-30T12:00:05Z"),
            ("{\"notify", "{\"amount\":1,\"notify"),
            ("05+08:00\"}", "05+08:00\"}x"),
            ("05+08:00\"}", "05+08:00\",\"x\":{\"a\":1,\"a\":2}}"),
        ] {
            let error = changed(from, to).unwrap_err();
            assert_eq!(error.reason, NoticeReason::NoticeMalformed, "{from} -> {to}");
        }
        for bad in [&b""[..], b"[]", b"\xff\xfe{}", b"null", b"{"] {
            assert_eq!(read(bad).unwrap_err().reason, NoticeReason::NoticeMalformed);
        }
    }

    #[test]
    fn what_is_genuine_but_strange_is_left_to_the_core() {
        for (from, to) in
            [("1000", "0"), ("1000", "-1"), ("1000", "9223372036854775807"), ("\"CNY\"", "\"ZZZ\"")]
        {
            assert!(changed(from, to).is_ok(), "{to}");
        }
        assert!(
            changed("{\"notify", "{\"more\":{\"a\":[1.5]},\"notify").is_ok(),
            "unknown fields are signed too"
        );
    }

    #[test]
    fn every_event_has_its_fact_and_an_unknown_one_is_other() {
        for (event, expected) in [
            ("payment.closed", Fact::PayClosed),
            ("payment.failed", Fact::PayFailed),
            ("payment.declined", Fact::PayDeclined),
            ("dispute.opened", Fact::Other),
        ] {
            assert_eq!(changed("payment.succeeded", event).unwrap().fact, expected);
        }
        for (event, expected) in
            [("refund.succeeded", Fact::RefundSucceeded), ("refund.failed", Fact::RefundFailed)]
        {
            let error = changed("payment.succeeded", event).unwrap_err();
            assert_eq!(error.reason, NoticeReason::NoticeMalformed, "a refund has its number");
            let body = GOOD
                .replace("payment.succeeded", event)
                .replace("{\"notify", "{\"refund_no\":\"R1\",\"channel_refund_no\":\"C1\",\"notify");
            let notice = read(body.as_bytes()).unwrap();
            assert_eq!(notice.fact, expected);
            assert_eq!(
                (notice.refund_no.as_deref(), notice.channel_refund_no.as_deref()),
                (Some("R1"), Some("C1"))
            );
        }
        assert_eq!(changed("payment.succeeded", "payment.closed").unwrap().refund_no, None);
        assert_eq!(read(br#"{"notify_id":"G-9","event":"account.updated"}"#).unwrap().fact, Fact::Other);
        let closed =
            GOOD.replace("payment.succeeded", "payment.closed").replace("\"channel_txn_id\":\"T1\",", "");
        assert_eq!(
            read(closed.as_bytes()).unwrap().channel_txn_id,
            None,
            "an unpaid close has no transaction"
        );
    }

    #[test]
    fn answers_are_as_the_channel_wants_them() {
        let reader = Reader::new(account());
        let status = |answer| reader.answer(answer).status.as_u16();
        assert_eq!(status(Answer::Accept), 204);
        assert!(reader.answer(Answer::Accept).body.is_empty());
        assert_eq!(status(Answer::Refuse), 409);
        assert_eq!(reader.answer(Answer::Refuse).body, "{\"code\":\"REFUSED\"}");
        assert_eq!(status(Answer::Unavailable), 503);
        assert_eq!(status(Answer::Invalid(NoticeReason::NoticeMalformed)), 400);
        for reason in
            [NoticeReason::SignatureInvalid, NoticeReason::KeyUnknown, NoticeReason::TimestampOutsideWindow]
        {
            assert_eq!(status(Answer::Invalid(reason)), 401);
        }
    }
}
