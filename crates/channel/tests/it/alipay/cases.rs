//! The published cases, made apart from this code.

use axum::body::Bytes;
use channel::{Answer, Fact, NoticeReader as _, NoticeReason, RawNotice, alipay};
use http::{HeaderMap, Method};
use proptest::prelude::*;
use serde_json::Value;
use time::OffsetDateTime;

use super::support::{file, reader};

fn raw(body: &[u8]) -> RawNotice {
    RawNotice {
        method: Method::POST,
        path_and_query: "/v1/callbacks/alipay/main".to_owned(),
        headers: HeaderMap::new(),
        body: Bytes::copy_from_slice(body),
    }
}

fn published() -> alipay::Reader {
    reader(&String::from_utf8(file("cases/keys/alipay_channel.pub.pem")).unwrap())
}

/// Every case ends as its manifest says, as far as the reader decides it. Fails when values are trimmed, decoded twice, mended,
/// or dropped where empty, when the algorithm is the message's to choose, and when a refund counts as a close.
#[test]
fn every_published_case_is_read_as_published() {
    let manifest: Value = serde_json::from_slice(&file("cases/alipay/manifest.json")).unwrap();
    let reader = published();
    let cases = manifest["cases"].as_array().unwrap();
    for case in cases {
        let (id, expect) = (case["id"].as_str().unwrap(), &case["expect"]);
        let body = file(&format!("cases/{}", case["body"].as_str().unwrap()));
        let now = OffsetDateTime::from_unix_timestamp(case["now"].as_i64().unwrap()).unwrap();
        let read = reader.read(&raw(&body), now);
        if expect["verify"].as_str().unwrap().starts_with("reject") {
            let error = read.unwrap_err();
            let status = reader.answer(Answer::Invalid(error.reason)).status.as_u16();
            assert!((400..500).contains(&status), "{id}");
            if let Some(http) = expect["http"].as_u64() {
                assert_eq!(u64::from(status), http, "{id}");
            }
            continue;
        }
        if expect["amount_ok"] == false {
            // Genuine, and no amount: kept as evidence, refused, and the payment stays.
            assert_eq!(read.unwrap_err().reason, NoticeReason::NoticeMalformed, "{id}");
            continue;
        }
        let notice = read.unwrap_or_else(|error| panic!("{id}: {error}"));
        let state = expect["state"].as_str().unwrap();
        let fact = match state {
            "SUCCESS" | "unchanged" => Fact::PaySucceeded,
            "CLOSED" => Fact::PayClosed,
            _ => Fact::RefundedTotal,
        };
        assert_eq!(notice.fact, fact, "{id}");
        assert_eq!(notice.pay_no, "P01JP961TQ00000000000001001GV", "{id}");
        let minor = if id == "A12_amount_0_01" { 1 } else { 10_000 };
        assert_eq!(notice.amount.unwrap().minor, minor, "{id}");
        for field in ["subject", "subject_after_transcode"] {
            if let Some(subject) = expect[field].as_str() {
                assert_eq!(alipay::Reader::text(&body, "subject").as_deref(), Some(subject), "{id}");
            }
        }
    }
    assert_eq!(cases.len(), 23);
}

/// The channel wants exactly seven bytes.
#[test]
fn the_answer_is_the_seven_bytes() {
    let reader = published();
    let accepted = reader.answer(Answer::Accept);
    assert_eq!((accepted.status.as_u16(), accepted.body.as_ref()), (200, &b"success"[..]));
    for answer in [Answer::Refuse, Answer::Unavailable, Answer::Invalid(NoticeReason::SignatureInvalid)] {
        let answer = reader.answer(answer);
        assert!(!answer.status.is_success() && answer.body.as_ref() == b"fail");
    }
}

/// A notice for another app or seller is genuine, and not ours.
#[test]
fn a_notice_for_another_app_is_another_accounts() {
    let body = String::from_utf8(file("cases/alipay/A01_ok.body")).unwrap();
    let changed = body.replace("app_id=2021000000000001", "app_id=2021000000000002");
    let error = published().read(&raw(changed.as_bytes()), OffsetDateTime::UNIX_EPOCH).unwrap_err();
    assert_eq!(error.reason, NoticeReason::SignatureInvalid, "it is signed");
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(body in prop::collection::vec(any::<u8>(), 0..400)) {
        let read = published().read(&raw(&body), OffsetDateTime::UNIX_EPOCH);
        prop_assert!(read.is_err());
    }

    #[test]
    fn no_form_makes_the_reader_panic(body in "[a-z_]{1,9}=[%+0-9A-Za-z]{0,30}(&[a-z_]{1,9}=[%+0-9A-Za-z]{0,30}){0,9}") {
        let read = published().read(&raw(body.as_bytes()), OffsetDateTime::UNIX_EPOCH);
        prop_assert!(read.is_err());
    }
}
