//! Requests that are refused: by name of the field, with nothing written.

use contract::common::Money;
use contract::order::{CreatePaymentRequest, Disposition, GetPaymentRequest, get_payment_request::By};
use contract::reason::{Reason, of_status};
use e2e::{Stack, Wish, count, request};
use test_kit::merchant;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

fn fields(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    details
        .bad_request()
        .map(|bad| bad.field_violations.iter().map(|f| f.field.clone()).collect())
        .unwrap_or_default()
}

async fn rows(stack: &Stack) -> i64 {
    count(
        stack.payments(),
        "SELECT (SELECT COUNT(*) FROM payment) + (SELECT COUNT(*) FROM idempotent_log)
              + (SELECT COUNT(*) FROM payment_event) + (SELECT COUNT(*) FROM outbox)",
    )
    .await
}

/// Fails when the fingerprint is not compared: the first payment would be given as the answer to another amount.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_used_for_another_amount_is_refused_and_writes_nothing() {
    let stack = Stack::start(Wish::default()).await;
    let first = request(merchant().as_str(), "O1", "k1");
    let payment = stack.caller().pay(&first).await;
    let before = rows(&stack).await;
    for changed in [
        CreatePaymentRequest {
            amount: Some(Money { amount: 5000, currency: "CNY".into() }),
            ..first.clone()
        },
        CreatePaymentRequest {
            amount: Some(Money { amount: 5000, currency: "CNY".into() }),
            order_no: "O2".into(),
            ..first.clone()
        },
    ] {
        let status = stack.caller().create(changed.clone()).await.unwrap_err();
        assert_eq!(of_status(&status), Some(Reason::IdempotencyKeyReused), "{status}");
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(fields(&status).contains(&"amount".to_owned()), "{:?}", fields(&status));
        assert_eq!(fields(&status).contains(&"order_no".to_owned()), changed.order_no == "O2");
    }
    assert_eq!(rows(&stack).await, before);
    let again = stack.caller().create(first).await.unwrap();
    assert_eq!(again.disposition(), Disposition::Replayed);
    assert_eq!(again.payment.unwrap().pay_no, payment.pay_no);
}

/// Fails when a key is trimmed, folded or defaulted, or when a weak one is taken.
#[tokio::test(flavor = "multi_thread")]
async fn weak_keys_are_refused() {
    let stack = Stack::start(Wish::default()).await;
    let merchant = merchant();
    for (key, reason) in [
        (String::new(), Reason::IdempotencyKeyMissing),
        ("   ".into(), Reason::IdempotencyKeyInvalid),
        ("\u{a0}".into(), Reason::IdempotencyKeyInvalid),
        ("k\n1".into(), Reason::IdempotencyKeyInvalid),
        ("k\u{0}".into(), Reason::IdempotencyKeyInvalid),
        ("\u{ff4b}1".into(), Reason::IdempotencyKeyInvalid),
        ("x".repeat(129), Reason::IdempotencyKeyInvalid),
    ] {
        let status = stack.caller().create(request(merchant.as_str(), "O1", &key)).await.unwrap_err();
        assert_eq!((status.code(), of_status(&status)), (Code::InvalidArgument, Some(reason)), "{key:?}");
        assert_eq!(fields(&status), ["idempotency_key"]);
    }
    assert_eq!(rows(&stack).await, 0);
    // Byte by byte: each of these is a key of its own.
    for (n, key) in ["k1", " k1", "k1 ", "K1"].into_iter().enumerate() {
        let answer = stack.caller().create(request(merchant.as_str(), &format!("O{n}"), key)).await.unwrap();
        assert_eq!(answer.disposition(), Disposition::Created, "{key:?}");
    }
}

/// Fails when a check is left out, of a field's form or of its account.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_fields_are_named() {
    let stack = Stack::start(Wish::default()).await;
    let merchant = merchant();
    let good = || request(merchant.as_str(), "O1", "k1");
    let amount = |amount, currency: &str| Some(Money { amount, currency: currency.to_owned() });
    for (wrong, field) in [
        (CreatePaymentRequest { amount: amount(-1, "CNY"), ..good() }, "amount.amount"),
        (CreatePaymentRequest { amount: amount(0, "CNY"), ..good() }, "amount.amount"),
        (CreatePaymentRequest { amount: amount(i64::MAX, "CNY"), ..good() }, "amount.amount"),
        (CreatePaymentRequest { amount: amount(100, "ABC"), ..good() }, "amount.currency"),
        (CreatePaymentRequest { amount: amount(100, "cny"), ..good() }, "amount.currency"),
        (CreatePaymentRequest { amount: None, ..good() }, "amount"),
        (CreatePaymentRequest { channel: "cash".into(), ..good() }, "channel"),
        (CreatePaymentRequest { channel: "alipay".into(), ..good() }, "channel"),
        (CreatePaymentRequest { channel_account: "nobody".into(), ..good() }, "channel_account"),
        (CreatePaymentRequest { order_no: "a:b".into(), ..good() }, "order_no"),
        (CreatePaymentRequest { attempt_no: -3, ..good() }, "attempt_no"),
        (CreatePaymentRequest { subject: String::new(), ..good() }, "subject"),
    ] {
        let status = stack.caller().create(wrong).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status}");
        assert_eq!(fields(&status), [field]);
    }
    assert_eq!(rows(&stack).await, 0);
}

/// Merchants do not see each other, and one key of two merchants is two keys. Fails when the key's scope leaves the
/// merchant out.
#[tokio::test(flavor = "multi_thread")]
async fn merchants_do_not_meet() {
    let stack = Stack::start(Wish::default()).await;
    let (a, b) = (merchant(), merchant());
    let ours = stack.caller().pay(&request(a.as_str(), "O1", "1")).await;
    let theirs = stack.caller().pay(&request(b.as_str(), "O1", "1")).await;
    assert_ne!(ours.pay_no, theirs.pay_no);
    let asked = GetPaymentRequest { merchant_id: b.to_string(), by: Some(By::PayNo(ours.pay_no)) };
    let status = stack.caller().client().get_payment(asked).await.unwrap_err();
    assert_eq!(of_status(&status), Some(Reason::PaymentNotFound));
    let asked = GetPaymentRequest { merchant_id: b.to_string(), by: Some(By::IdempotencyKey("1".into())) };
    let found = stack.caller().client().get_payment(asked).await.unwrap().into_inner().payment.unwrap();
    assert_eq!(found.pay_no, theirs.pay_no);
}

/// `validate_only` runs every check and writes nothing; a refused request leaves its key free. Fails when validation is
/// committed, or when a refused request's key is not forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn validation_alone_writes_nothing_and_a_refusal_frees_the_key() {
    let stack = Stack::start(Wish::default()).await;
    let merchant = merchant();
    let only = CreatePaymentRequest { validate_only: true, ..request(merchant.as_str(), "O1", "k1") };
    assert_eq!(stack.caller().create(only).await.unwrap().disposition(), Disposition::Validated);
    assert_eq!(rows(&stack).await, 0);
    stack.caller().pay(&request(merchant.as_str(), "O1", "k1")).await;
    let second = CreatePaymentRequest { attempt_no: 2, ..request(merchant.as_str(), "O1", "k2") };
    let status = stack.caller().create(second).await.unwrap_err();
    assert_eq!(of_status(&status), Some(Reason::OrderHasLivePayment));
    stack.caller().pay(&request(merchant.as_str(), "O2", "k2")).await;
}
