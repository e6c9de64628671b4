//! From a record to a [`Fact`]: the one place where the event's wire form is read. Nothing here does I/O.

use broker::Message;
use contract::event::{PaymentEvent, VALUE_BYTES_MAX, header};
use ledger::MsgKey;
use pay_types::{AttemptNo, ChannelTxnId, Currency, Invalid, Money};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::fact::{Fact, Kind, Refund, RefundKind};
use crate::park::Cause;

/// The only version of CloudEvents that is spoken.
const SPEC_VERSION: &str = "1.0";

/// Reads a record. The first fault is told; all of them would help nobody, as there is one producer.
///
/// # Errors
/// [`Cause`], for which the message is parked.
pub fn decode(message: &Message) -> Result<Fact, Cause> {
    let event = event(message)?;
    check_headers(message, &event)?;
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == event.r#type)
        .ok_or_else(|| Cause::UnknownKind(event.r#type.clone()))?;
    fact(&event, kind)
}

fn event(message: &Message) -> Result<PaymentEvent, Cause> {
    let undecodable = |detail: &str| Cause::Undecodable(detail.to_owned());
    let value = message.value.as_deref().ok_or_else(|| undecodable("the record has no value"))?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(undecodable("the value is larger than an event may be"));
    }
    // The parser would also take the fields in an array, by their order.
    if value.trim_ascii_start().first() != Some(&b'{') {
        return Err(undecodable("the value is no JSON object"));
    }
    // The parser's own words may quote the value; only the place is kept.
    serde_json::from_slice(value).map_err(|error| {
        Cause::Undecodable(format!(
            "the value is no PaymentEvent in JSON (line {}, column {})",
            error.line(),
            error.column()
        ))
    })
}

/// CloudEvents in binary mode tells the event's identity in headers, and routers act on it: it must be the value's own.
fn check_headers(message: &Message, event: &PaymentEvent) -> Result<(), Cause> {
    let must = |name: &'static str, wanted: &str| match message.header(name) {
        Some(text) if text == wanted => Ok(()),
        Some(_) | None => Err(Cause::HeaderDiffers { header: name }),
    };
    must(header::ID, &event.msg_key)?;
    must(header::TYPE, &event.r#type)?;
    must(header::SUBJECT, &event.pay_no)?;
    must(header::SPEC_VERSION, SPEC_VERSION)
}

fn fact(event: &PaymentEvent, kind: Kind) -> Result<Fact, Cause> {
    let currency = Currency::from_code(&event.currency)?;
    let txn_id = Some(event.channel_txn_id.as_str()).filter(|text| !text.is_empty());
    let channel_txn_id = txn_id.map(str::parse::<ChannelTxnId>).transpose()?;
    if kind.moves_money() && channel_txn_id.is_none() {
        return Err(Invalid::new(ChannelTxnId::FIELD, "must be there when money moved").into());
    }
    time("created_at", &event.created_at)?;
    Ok(Fact {
        msg_key: msg_key(event, kind)?,
        kind,
        pay_no: event.pay_no.parse()?,
        merchant_id: event.merchant_id.parse()?,
        order_no: event.order_no.parse()?,
        attempt_no: AttemptNo::try_new(event.attempt_no.into())?,
        amount: Money::try_new(event.amount, currency)?,
        channel: event.channel.parse()?,
        channel_account: event.channel_account.parse()?,
        channel_txn_id,
        refund: refund(event, kind)?,
        occurred_at: time("occurred_at", &event.occurred_at)?,
    })
}

/// An unknown `refund_kind` is a fault: the refund's money is taken from an account that this version does not know.
fn refund(event: &PaymentEvent, kind: Kind) -> Result<Option<Refund>, Invalid> {
    match (kind.is_refund(), event.refund_no.as_str()) {
        (false, "") => Ok(None),
        (false, _) => Err(Invalid::new("refund_no", "must be empty where no refund is told of")),
        (true, text) => {
            let given_back = RefundKind::ALL.into_iter().find(|kind| kind.as_str() == event.refund_kind);
            let kind = given_back.ok_or(Invalid::new("refund_kind", "must be PAYMENT or RECEIPT"))?;
            Ok(Some(Refund { refund_no: text.parse()?, kind }))
        }
    }
}

/// The key is the fact's own name: two keys for one fact would be booked twice, so a key that does not begin with the
/// kind is refused; a payment succeeds under one key only, and a refund takes each of its steps under one key.
fn msg_key(event: &PaymentEvent, kind: Kind) -> Result<MsgKey, Invalid> {
    let rest = event.msg_key.strip_prefix(kind.as_str()).and_then(|rest| rest.strip_prefix(':'));
    match rest {
        Some(rest) if kind.is_refund() && rest != event.refund_no => {
            Err(Invalid::new("msg_key", "must be the event's type, a colon and the refund's number"))
        }
        Some(rest) if kind == Kind::PaySucceeded && rest != event.pay_no => {
            Err(Invalid::new("msg_key", "must be PAY_SUCCEEDED:{pay_no}"))
        }
        Some(_) => event.msg_key.parse(),
        None => Err(Invalid::new("msg_key", "must begin with the event's type and a colon")),
    }
}

fn time(field: &'static str, text: &str) -> Result<OffsetDateTime, Invalid> {
    OffsetDateTime::parse(text, &Rfc3339).map_err(|_| Invalid::new(field, "must be a time of RFC 3339"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> PaymentEvent {
        PaymentEvent {
            msg_key: "PAY_SUCCEEDED:P0000000000000000000000000000".into(),
            r#type: "PAY_SUCCEEDED".into(),
            pay_no: "P0000000000000000000000000000".into(),
            merchant_id: "M1".into(),
            order_no: "O1".into(),
            attempt_no: 1,
            amount: 1999,
            currency: "CNY".into(),
            channel: "generic".into(),
            channel_account: "main".into(),
            channel_txn_id: "T1".into(),
            occurred_at: "2025-03-14T02:30:00Z".into(),
            created_at: "2025-03-14T02:30:01.5Z".into(),
            version: 2,
            ..Default::default()
        }
    }

    fn record(event: &PaymentEvent) -> Message {
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        Message {
            topic: "t".into(),
            partition: 0,
            offset: 0,
            key: None,
            value: Some(serde_json::to_vec(event).unwrap()),
            headers: vec![
                header(header::ID, &event.msg_key),
                header(header::TYPE, &event.r#type),
                header(header::SUBJECT, &event.pay_no),
                header(header::SPEC_VERSION, "1.0"),
            ],
            timestamp_ms: None,
        }
    }

    fn code(event: &PaymentEvent) -> String {
        decode(&record(event)).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_event_is_read() {
        let fact = decode(&record(&event())).unwrap();
        assert_eq!(
            (fact.kind, fact.amount.minor(), fact.merchant_id.as_str()),
            (Kind::PaySucceeded, 1999, "M1")
        );
        assert_eq!(fact.occurred_at.unix_timestamp(), 1_741_919_400);
    }

    #[test]
    fn every_field_is_checked() {
        type Spoil = (&'static str, fn(&mut PaymentEvent));
        let spoilt: [Spoil; 12] = [
            ("currency", |e| e.currency = "XXX".into()),
            ("amount", |e| e.amount = 0),
            ("amount", |e| e.amount = 1_000_000_000_001),
            ("merchant_id", |e| e.merchant_id = "a:b".into()),
            ("order_no", |e| e.order_no = String::new()),
            ("attempt_no", |e| e.attempt_no = 0),
            ("channel", |e| e.channel = "cash".into()),
            ("channel_account", |e| e.channel_account = "a b".into()),
            ("channel_txn_id", |e| e.channel_txn_id = String::new()),
            ("channel_txn_id", |e| e.channel_txn_id = "T\n".into()),
            ("occurred_at", |e| e.occurred_at = "yesterday".into()),
            ("created_at", |e| e.created_at = String::new()),
        ];
        for (field, spoil) in spoilt {
            let mut event = event();
            spoil(&mut event);
            let cause = code(&event);
            assert!(cause.starts_with(&format!("FIELD_INVALID: {field} ")), "{field}: {cause}");
        }
    }

    #[test]
    fn headers_must_tell_of_the_same_event() {
        for name in [header::ID, header::TYPE, header::SUBJECT, header::SPEC_VERSION] {
            let mut other = record(&event());
            other.headers.iter_mut().filter(|(key, _)| key == name).for_each(|(_, value)| value.push(b'0'));
            assert_eq!(decode(&other), Err(Cause::HeaderDiffers { header: name }));
            let mut none = record(&event());
            none.headers.retain(|(key, _)| key != name);
            assert_eq!(decode(&none), Err(Cause::HeaderDiffers { header: name }));
        }
    }

    #[test]
    fn one_success_has_one_key() {
        for key in ["PAY_SUCCEEDED:P0000000000000000000000000001", "PAY_CLOSED:P1", "PAY_SUCCEEDED", ""] {
            let event = PaymentEvent { msg_key: key.into(), ..event() };
            assert!(code(&event).starts_with("FIELD_INVALID: msg_key "), "{key}");
        }
    }

    #[test]
    fn a_refund_is_read_under_its_own_number_only() {
        type Spoil = (&'static str, fn(&mut PaymentEvent));
        let refund_no = "R0000000000000000000000000000";
        let event = PaymentEvent {
            msg_key: format!("REFUND_SUBMITTED:{refund_no}"),
            r#type: "REFUND_SUBMITTED".into(),
            refund_no: refund_no.into(),
            refund_kind: "RECEIPT".into(),
            ..event()
        };
        for kind in RefundKind::ALL {
            let event = PaymentEvent { refund_kind: kind.as_str().into(), ..event.clone() };
            let fact = decode(&record(&event)).unwrap();
            assert_eq!(fact.kind, Kind::RefundSubmitted);
            assert_eq!(fact.refund, Some(Refund { refund_no: refund_no.parse().unwrap(), kind }));
        }
        let spoilt: [Spoil; 6] = [
            ("msg_key", |e| e.msg_key = format!("REFUND_SUBMITTED:{}", e.pay_no)),
            ("refund_kind", |e| e.refund_kind = String::new()),
            ("refund_kind", |e| e.refund_kind = "COUPON".into()),
            // Also where no money moves: its later facts could not be booked.
            ("refund_kind", |e| {
                e.r#type = "REFUND_ACCEPTED".into();
                e.msg_key = format!("REFUND_ACCEPTED:{}", e.refund_no);
                e.refund_kind = "receipt".into();
            }),
            ("refund_no", |e| {
                e.refund_no = "R1".into();
                e.msg_key = "REFUND_SUBMITTED:R1".into();
            }),
            ("refund_no", |e| {
                e.r#type = "RECEIPT_UNEXPECTED".into();
                e.msg_key = "RECEIPT_UNEXPECTED:generic:T1".into();
            }),
        ];
        for (field, spoil) in spoilt {
            let mut event = event.clone();
            spoil(&mut event);
            assert!(code(&event).starts_with(&format!("FIELD_INVALID: {field} ")), "{}", code(&event));
        }
    }

    #[test]
    fn an_unknown_kind_and_a_value_that_is_none_are_told_apart() {
        let event = PaymentEvent { r#type: "PAY_TELEPORTED".into(), ..event() };
        assert_eq!(code(&event), "UNKNOWN_KIND: no rule books PAY_TELEPORTED");
        let huge = format!("\"{}\"", "x".repeat(VALUE_BYTES_MAX)).into_bytes();
        for value in [None, Some(b"{".to_vec()), Some(b"\xff".to_vec()), Some(b"[]".to_vec()), Some(huge)] {
            let message = Message { value, ..record(&event) };
            assert_eq!(decode(&message).unwrap_err().code(), "UNDECODABLE");
        }
    }

    /// What the parser found is not repeated: it may be anything.
    #[test]
    fn a_cause_does_not_quote_the_value() {
        let value = Some(br#"{"amount":"6222-secret"}"#.to_vec());
        let cause = decode(&Message { value, ..record(&event()) }).unwrap_err().to_string();
        assert!(!cause.contains("6222"), "{cause}");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_parked_without_panic(value: Vec<u8>, name: String, header: Vec<u8>) {
            let message = Message { value: Some(value), headers: vec![(name, header)], ..record(&event()) };
            proptest::prop_assert!(decode(&message).is_err());
        }
    }
}
