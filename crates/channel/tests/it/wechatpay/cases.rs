//! The published cases and the vectors, made apart from this code.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use channel::wechatpay::Reader;
use channel::{Accounts, Answer, Fact, Notice, NoticeError, NoticeReader as _, NoticeReason, RawNotice};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde_json::Value;
use service_kit::Clock;
use time::OffsetDateTime;

use super::support::{APPID, MERCHANT, Verifier, adapter};

#[derive(Debug, Deserialize)]
struct Manifest {
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    id: String,
    body: String,
    headers: String,
    now: i64,
    expect: Value,
}

#[derive(Debug, Deserialize)]
struct Vectors {
    apiv3_key: String,
    cases: Vec<Vector>,
}

#[derive(Debug, Deserialize)]
struct Vector {
    name: String,
    now: i64,
    headers: BTreeMap<String, String>,
    body: String,
    plaintext: Value,
    expect: String,
}

fn file(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)).unwrap()
}

fn text(path: &str) -> String {
    String::from_utf8(file(path)).unwrap()
}

fn raw(headers: &BTreeMap<String, String>, body: Vec<u8>) -> RawNotice {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
        .collect();
    let path_and_query = "/v1/callbacks/wechatpay/main".to_owned();
    RawNotice { method: Method::POST, path_and_query, headers, body: Bytes::from(body) }
}

/// An account with these keys, tables as in the channels file.
fn reader(api_v3_key: &str, keys: &str) -> Reader {
    let toml = format!(
        r#"
[[account]]
channel = "wechatpay"
account = "main"
base_url = "http://127.0.0.1:1"
notify_url = "http://127.0.0.1:2/v1/callbacks/wechatpay/main"
[account.wechatpay]
mchid = "1900000001"
appid = "{APPID}"
product = "native"
merchant_serial = "{}"
merchant_private_key = '''{}'''
api_v3_key = "{api_v3_key}"
{keys}"#,
        MERCHANT.id, MERCHANT.private_pem
    );
    let accounts = Accounts::parse(&toml).unwrap();
    adapter(accounts.iter().next().unwrap(), &Clock::system()).1
}

fn at(now: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(now).unwrap()
}

/// The reader of the cases' account, as their `keyring.json` has it.
fn reader_of_cases() -> Reader {
    let keyring: BTreeMap<String, String> =
        serde_json::from_slice(&file("cases/wechat/keyring.json")).unwrap();
    let serial = "5157F09EFDC096DE15EBE81A47057A7232F1B8E1";
    let id = "PUB_KEY_ID_0119000000012025031400000000000001";
    let tables = format!(
        "[[account.wechatpay.platform_certificate]]\nserial = \"{serial}\"\npem = '''{}'''\n\
         [[account.wechatpay.public_key]]\nid = \"{id}\"\npem = '''{}'''\n",
        text(&format!("cases/{}", keyring[serial])),
        text(&format!("cases/{}", keyring[id]))
    );
    reader(&keyring["apiv3_key"], &tables)
}

/// Every case ends as its manifest says, as far as the reader decides it. What a duplicate, a wrong amount or a wrong
/// currency does is the core's to say; that the reader hands it over unchanged is said here.
#[test]
fn every_published_case_is_read_as_published() {
    let manifest: Manifest = serde_json::from_slice(&file("cases/wechat/manifest.json")).unwrap();
    let reader = reader_of_cases();
    for case in &manifest.cases {
        let headers = serde_json::from_slice(&file(&format!("cases/{}", case.headers))).unwrap();
        let notice = raw(&headers, file(&format!("cases/{}", case.body)));
        let read = reader.read(&notice, at(case.now));
        match case.expect["verify"].as_str().unwrap() {
            "accept" => accepted(case, read.unwrap()),
            "reject" => rejected(case, &reader, &read.unwrap_err()),
            other => panic!("a new expectation in the manifest: {other}"),
        }
    }
    assert_eq!(manifest.cases.len(), 17);
    let accept = reader.answer(Answer::Accept);
    assert_eq!((accept.status.as_u16(), accept.body.len()), (204, 0));
}

fn accepted(case: &Case, notice: Notice) {
    let id = case.id.as_str();
    let amount = notice.amount.clone().unwrap();
    assert_eq!(notice.pay_no, "P01JP961TQ00000000000001002A2", "{id}");
    assert_eq!(notice.channel_txn_id.unwrap().as_str(), "4200000000202503140000000001", "{id}");
    let expected = case.expect["amount_minor"].as_i64();
    assert!(expected.is_none_or(|expected| expected == amount.minor), "{id}");
    match id {
        "W10_refund_abnormal" | "W11_refund_success" => {
            assert_eq!((amount.minor, amount.currency.as_str()), (3000, "CNY"), "{id}");
            assert_eq!(notice.refund_no.as_deref(), Some("R01JP961TQ00000000000000R11A2"), "{id}");
            assert_eq!(notice.channel_refund_no.as_deref(), Some("50000000002025031400000000001"), "{id}");
            let abnormal = id == "W10_refund_abnormal";
            assert_eq!(
                notice.fact,
                if abnormal { Fact::RefundAbnormal } else { Fact::RefundSucceeded },
                "{id}"
            );
        }
        _ => {
            assert_eq!((notice.fact, notice.refund_no), (Fact::PaySucceeded, None), "{id}");
            let (minor, currency) = match id {
                "W09b_payer_total_matches_total_short" => (9000, "CNY"),
                "W14_wrong_currency" => (10000, "HKD"),
                _ => (10000, "CNY"),
            };
            assert_eq!((amount.minor, amount.currency.as_str()), (minor, currency), "{id}");
        }
    }
    match id {
        "W05_public_key_mode" => assert!(notice.key_id.starts_with("PUB_KEY_ID_"), "{id}"),
        "W08_redelivery_new_nonce" => assert_eq!(notice.notify_id, "EV-0001", "the same notice"),
        _ => {}
    }
}

fn rejected(case: &Case, reader: &Reader, error: &NoticeError) {
    let reason = match case.id.as_str() {
        "W04_unknown_serial" => NoticeReason::KeyUnknown,
        "W06_stale_301s" | "W07_future_301s" => NoticeReason::TimestampOutsideWindow,
        _ => NoticeReason::SignatureInvalid,
    };
    assert_eq!(error.reason, reason, "{}", case.id);
    let answer = reader.answer(Answer::Invalid(error.reason));
    assert_eq!(answer.status.as_u16(), 401, "{}", case.id);
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["code"], "FAIL", "{}", case.id);
}

/// Fails when the signed bytes, the window, the choice of the key or the opening of the resource change.
#[test]
fn the_published_vectors_are_read_as_published() {
    let vectors: Vectors = serde_json::from_slice(&file("fixtures/wechatpay/notifications.json")).unwrap();
    let tables = format!(
        "[[account.wechatpay.platform_certificate]]\npem = '''{}'''\n\
         [[account.wechatpay.public_key]]\nid = \"PUB_KEY_ID_0110000000002024111500000000000001\"\npem = '''{}'''\n",
        text("fixtures/wechatpay/wxplat_cert.pem"),
        text("fixtures/wechatpay/wxplat_pub.pem")
    );
    let reader = reader(&vectors.apiv3_key, &tables);
    for vector in &vectors.cases {
        let name = vector.name.as_str();
        let read = reader.read(&raw(&vector.headers, vector.body.clone().into_bytes()), at(vector.now));
        let expected = match vector.expect.as_str() {
            "valid" => {
                let notice = read.unwrap();
                assert_eq!(notice.pay_no, vector.plaintext["out_trade_no"].as_str().unwrap(), "{name}");
                assert_eq!(notice.refund_no.as_deref(), vector.plaintext["out_refund_no"].as_str(), "{name}");
                continue;
            }
            "invalid: signature" => NoticeReason::SignatureInvalid,
            "invalid: stale" | "invalid: future" => NoticeReason::TimestampOutsideWindow,
            "invalid: unknown serial" => NoticeReason::KeyUnknown,
            "signature valid, decryption must fail" => NoticeReason::NoticeMalformed,
            other => panic!("a new expectation in the vectors: {other}"),
        };
        assert_eq!(read.unwrap_err().reason, expected, "{name}");
    }
    assert_eq!(vectors.cases.len(), 17);
}

/// The signatures that others made for a merchant's requests verify over the text that we would sign; `call.rs` checks that
/// our own `Authorization` is over that text.
#[test]
fn the_published_requests_are_signed_as_ours_are() {
    let vectors: Value = serde_json::from_slice(&file("fixtures/wechatpay/requests.json")).unwrap();
    let key = text("fixtures/wechatpay/mch_pub.pem");
    let cases = vectors["cases"].as_array().unwrap();
    for case in cases {
        let field = |name: &str| case[name].as_str().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("authorization", field("authorization").parse().unwrap());
        let key =
            Verifier { mchid: "1900000001", serial: "3775B6A45ACD588826D15E583A95F5DD00000001", pem: &key };
        assert!(key.authorized(&headers, field("method"), field("url"), field("body").as_bytes()), "{case}");
    }
    assert_eq!(cases.len(), 3);
}

/// The window is 300 s both ways, its edges inside. Fails when `WINDOW_S_MAX` moves or one side is not checked.
#[test]
fn the_window_ends_after_300_seconds_on_both_sides() {
    let manifest: Manifest = serde_json::from_slice(&file("cases/wechat/manifest.json")).unwrap();
    let case = &manifest.cases[0];
    let headers = serde_json::from_slice(&file(&format!("cases/{}", case.headers))).unwrap();
    let notice = raw(&headers, file(&format!("cases/{}", case.body)));
    let reader = reader_of_cases();
    for (offset, inside) in [(-301, false), (-300, true), (0, true), (300, true), (301, false)] {
        assert_eq!(reader.read(&notice, at(case.now + offset)).is_ok(), inside, "{offset}");
    }
}
