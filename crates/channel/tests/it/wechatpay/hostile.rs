//! Whatever arrives is read or refused, in flat memory and without a panic.

use std::sync::LazyLock;

use bytes::Bytes;
use channel::wechatpay::Reader;
use channel::{Fact, NoticeReader as _, NoticeReason, RawNotice};
use http::HeaderValue;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use service_kit::Clock;
use time::OffsetDateTime;

use super::support::{
    API_V3_KEY, APPID, CERTIFICATE, MCHID, Table, adapter, notice, seal, signed, transaction,
};

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_767_240_006).unwrap()
}

static READER: LazyLock<Reader> = LazyLock::new(|| {
    adapter(&Table::new("http://127.0.0.1:1", vec![&CERTIFICATE], vec![]).account(), &Clock::system()).1
});

fn good() -> RawNotice {
    notice(&CERTIFICATE, now(), "nonce-0001", "TRANSACTION.SUCCESS", &transaction("P1"))
}

/// A signed notice with this content.
fn reason(event: &str, plain: &Value) -> NoticeReason {
    READER.read(&notice(&CERTIFICATE, now(), "n1", event, plain), now()).unwrap_err().reason
}

fn refunded(status: &str) -> Value {
    json!({
        "mchid": MCHID, "out_trade_no": "P1", "transaction_id": "T1", "out_refund_no": "R1", "refund_id": "C1",
        "refund_status": status, "amount": { "total": 1000, "refund": 300, "payer_total": 900, "payer_refund": 270 },
    })
}

#[test]
fn a_good_notice_is_read_in_full() {
    let notice = READER.read(&good(), now()).unwrap();
    assert_eq!(
        (notice.fact, notice.notify_id.as_str(), notice.pay_no.as_str()),
        (Fact::PaySucceeded, "EV-1", "P1")
    );
    assert_eq!(notice.amount.unwrap().minor, 1000, "the order's amount, not what coupons left of it");
    assert_eq!(notice.occurred_at.unwrap().unix_timestamp(), 1_767_240_005);
    assert_eq!(
        (notice.key_id.as_str(), notice.nonce.as_deref()),
        (CERTIFICATE.id.as_str(), Some("nonce-0001"))
    );
}

#[test]
fn every_event_has_its_fact_and_an_unknown_one_is_other() {
    for (event, status, fact) in [
        ("REFUND.SUCCESS", "SUCCESS", Fact::RefundSucceeded),
        ("REFUND.ABNORMAL", "ABNORMAL", Fact::RefundAbnormal),
        ("REFUND.CLOSED", "CLOSED", Fact::RefundFailed),
    ] {
        let read = READER.read(&notice(&CERTIFICATE, now(), "n1", event, &refunded(status)), now()).unwrap();
        assert_eq!((read.fact, read.refund_no.as_deref()), (fact, Some("R1")));
        assert_eq!(read.amount.unwrap().minor, 300);
        assert_eq!(read.occurred_at.unwrap().unix_timestamp(), 1_767_240_006, "the notice's own time");
        // An event whose content says something else says nothing.
        assert_eq!(reason(event, &refunded("PROCESSING")), NoticeReason::NoticeMalformed);
    }
    let strange = notice(&CERTIFICATE, now(), "n1", "PAYSCORE.USER_OPEN_SERVICE", &json!([]));
    assert_eq!(READER.read(&strange, now()).unwrap().fact, Fact::Other);
    for state in ["NOTPAY", "PAYERROR", "A_NEW_STATE"] {
        let mut plain = transaction("P1");
        plain["trade_state"] = json!(state);
        assert_eq!(reason("TRANSACTION.SUCCESS", &plain), NoticeReason::NoticeMalformed, "{state}");
    }
}

/// Fails when `mchid` or `appid` is not compared.
#[test]
fn a_genuine_notice_of_another_account_is_told_apart() {
    for field in ["mchid", "appid"] {
        for value in [json!("1900000002"), Value::Null, json!(1_900_000_001)] {
            let mut plain = transaction("P1");
            plain[field] = value;
            assert_eq!(reason("TRANSACTION.SUCCESS", &plain), NoticeReason::CrossAccount, "{field}");
        }
    }
    let mut plain = refunded("SUCCESS");
    plain["mchid"] = json!("1900000002");
    assert_eq!(reason("REFUND.SUCCESS", &plain), NoticeReason::CrossAccount);
    assert!(transaction("P1")["appid"] == APPID);
}

#[test]
fn a_signed_notice_of_bad_content_is_malformed() {
    for (pointer, bad) in [
        ("/out_trade_no", json!("")),
        ("/out_trade_no", json!("P 1")),
        ("/out_trade_no", json!("支付")),
        ("/out_trade_no", json!("P".repeat(65))),
        ("/out_trade_no", Value::Null),
        ("/transaction_id", json!("")),
        ("/transaction_id", json!(7)),
        ("/amount", json!([])),
        ("/amount/total", json!("1000")),
        ("/amount/total", json!(1000.0)),
        ("/amount/total", json!(9_223_372_036_854_775_808_u64)),
        ("/amount/total", Value::Null),
        ("/amount/currency", json!("cny")),
        ("/amount/currency", Value::Null),
        ("/success_time", json!("2026-01-01 12:00:05")),
        ("/success_time", json!("2026-02-30T12:00:05Z")),
    ] {
        let mut plain = transaction("P1");
        *plain.pointer_mut(pointer).unwrap() = bad.clone();
        assert_eq!(reason("TRANSACTION.SUCCESS", &plain), NoticeReason::NoticeMalformed, "{pointer} {bad}");
    }
    for missing in ["out_refund_no", "amount", "out_trade_no", "transaction_id", "refund_status"] {
        let mut plain = refunded("SUCCESS");
        plain.as_object_mut().unwrap().remove(missing);
        assert_eq!(reason("REFUND.SUCCESS", &plain), NoticeReason::NoticeMalformed, "{missing}");
    }
}

/// Signed by the channel's key, so that nothing but the form can be what refuses them.
#[test]
fn hostile_bodies_are_malformed() {
    let sealed = |plain: &[u8]| {
        json!({ "id": "E", "event_type": "TRANSACTION.SUCCESS", "resource": seal(API_V3_KEY, "", plain) })
            .to_string()
            .into_bytes()
    };
    let good = good().body;
    let deep = [b"{\"id\":".as_slice(), "[".repeat(30_000).as_bytes()].concat();
    let wide = format!("{{\"id\":\"E\",\"event_type\":\"{}\"}}", "x".repeat(1 << 20));
    for (name, body) in [
        ("empty", Vec::new()),
        ("truncated", good[..good.len() / 2].to_vec()),
        ("deep", deep),
        ("huge", wide.into_bytes()),
        ("no text", b"\xff\xfe{}".to_vec()),
        ("no text inside", b"{\"id\":\"\xff\"}".to_vec()),
        ("array", b"[]".to_vec()),
        ("twice", b"{\"id\":\"a\",\"id\":\"b\",\"event_type\":\"X\"}".to_vec()),
        ("behind", [&good[..], b"x"].concat()),
        ("no resource", b"{\"id\":\"E\",\"event_type\":\"TRANSACTION.SUCCESS\"}".to_vec()),
        ("sealed nothing", sealed(b"")),
        ("sealed no text", sealed(b"\xff\xfe")),
        ("sealed deep", sealed("[".repeat(20_000).as_bytes())),
        ("sealed twice", sealed(b"{\"mchid\":\"1900000001\",\"mchid\":\"1900000001\"}")),
        ("sealed array", sealed(b"[1]")),
    ] {
        let raw = signed(&CERTIFICATE, now(), "n1", Bytes::from(body));
        let error = READER.read(&raw, now()).unwrap_err();
        assert_eq!(error.reason, NoticeReason::NoticeMalformed, "{name}");
    }
}

#[test]
fn a_header_that_is_missing_or_there_twice_is_refused() {
    for (name, expected) in [
        ("wechatpay-serial", NoticeReason::KeyUnknown),
        ("wechatpay-signature", NoticeReason::SignatureInvalid),
        ("wechatpay-timestamp", NoticeReason::NoticeMalformed),
        ("wechatpay-nonce", NoticeReason::NoticeMalformed),
    ] {
        let mut missing = good();
        let value = missing.headers.remove(name).unwrap();
        assert_eq!(READER.read(&missing, now()).unwrap_err().reason, expected, "{name} missing");
        let mut twice = good();
        twice.headers.append(name, value);
        assert_eq!(READER.read(&twice, now()).unwrap_err().reason, expected, "{name} twice");
    }
    let mut other = good();
    other.headers.insert("wechatpay-signature-type", HeaderValue::from_static("WECHATPAY2-SM2-WITH-SM3"));
    assert_eq!(READER.read(&other, now()).unwrap_err().reason, NoticeReason::SignatureInvalid);
    other.headers.remove("wechatpay-signature-type");
    assert!(READER.read(&other, now()).is_ok(), "left out, it is the only one that there is");
    for bad in ["NaN", "-1", "+1767240006", "1767240006.0", "1e9", "", "9999999999999"] {
        let mut raw = good();
        raw.headers.insert("wechatpay-timestamp", bad.parse().unwrap());
        assert_eq!(READER.read(&raw, now()).unwrap_err().reason, NoticeReason::NoticeMalformed, "{bad}");
    }
}

proptest! {
    #[test]
    fn no_byte_of_a_notice_can_be_changed(at: Index, xor in 1u8..) {
        let mut raw = good();
        let mut body = raw.body.to_vec();
        body[at.index(raw.body.len())] ^= xor;
        raw.body = Bytes::from(body);
        prop_assert_eq!(READER.read(&raw, now()).unwrap_err().reason, NoticeReason::SignatureInvalid);
    }

    #[test]
    fn any_message_is_refused_without_panic(body: Vec<u8>, value in "[ -~]{0,80}") {
        let mut raw = good();
        raw.body = Bytes::from(body);
        prop_assert!(READER.read(&raw, now()).is_err());
        for header in raw.headers.values_mut() {
            *header = value.parse().unwrap();
        }
        prop_assert!(READER.read(&raw, now()).is_err());
    }

    #[test]
    fn any_signed_bytes_are_read_or_refused_without_panic(body: Vec<u8>, plain: Vec<u8>) {
        let raw = signed(&CERTIFICATE, now(), "n1", Bytes::from(body));
        prop_assert!(READER.read(&raw, now()).is_err());
        let body = json!({
            "id": "E", "event_type": "TRANSACTION.SUCCESS", "resource": seal(API_V3_KEY, "", &plain),
        });
        let raw = signed(&CERTIFICATE, now(), "n1", Bytes::from(body.to_string()));
        prop_assert!(READER.read(&raw, now()).is_err());
    }
}
