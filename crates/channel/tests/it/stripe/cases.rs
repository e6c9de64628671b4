//! The published cases and the vectors, made apart from this code.

use std::collections::BTreeMap;
use std::path::Path;

use channel::{Answer, Fact, Notice, NoticeError, NoticeReader as _, NoticeReason, RawNotice};
use pay_types::{Currency, Money};
use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;

use super::support::{NEW, OLD, Table, raw};

#[derive(Debug, Deserialize)]
struct Manifest {
    baseline: BTreeMap<String, Value>,
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
    secret: String,
    cases: Vec<Vector>,
}

#[derive(Debug, Deserialize)]
struct Vector {
    name: String,
    body: String,
    stripe_signature: String,
    now: i64,
    expect: String,
}

fn file(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)).unwrap()
}

fn at(now: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(now).unwrap()
}

fn notice_of(case: &Case) -> RawNotice {
    let headers: BTreeMap<String, String> =
        serde_json::from_slice(&file(&format!("cases/{}", case.headers))).unwrap();
    raw(&headers["Stripe-Signature"], &file(&format!("cases/{}", case.body)))
}

/// Every case ends as its manifest says, as far as the reader decides it: what a duplicate, an older word or a wrong amount
/// does is the core's to say. Each is read with the new secret alone and with both, since either may be the state of a
/// receiver while secrets are rolled.
#[test]
fn every_published_case_is_read_as_published() {
    let manifest: Manifest = serde_json::from_slice(&file("cases/stripe/manifest.json")).unwrap();
    let secrets = manifest.baseline["P01JP961TQ000000000000010038R"]["webhook_secrets"].as_array().unwrap();
    assert_eq!(secrets, &[Value::from(NEW)], "the account is theirs");
    for webhook_secrets in [vec![NEW], vec![OLD, NEW], vec![NEW, OLD]] {
        let reader = Table { webhook_secrets, ..Table::new("http://127.0.0.1:1") }.reader();
        for case in &manifest.cases {
            let read = reader.read(&notice_of(case), at(case.now));
            let answered = |answer| i64::from(reader.answer(answer).status.as_u16());
            let expected = case.expect["http"].as_i64();
            match (case.expect["verify"].as_str().unwrap(), read) {
                ("accept", Ok(notice)) => {
                    assert!(expected.is_none_or(|http| http == answered(Answer::Accept)), "{}", case.id);
                    accepted(case, &manifest.baseline, &notice);
                }
                // It verifies, and is of the other mode: acknowledged, kept, and no more.
                ("accept", Err(error)) => {
                    assert_eq!(case.id, "S09_livemode_false", "{error}");
                    assert_eq!(error.reason, NoticeReason::ModeMismatch);
                    assert_eq!(expected, Some(answered(Answer::Invalid(error.reason))));
                }
                ("reject", Err(error)) => {
                    rejected(case, &error);
                    assert_eq!(expected, Some(answered(Answer::Invalid(error.reason))), "{}", case.id);
                }
                (verify, read) => panic!("{}: {verify}, {read:?}", case.id),
            }
        }
    }
    assert_eq!(manifest.cases.len(), 16);
}

fn accepted(case: &Case, baseline: &BTreeMap<String, Value>, notice: &Notice) {
    let id = case.id.as_str();
    let usd = "P01JP961TQ000000000000010038R";
    let (fact, pay_no, txn, minor) = match id {
        "S02_then_succeeded" | "S04_two_v1_old_then_new" => (Fact::PaySucceeded, usd, "pi_1003", 1999),
        "S03_old_failed_after_succeeded" => (Fact::PayDeclined, usd, "pi_1003", 1999),
        "S10_jpy" => (Fact::PaySucceeded, "P01JP961TQ00000000000000JPYW8", "pi_jpy", 500),
        "S11_kwd" => (Fact::PaySucceeded, "P01JP961TQ00000000000000KWD25", "pi_kwd", 18_600),
        "S13_amount_received_short" => (Fact::PaySucceeded, usd, "pi_1003", 1),
        // The same fact as the intent's success, told again: nothing to do.
        "S14_charge_succeeded_same_fact" => {
            assert_eq!((notice.fact, notice.pay_no.as_str()), (Fact::Other, ""));
            return;
        }
        // They carry no number of ours: the payment is found by its transaction.
        "S15_refunded_cumulative_1000" => (Fact::RefundedTotal, "", "pi_1003", 1000),
        "S15b_refunded_cumulative_300_late" => (Fact::RefundedTotal, "", "pi_1003", 300),
        "S16_refund_failed_after_success" => (Fact::RefundFailed, "", "pi_1003", 1000),
        other => panic!("a new case in the manifest: {other}"),
    };
    let amount = notice.amount.as_ref().unwrap();
    assert_eq!((notice.fact, notice.pay_no.as_str(), amount.minor), (fact, pay_no, minor), "{id}");
    assert_eq!(notice.channel_txn_id.as_ref().unwrap().as_str(), txn, "{id}");
    assert!(notice.occurred_at.is_some() && notice.key_id.starts_with("whsec-"), "{id}");
    let refund = (notice.refund_no.as_deref(), notice.channel_refund_no.as_deref());
    assert_eq!(refund, (None, (id == "S16_refund_failed_after_success").then_some("re_1")), "{id}");
    if let Some(payment) = case.expect["payment"].as_str() {
        let payment = &baseline[payment];
        let (minor, currency) = (payment["amount_minor"].as_i64(), payment["currency"].as_str());
        assert_eq!((Some(amount.minor), Some(amount.currency.as_str())), (minor, currency), "{id}");
        let money = Money::try_new(amount.minor, Currency::from_code(&amount.currency).unwrap()).unwrap();
        let major = format!("{} {}", case.expect["major"].as_str().unwrap(), amount.currency);
        assert_eq!(money.to_string(), major, "{id}");
    }
}

fn rejected(case: &Case, error: &NoticeError) {
    let reason = match case.id.as_str() {
        "S05_only_v0" => NoticeReason::SignatureInvalid,
        "S06_stale_301" | "S07_future_301" => NoticeReason::TimestampOutsideWindow,
        "S08_t_not_a_number" | "S08b_two_t_values" => NoticeReason::NoticeMalformed,
        other => panic!("a new case in the manifest: {other}"),
    };
    assert_eq!(error.reason, reason, "{}", case.id);
}

/// Fails when the signed bytes, the window, the grammar of the header or the comparison change.
#[test]
fn the_published_vectors_are_read_as_published() {
    let vectors: Vectors = serde_json::from_slice(&file("fixtures/stripe/webhooks.json")).unwrap();
    let table = Table {
        secret_key: "sk_test_throwaway_0001",
        livemode: false,
        webhook_secrets: vec![&vectors.secret],
        ..Table::new("http://127.0.0.1:1")
    };
    let reader = table.reader();
    let mut seen = 0;
    for vector in &vectors.cases {
        let name = vector.name.as_str();
        let read = reader.read(&raw(&vector.stripe_signature, vector.body.as_bytes()), at(vector.now));
        seen += 1;
        if vector.expect == "valid" {
            let notice = read.unwrap();
            let fact = match name {
                "payment_failed_not_terminal" => Fact::PayDeclined,
                "refund_failed" => Fact::RefundFailed,
                _ => Fact::PaySucceeded,
            };
            assert_eq!(notice.fact, fact, "{name}");
            assert!(notice.channel_txn_id.unwrap().as_str().starts_with("pi_"), "{name}");
            continue;
        }
        let reason = match name {
            "301s_old" | "future_301s" => NoticeReason::TimestampOutsideWindow,
            "no_timestamp" => NoticeReason::NoticeMalformed,
            _ => NoticeReason::SignatureInvalid,
        };
        assert_eq!(read.unwrap_err().reason, reason, "{name}: {}", vector.expect);
    }
    assert_eq!(seen, 15);
}
