//! Whatever arrives is read or refused, in flat memory and without a panic.

use std::sync::LazyLock;

use channel::stripe::Reader;
use channel::{Answer, Fact, Notice, NoticeError, NoticeReader as _, NoticeReason};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::support::{NEW, OLD, Table, raw, signature};

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_767_240_006).unwrap()
}

static READER: LazyLock<Reader> =
    LazyLock::new(|| Table { webhook_secrets: vec![OLD, NEW], ..Table::new("http://127.0.0.1:1") }.reader());

fn read_bytes(body: &[u8]) -> Result<Notice, NoticeError> {
    READER.read(&raw(&signature(NEW, now(), body), body), now())
}

fn read(event: &Value) -> Result<Notice, NoticeError> {
    read_bytes(event.to_string().as_bytes())
}

fn event(kind: &str, object: Value) -> Value {
    json!({
        "id": "evt_1", "object": "event", "api_version": "2025-03-31.basil", "created": 1_767_240_005,
        "livemode": true, "pending_webhooks": 1, "request": null, "type": kind, "data": { "object": object },
    })
}

fn intent(status: &str) -> Value {
    json!({
        "id": "pi_1", "object": "payment_intent", "amount": 1999, "amount_received": 1998, "currency": "usd",
        "status": status, "metadata": { "pay_no": "P1" },
    })
}

fn session(payment_status: &str) -> Value {
    json!({
        "id": "cs_1", "object": "checkout.session", "amount_total": 1999, "currency": "usd", "status": "complete",
        "payment_status": payment_status, "payment_intent": "pi_1", "metadata": { "pay_no": "P1" },
    })
}

fn refund(status: &str) -> Value {
    json!({
        "id": "re_1", "object": "refund", "amount": 300, "currency": "usd", "status": status,
        "payment_intent": "pi_1", "metadata": { "refund_no": "R1", "pay_no": "P1" },
    })
}

fn charge() -> Value {
    json!({
        "id": "ch_1", "object": "charge", "amount": 1999, "amount_captured": 1999, "amount_refunded": 300,
        "currency": "usd", "payment_intent": "pi_1", "metadata": { "pay_no": "P1" },
    })
}

#[test]
fn every_event_has_its_fact_and_an_unknown_one_is_other() {
    for (kind, object, fact, minor) in [
        ("payment_intent.succeeded", intent("succeeded"), Fact::PaySucceeded, 1998),
        ("payment_intent.payment_failed", intent("requires_payment_method"), Fact::PayDeclined, 1999),
        ("payment_intent.canceled", intent("canceled"), Fact::PayClosed, 1999),
        ("checkout.session.completed", session("paid"), Fact::PaySucceeded, 1999),
        ("checkout.session.async_payment_succeeded", session("paid"), Fact::PaySucceeded, 1999),
        ("checkout.session.async_payment_failed", session("unpaid"), Fact::PayFailed, 1999),
        ("checkout.session.expired", session("unpaid"), Fact::PayClosed, 1999),
        ("charge.refunded", charge(), Fact::RefundedTotal, 300),
        ("refund.updated", refund("succeeded"), Fact::RefundSucceeded, 300),
        ("refund.created", refund("succeeded"), Fact::RefundSucceeded, 300),
        ("charge.refund.updated", refund("canceled"), Fact::RefundFailed, 300),
        ("refund.failed", refund("failed"), Fact::RefundFailed, 300),
    ] {
        let notice = read(&event(kind, object)).unwrap();
        assert_eq!((notice.fact, notice.amount.unwrap().minor), (fact, minor), "{kind}");
        assert_eq!((notice.pay_no.as_str(), notice.notify_id.as_str()), ("P1", "evt_1"), "{kind}");
        // The same transaction on every path.
        assert_eq!(notice.channel_txn_id.unwrap().as_str(), "pi_1", "{kind}");
        assert_eq!(notice.occurred_at.unwrap().unix_timestamp(), 1_767_240_005, "{kind}");
        let is_refund = matches!(fact, Fact::RefundSucceeded | Fact::RefundFailed);
        assert_eq!(notice.refund_no.as_deref(), is_refund.then_some("R1"), "{kind}");
        assert_eq!(notice.channel_refund_no.as_deref(), is_refund.then_some("re_1"), "{kind}");
    }
    let mut made_elsewhere = intent("succeeded");
    made_elsewhere["metadata"] = json!({});
    let mut refunded_elsewhere = refund("succeeded");
    refunded_elsewhere["metadata"] = json!({});
    let mut charged_elsewhere = charge();
    charged_elsewhere["payment_intent"] = json!(null);
    for (kind, object) in [
        ("payment_intent.processing", intent("processing")),
        ("payment_intent.created", intent("requires_payment_method")),
        ("payment_intent.succeeded", made_elsewhere),
        ("checkout.session.completed", session("unpaid")),
        ("checkout.session.completed", session("no_payment_required")),
        ("charge.succeeded", charge()),
        ("charge.refunded", charged_elsewhere),
        ("charge.dispute.created", json!({})),
        ("refund.updated", refund("pending")),
        ("refund.updated", refund("requires_action")),
        ("refund.updated", refund("a_new_status")),
        ("refund.updated", refunded_elsewhere),
        ("a.new.event", json!(null)),
    ] {
        let notice = read(&event(kind, object)).unwrap();
        assert_eq!((notice.fact, notice.pay_no.as_str(), notice.amount), (Fact::Other, "", None), "{kind}");
    }
}

/// A session that is expanded in the event, and one that was never paid.
#[test]
fn a_session_names_its_intent_in_either_way_or_not_at_all() {
    let mut whole = session("paid");
    whole["payment_intent"] = json!({ "id": "pi_1", "object": "payment_intent" });
    let notice = read(&event("checkout.session.completed", whole)).unwrap();
    assert_eq!(notice.channel_txn_id.unwrap().as_str(), "pi_1");
    let mut never = session("unpaid");
    never["payment_intent"] = json!(null);
    let notice = read(&event("checkout.session.expired", never.clone())).unwrap();
    assert_eq!((notice.fact, notice.channel_txn_id), (Fact::PayClosed, None));
    never["payment_status"] = json!("paid");
    let error = read(&event("checkout.session.completed", never)).unwrap_err();
    assert_eq!(error.reason, NoticeReason::NoticeMalformed);
}

/// Play money must not become money, nor money play, and a missing word is no word. Fails when the flag of the object is
/// looked at in its place, or when only `false` is refused.
#[test]
fn a_notice_of_another_mode_is_acknowledged_and_not_believed() {
    let good = event("payment_intent.succeeded", intent("succeeded"));
    for livemode in [json!(false), json!(null), json!("true"), json!(1)] {
        let mut event = good.clone();
        event["livemode"] = livemode;
        event["data"]["object"]["livemode"] = json!(true);
        assert_eq!(read(&event).unwrap_err().reason, NoticeReason::ModeMismatch, "{event}");
    }
    let mut without = good;
    without.as_object_mut().unwrap().remove("livemode");
    assert_eq!(read(&without).unwrap_err().reason, NoticeReason::ModeMismatch);
    assert_eq!(READER.answer(Answer::Invalid(NoticeReason::ModeMismatch)).status, 200);
}

#[test]
fn a_notice_of_a_connected_account_is_not_ours() {
    let mut event = event("payment_intent.succeeded", intent("succeeded"));
    event["account"] = json!("acct_2");
    assert_eq!(read(&event).unwrap_err().reason, NoticeReason::CrossAccount);
    event["account"] = json!(null);
    assert!(read(&event).is_ok());
}

#[test]
fn a_signed_notice_of_bad_form_is_malformed_and_never_a_panic() {
    let good = event("payment_intent.succeeded", intent("succeeded")).to_string();
    let refunded = event("refund.updated", refund("succeeded")).to_string();
    for (of, from, to) in [
        (&good, "\"evt_1\"", "1"),
        (&good, "\"evt_1\"", "\"\""),
        (&good, "\"evt_1\"", "\"a b\""),
        (&good, "\"payment_intent.succeeded\"", "null"),
        (&good, "1767240005", "\"1767240005\""),
        (&good, "1767240005", "9223372036854775807"),
        (&good, "\"object\":\"payment_intent\"", "\"object\":\"charge\""),
        (&good, "\"data\":{", "\"dat\":{"),
        (&good, "\"P1\"", "\"P1\\u0000\""),
        (&good, "\"P1\"", "\"支付\""),
        (&good, "\"P1\"", "1"),
        (&good, "\"pi_1\"", "\"ch_1\""),
        (&good, "\"pi_1\"", "\"pi_\""),
        (&good, "\"pi_1\"", "\"pi_1/../x\""),
        (&good, "\"succeeded\"", "\"processing\""),
        (&good, "1998", "1998.0"),
        (&good, "1998", "1e3"),
        (&good, "1998", "\"1998\""),
        (&good, "1998", "null"),
        (&good, "1998", "9223372036854775808"),
        (&good, "1998", "01998"),
        (&good, "\"amount_received\"", "\"amount_receive\""),
        (&good, "\"usd\"", "\"USD\""),
        (&good, "\"usd\"", "\"usdd\""),
        (&good, "\"usd\"", "\"iqd\""),
        // Half a shilling.
        (&good, "\"usd\"", "\"ugx\""),
        (&good, "{\"", "{\"id\":\"evt_2\",\""),
        (&refunded, "\"R1\"", "\"\""),
        (&refunded, "\"R1\"", "[]"),
        (&refunded, "\"re_1\"", "\"\""),
        (&refunded, "300", "-"),
        (&refunded, "\"succeeded\"", "0"),
    ] {
        let body = of.replacen(from, to, 1);
        assert_ne!(&body, of, "{from} is not in the body");
        let error = read_bytes(body.as_bytes()).unwrap_err();
        assert_eq!(error.reason, NoticeReason::NoticeMalformed, "{from} -> {to}");
    }
    let deep = [b"{\"id\":".to_vec(), vec![b'['; 100_000]].concat();
    let large = vec![b' '; 256 * 1024 + 1];
    for bad in [&b""[..], b"[]", b"null", b"{", b"\xff\xfe{}", &deep, &large] {
        assert_eq!(read_bytes(bad).unwrap_err().reason, NoticeReason::NoticeMalformed);
    }
    for end in 0..good.len() {
        assert!(read_bytes(&good.as_bytes()[..end]).is_err(), "cut after {end}");
    }
}

#[test]
fn what_is_genuine_but_strange_is_left_to_the_core() {
    for (field, value) in
        [("amount_received", json!(0)), ("amount_received", json!(-1)), ("currency", json!("zzz"))]
    {
        let mut intent = intent("succeeded");
        intent[field] = value;
        assert!(read(&event("payment_intent.succeeded", intent)).is_ok(), "{field}");
    }
    let mut more = intent("succeeded");
    more["more"] = json!({ "a": [1.5, { "b": null }] });
    assert!(read(&event("payment_intent.succeeded", more)).is_ok());
}

/// Fails when only the first secret, only the first `v1`, or a `v0` is looked at.
#[test]
fn any_secret_of_the_account_verifies_and_tells_which_it_was() {
    let body = event("a.new.event", json!({})).to_string();
    let of = |secret| signature(secret, now(), body.as_bytes());
    let key_of = |header: &str| READER.read(&raw(header, body.as_bytes()), now()).map(|notice| notice.key_id);
    let (old, new) = (key_of(&of(OLD)).unwrap(), key_of(&of(NEW)).unwrap());
    assert_ne!(old, new);
    let tag = |header: &str| header.split_once(",v1=").unwrap().1.to_owned();
    let foreign = of("whsec_of_somebody_else");
    assert_eq!(key_of(&format!("{foreign},v1={}", tag(&of(NEW)))).unwrap(), new);
    for bad in [
        foreign.clone(),
        format!("{foreign},v0={}", tag(&of(NEW))),
        of(NEW).replace(",v1=", ", v1="),
        of(NEW).replace(&tag(&of(NEW)), &tag(&of(NEW)).to_uppercase()),
        format!("{foreign}{}", format!(",v1={}", "0".repeat(64)).repeat(60)),
    ] {
        assert_eq!(key_of(&bad).unwrap_err().reason, NoticeReason::SignatureInvalid, "{bad}");
    }
    let mut twice = raw(&of(NEW), body.as_bytes());
    twice.headers.append("stripe-signature", of(NEW).parse().unwrap());
    assert_eq!(READER.read(&twice, now()).unwrap_err().reason, NoticeReason::SignatureInvalid);
}

/// The window is 300 s both ways, its edges inside.
#[test]
fn the_window_ends_after_300_seconds_on_both_sides() {
    let body = event("a.new.event", json!({})).to_string();
    let notice = raw(&signature(NEW, now(), body.as_bytes()), body.as_bytes());
    for (offset, inside) in [(-301, false), (-300, true), (0, true), (300, true), (301, false)] {
        let read = READER.read(&notice, now() + time::Duration::seconds(offset));
        assert_eq!(read.is_ok(), inside, "{offset}");
        assert!(inside || read.unwrap_err().reason == NoticeReason::TimestampOutsideWindow);
    }
}

#[test]
fn answers_are_as_the_channel_wants_them() {
    let status = |answer| READER.answer(answer).status.as_u16();
    assert_eq!(status(Answer::Accept), 200);
    assert!(READER.answer(Answer::Accept).body.is_empty());
    assert_eq!((status(Answer::Refuse), status(Answer::Unavailable)), (409, 503));
    for reason in NoticeReason::ALL {
        let expected = match reason {
            NoticeReason::ModeMismatch => 200,
            NoticeReason::CrossAccount => 403,
            NoticeReason::SignatureInvalid
            | NoticeReason::TimestampOutsideWindow
            | NoticeReason::KeyUnknown
            | NoticeReason::NoticeMalformed => 400,
        };
        assert_eq!(status(Answer::Invalid(reason)), expected, "{reason:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Fails when the body is read before it is checked, or checked in another form than its bytes.
    #[test]
    fn a_changed_byte_of_the_body_is_refused(at: Index, xor in 1_u8..=255) {
        let body = event("payment_intent.succeeded", intent("succeeded")).to_string();
        let mut notice = raw(&signature(NEW, now(), body.as_bytes()), body.as_bytes());
        let mut bytes = notice.body.to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        notice.body = bytes.into();
        prop_assert_eq!(READER.read(&notice, now()).unwrap_err().reason, NoticeReason::SignatureInvalid);
    }

    #[test]
    fn any_signed_bytes_are_read_or_refused_without_panic(body: Vec<u8>) {
        prop_assert!(read_bytes(&body).is_err());
    }

    #[test]
    fn any_value_in_any_field_is_read_or_refused_without_panic(
        which in 0_usize..4,
        field: Index,
        value in "[ -~]{0,20}|-?[0-9]{1,20}|null|true|\\{\\}|\\[\\]",
    ) {
        let (kind, mut object) = [
            ("payment_intent.succeeded", intent("succeeded")),
            ("checkout.session.completed", session("paid")),
            ("refund.failed", refund("failed")),
            ("charge.refunded", charge()),
        ].into_iter().nth(which).unwrap();
        let names: Vec<String> = object.as_object().unwrap().keys().cloned().collect();
        let value = serde_json::from_str::<Value>(&value).unwrap_or(Value::String(value));
        object[field.get(&names)] = value;
        if let Ok(notice) = read(&event(kind, object)) {
            let whole = notice.amount.is_some() && notice.occurred_at.is_some();
            prop_assert!(whole || notice.fact == Fact::Other);
            prop_assert!(notice.fact != Fact::PaySucceeded || notice.channel_txn_id.is_some());
        }
    }

    #[test]
    fn any_header_is_refused_without_panic(header in "[ -~]{0,200}|t=[0-9]{0,15}(,v[01]=[0-9a-f]{0,70}){0,4}") {
        let read = READER.read(&raw(&header, b"{}"), now());
        prop_assert!(read.is_err());
    }
}
