//! How a call about an order ends, for every kind of answer.

use std::sync::Arc;
use std::time::Duration;

use channel::stripe::{Client, KEY_KEPT, KEY_TOO_OLD};
use channel::{
    ChannelClient as _, Closed, CreateOrder, Created, Credential, FindOrder, Outcome, Queried, StatedAmount,
};
use http::Method;
use pay_types::{ChannelWord, Currency, Money};
use serde_json::{Value, json};
use service_kit::Clock;
use time::OffsetDateTime;
use tokio::net::TcpListener;

use super::support::{Asked, Far, Reply, SECRET_KEY, Table, charged, clock, error, intent, session};
use crate::call::{order, pay_no};

async fn with(product: &str, replies: impl IntoIterator<Item = Reply>) -> (Client, Arc<Far>) {
    let far = Far::start(replies).await;
    let table = Table { product, ..Table::new(&far.base_url) };
    (table.client(&clock()), far)
}

fn find(channel_order_no: Option<&str>) -> FindOrder {
    FindOrder { channel_order_no: channel_order_no.map(str::to_owned), ..FindOrder::by(&pay_no()) }
}

async fn create(product: &str, reply: Reply) -> (Outcome<Created>, Vec<Asked>) {
    let (client, far) = with(product, [reply]).await;
    (client.create(&order()).await, far.asked())
}

async fn query(channel_order_no: Option<&str>, reply: Reply) -> (Outcome<Queried>, Vec<Asked>) {
    let (client, far) = with("checkout", [reply]).await;
    (client.query(&find(channel_order_no)).await, far.asked())
}

fn open_session() -> Value {
    session("open", "unpaid", json!(null))
}

fn found(intents: &[Value]) -> Reply {
    Reply::Json(
        200,
        json!({ "object": "search_result", "data": intents, "has_more": false, "next_page": null }),
    )
}

fn not_open() -> Reply {
    Reply::Json(400, error("invalid_request_error", ""))
}

/// A repeat is the same call: same key, same bytes. Fails when anything in it depends on when it is sent.
#[tokio::test]
async fn a_checkout_says_the_same_each_time_and_brings_an_address() {
    let (client, far) = with("checkout", [Reply::Json(200, open_session())]).await;
    for _ in 0..2 {
        assert_eq!(
            client.create(&order()).await,
            Outcome::Accepted(Created {
                credential: Credential::PayUrl("https://checkout.example/c/pay/cs_live_a1".to_owned()),
                channel_txn_id: None,
                channel_order_no: Some("cs_live_a1".to_owned()),
            })
        );
    }
    let asked = far.asked();
    assert_eq!(asked[0], asked[1]);
    let asked = &asked[0];
    assert_eq!((&asked.method, asked.path.as_str()), (&Method::POST, "/v1/checkout/sessions"));
    assert_eq!(asked.header("idempotency-key"), Some(format!("pay:{}", pay_no()).as_str()));
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {SECRET_KEY}").as_str()));
    assert_eq!(asked.header("stripe-version"), Some("2025-03-31.basil"));
    for (name, value) in [
        ("mode", "payment"),
        ("metadata[pay_no]", pay_no().as_str()),
        ("payment_intent_data[metadata][pay_no]", pay_no().as_str()),
        ("line_items[0][price_data][currency]", "cny"),
        ("line_items[0][price_data][unit_amount]", "1000"),
        ("line_items[0][price_data][product_data][name]", "tea 茶"),
        ("line_items[0][quantity]", "1"),
        ("adaptive_pricing[enabled]", "false"),
        ("expires_at", "1767250000"),
        ("success_url", "https://pay.example/"),
    ] {
        assert_eq!(asked.field(name).as_deref(), Some(value), "{name}");
    }
}

#[tokio::test]
async fn an_intent_brings_its_client_secret() {
    let (outcome, asked) =
        create("payment_intent", Reply::Json(200, intent("requires_payment_method"))).await;
    let Outcome::Accepted(created) = outcome else { panic!("{outcome:?}") };
    assert_eq!(created.credential, Credential::ClientSecret("pi_1_secret_x".to_owned()));
    assert_eq!(created.channel_order_no.as_deref(), Some("pi_1"));
    assert_eq!(asked[0].path, "/v1/payment_intents");
    assert_eq!(asked[0].header("idempotency-key"), Some(format!("pay:{}", pay_no()).as_str()));
    for (name, value) in [
        ("amount", "1000"),
        ("currency", "cny"),
        ("automatic_payment_methods[enabled]", "true"),
        ("metadata[pay_no]", pay_no().as_str()),
    ] {
        assert_eq!(asked[0].field(name).as_deref(), Some(value), "{name}");
    }
}

/// The channel takes an expiry between half an hour and a day ahead. Fails when ours is sent as it is.
#[tokio::test]
async fn a_session_expires_within_the_channels_limits() {
    let made_at = 1_767_240_006;
    for (expire_at, sent) in [
        (made_at + 60, made_at + 40 * 60),
        (made_at + 7200, made_at + 7200),
        (made_at + 7 * 24 * 3600, made_at + 24 * 3600 - 5 * 60),
    ] {
        let (client, far) = with("checkout", [Reply::Json(200, open_session())]).await;
        let expire_at = OffsetDateTime::from_unix_timestamp(expire_at).unwrap();
        assert_eq!(client.create(&CreateOrder { expire_at, ..order() }).await.label(), "accepted");
        assert_eq!(far.asked()[0].field("expires_at"), Some(sent.to_string()));
    }
}

/// Checked at the far side, not by a round trip: two mistakes that undo each other are two mistakes.
#[tokio::test]
async fn amounts_are_sent_in_the_channels_units_or_not_at_all() {
    for (minor, code, amount) in [
        (500, "JPY", Some("500")),
        (18_600, "KWD", Some("18600")),
        (18_605, "KWD", None),
        (5, "UGX", Some("500")),
        (2000, "ISK", Some("200000")),
    ] {
        let amount_of_ours = Money::try_new(minor, Currency::from_code(code).unwrap()).unwrap();
        let (client, far) =
            with("payment_intent", [Reply::Json(200, intent("requires_payment_method"))]).await;
        let outcome = client.create(&CreateOrder { amount: amount_of_ours, ..order() }).await;
        let asked = far.asked();
        match amount {
            Some(amount) => {
                assert_eq!(asked[0].field("amount").as_deref(), Some(amount), "{code}");
                // The answer is about another amount.
                assert_eq!(outcome.label(), "unknown", "{code}");
            }
            None => {
                assert_eq!(outcome.label(), "rejected", "{code}");
                assert!(asked.is_empty(), "refused before it is sent");
            }
        }
    }
}

/// The channel forgets keys after a day: the same create would then be a second order. Fails when the number's age is not
/// looked at.
#[tokio::test]
async fn a_create_is_not_repeated_when_its_key_may_be_forgotten() {
    let far = Far::start([Reply::Json(200, open_session())]).await;
    let made_at = OffsetDateTime::from_unix_timestamp(1_767_240_006).unwrap();
    let clock = Clock::fixed(made_at + KEY_KEPT - Duration::from_secs(1));
    let client = Table::new(&far.base_url).client(&clock);
    assert_eq!(client.create(&order()).await.label(), "accepted");
    clock.set(made_at + KEY_KEPT);
    let told = client.create(&order()).await;
    assert_eq!(told, Outcome::RetryLater { code: KEY_TOO_OLD.to_owned() });
    assert_eq!(far.asked().len(), 1);
}

/// A lost answer: the number is searched for, and what is not found is not known now, as long as the create can be repeated.
#[tokio::test]
async fn without_the_channels_number_an_order_is_searched_for() {
    let (outcome, asked) = query(None, found(&[charged()])).await;
    let Outcome::Accepted(queried) = outcome else { panic!("{outcome:?}") };
    assert_eq!((queried.known, queried.word), (true, Some(ChannelWord::Paid)));
    assert_eq!(asked[0].in_query("query"), Some(format!("metadata['pay_no']:'{}'", pay_no())));
    // Found is what carries our number, whatever the search thinks, and a paid one before a canceled one.
    let mut other = charged();
    other["metadata"]["pay_no"] = json!("P2");
    let (outcome, _) = query(None, found(&[other, intent("canceled"), charged()])).await;
    assert!(
        matches!(&outcome, Outcome::Accepted(Queried { word: Some(ChannelWord::Paid), .. })),
        "{outcome:?}"
    );
    let (outcome, _) = query(None, found(&[])).await;
    assert_eq!(outcome, Outcome::Accepted(Queried::not_known()));

    let far = Far::start([found(&[])]).await;
    let made_at = OffsetDateTime::from_unix_timestamp(1_767_240_006).unwrap();
    let late = Table::new(&far.base_url).client(&Clock::fixed(made_at + KEY_KEPT));
    assert_eq!(late.query(&find(None)).await, Outcome::RetryLater { code: KEY_TOO_OLD.to_owned() });
}

#[tokio::test]
async fn an_intents_status_is_its_word() {
    let paid = StatedAmount { minor: 998, currency: "CNY".to_owned() };
    let mut received = charged();
    received["amount_received"] = json!(998);
    let (outcome, asked) = query(Some("pi_1"), Reply::Json(200, received)).await;
    let Outcome::Accepted(queried) = outcome else { panic!("{outcome:?}") };
    assert_eq!(asked[0].path, "/v1/payment_intents/pi_1?expand%5B%5D=latest_charge");
    assert_eq!((queried.word, queried.amount), (Some(ChannelWord::Paid), Some(paid)), "what was received");
    assert_eq!(queried.channel_txn_id.unwrap().as_str(), "pi_1");
    assert_eq!(queried.occurred_at.unwrap().unix_timestamp(), 1_767_240_099, "its charge's time");
    for (status, word) in [
        ("requires_payment_method", None),
        ("requires_confirmation", None),
        ("requires_action", None),
        ("requires_capture", None),
        ("processing", None),
        ("canceled", Some(ChannelWord::Closed)),
    ] {
        let (outcome, _) = query(Some("pi_1"), Reply::Json(200, intent(status))).await;
        let Outcome::Accepted(queried) = outcome else { panic!("{status}: {outcome:?}") };
        assert_eq!((queried.known, queried.word), (true, word), "{status}");
    }
}

#[tokio::test]
async fn a_sessions_word_is_its_own_or_its_intents() {
    let mut declined = intent("requires_payment_method");
    declined["last_payment_error"] = json!({ "code": "payment_intent_payment_attempt_failed" });
    for (status, payment_status, intent, word) in [
        ("open", "unpaid", json!(null), None),
        ("open", "unpaid", declined.clone(), None),
        ("complete", "paid", charged(), Some(ChannelWord::Paid)),
        ("complete", "unpaid", intent("processing"), None),
        ("complete", "unpaid", intent("requires_payment_method"), None),
        // By a slow method that failed in the end; the page is done with.
        ("complete", "unpaid", declined, Some(ChannelWord::Failed)),
        ("expired", "unpaid", json!(null), Some(ChannelWord::Closed)),
    ] {
        let reply = Reply::Json(200, session(status, payment_status, intent));
        let (outcome, asked) = query(Some("cs_live_a1"), reply).await;
        let Outcome::Accepted(queried) = outcome else { panic!("{status} {payment_status}: {outcome:?}") };
        assert_eq!((queried.known, queried.word), (true, word), "{status} {payment_status}");
        assert_eq!(
            asked[0].path,
            "/v1/checkout/sessions/cs_live_a1?expand%5B%5D=payment_intent.latest_charge"
        );
        if word == Some(ChannelWord::Paid) {
            assert_eq!(queried.channel_txn_id.unwrap().as_str(), "pi_1", "the intent, not the session");
            assert_eq!(queried.amount.unwrap().minor, 1000);
        }
    }
}

/// Money may have moved in each of these: none may be read as failure, nor as success. Fails when a 5xx, a time-out, a
/// gateway's page or an unknown word is mapped to anything else.
#[tokio::test]
async fn whatever_is_not_surely_known_is_unknown() {
    let mut other_mode = charged();
    other_mode["livemode"] = json!(false);
    let mut no_mode = charged();
    no_mode.as_object_mut().unwrap().remove("livemode");
    let mut other_order = charged();
    other_order["metadata"]["pay_no"] = json!("P2");
    let mut no_amount = charged();
    no_amount["amount_received"] = json!("1000");
    for reply in [
        Reply::Json(500, error("api_error", "")),
        Reply::Json(500, error("invalid_request_error", "parameter_missing")),
        Reply::Json(503, error("api_error", "rate_limit")),
        Reply::Json(400, error("idempotency_error", "")),
        Reply::Json(400, error("invalid_request_error", "")),
        Reply::Json(400, error("invalid_request_error", "a_new_code")),
        Reply::Json(402, error("card_error", "card_declined")),
        Reply::Json(404, json!({ "message": "no route" })),
        Reply::Text(404, "<html>".to_owned()),
        Reply::Text(409, String::new()),
        Reply::Json(200, other_mode),
        Reply::Json(200, no_mode),
        Reply::Json(200, other_order),
        Reply::Json(200, open_session()),
        Reply::Json(200, json!([])),
        Reply::Text(200, "x".repeat(1024 * 1024 + 1)),
        Reply::Text(200, "[".repeat(100_000)),
        Reply::Text(200, String::new()),
        Reply::CutShort,
        Reply::Redirect,
        Reply::Hang,
    ] {
        let (outcome, asked) = query(Some("pi_1"), reply.clone()).await;
        assert_eq!(outcome.label(), "unknown", "{:.200}: {outcome:?}", format!("{reply:?}"));
        assert_eq!(asked.len(), 1, "asked once, without a retry");
        let (outcome, asked) = create("payment_intent", reply).await;
        assert_eq!((outcome.label(), asked.len()), ("unknown", 1), "{outcome:?}");
    }
    // Of a create these say that the order is made, and no more is asked of them; of a query they are no word.
    for reply in [Reply::Json(200, intent("a_new_status")), Reply::Json(200, no_amount)] {
        let (outcome, _) = query(Some("pi_1"), reply.clone()).await;
        assert_eq!(outcome.label(), "unknown", "{reply:?}: {outcome:?}");
    }
    for (status, payment_status, intent) in [
        ("complete", "paid", json!("pi_1")),
        ("complete", "paid", json!(null)),
        ("complete", "paid", intent("processing")),
        ("complete", "unpaid", charged()),
        ("complete", "no_payment_required", json!(null)),
        ("expired", "paid", charged()),
        ("a_new_status", "unpaid", json!(null)),
    ] {
        let reply = Reply::Json(200, session(status, payment_status, intent));
        assert_eq!(query(Some("cs_live_a1"), reply).await.0.label(), "unknown", "{status} {payment_status}");
    }
    for odd in ["T1", "pi_", "pi_1/../../refunds", "pi_1?x=1", "cs_a b"] {
        let (outcome, asked) = query(Some(odd), Reply::Json(200, charged())).await;
        assert_eq!((outcome.label(), asked.len()), ("unknown", 0), "{odd}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outcome = Table::new(&format!("http://{nobody}")).client(&clock()).create(&order()).await;
    assert_eq!(outcome.label(), "unknown", "{outcome:?}");
}

#[tokio::test]
async fn a_refusal_says_whether_to_try_again() {
    for (status, kind, code, label) in [
        (400, "invalid_request_error", "amount_too_small", "rejected"),
        (400, "invalid_request_error", "amount_too_large", "rejected"),
        (400, "invalid_request_error", "parameter_missing", "rejected"),
        (401, "invalid_request_error", "", "retry_later"),
        (403, "invalid_request_error", "", "retry_later"),
        (404, "invalid_request_error", "resource_missing", "retry_later"),
        (409, "idempotency_error", "idempotency_key_in_use", "retry_later"),
        (429, "invalid_request_error", "rate_limit", "retry_later"),
        (429, "invalid_request_error", "lock_timeout", "retry_later"),
    ] {
        let (outcome, _) = create("checkout", Reply::Json(status, error(kind, code))).await;
        assert_eq!(outcome.label(), label, "{status} {code}");
    }
    // Whoever said it, nothing went further.
    assert_eq!(create("checkout", Reply::Text(429, "slow down".to_owned())).await.0.label(), "retry_later");
}

#[tokio::test]
async fn an_intent_is_closed_paid_or_neither() {
    let close = async |channel_order_no, replies: Vec<Reply>| {
        let (client, far) = with("payment_intent", replies).await;
        (client.close(&find(channel_order_no)).await, far.asked())
    };
    let refused = |intent: Value| {
        let mut error = error("invalid_request_error", "payment_intent_unexpected_state");
        error["error"]["payment_intent"] = intent;
        Reply::Json(400, error)
    };
    let (outcome, asked) = close(Some("pi_1"), vec![Reply::Json(200, intent("canceled"))]).await;
    assert_eq!(outcome, Outcome::Accepted(Closed::Closed));
    assert_eq!(
        (&asked[0].method, asked[0].path.as_str()),
        (&Method::POST, "/v1/payment_intents/pi_1/cancel")
    );
    assert_eq!(asked[0].field("cancellation_reason").as_deref(), Some("abandoned"));
    assert_eq!(asked[0].header("idempotency-key"), None, "a kept answer would say what was true before");

    let (outcome, _) = close(Some("pi_1"), vec![refused(intent("succeeded"))]).await;
    let Outcome::Accepted(Closed::AlreadyPaid(queried)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(queried.channel_txn_id.unwrap().as_str(), "pi_1");
    let (outcome, _) = close(Some("pi_1"), vec![refused(intent("canceled"))]).await;
    assert_eq!(outcome, Outcome::Accepted(Closed::Closed));
    for (reply, label) in [
        (refused(intent("processing")), "retry_later"),
        (refused(json!(null)), "retry_later"),
        (Reply::Json(200, intent("processing")), "retry_later"),
        (Reply::Json(200, intent("a_new_status")), "unknown"),
        (Reply::Json(500, error("api_error", "")), "unknown"),
        (Reply::Hang, "unknown"),
    ] {
        assert_eq!(close(Some("pi_1"), vec![reply]).await.0.label(), label);
    }
    // Without the channel's number it is searched for, and closed if it stands.
    let replies = vec![found(&[intent("requires_payment_method")]), Reply::Json(200, intent("canceled"))];
    let (outcome, asked) = close(None, replies).await;
    assert_eq!((outcome, asked.len()), (Outcome::Accepted(Closed::Closed), 2));
    let (outcome, asked) = close(None, vec![found(&[charged()])]).await;
    assert!(matches!(outcome, Outcome::Accepted(Closed::AlreadyPaid(_))), "{outcome:?}");
    assert_eq!(asked.len(), 1);
    assert_eq!(close(None, vec![found(&[])]).await.0.label(), "retry_later");
}

/// The refusal to expire a session does not say what became of it, so that is asked. Fails when the refusal is read as
/// closed: a paid session is refused in the same words.
#[tokio::test]
async fn a_session_is_closed_paid_or_neither() {
    let close = async |replies: Vec<Reply>| {
        let (client, far) = with("checkout", replies).await;
        (client.close(&find(Some("cs_live_a1"))).await, far.asked())
    };
    let closed = Outcome::Accepted(Closed::Closed);
    let expired = Reply::Json(200, session("expired", "unpaid", json!(null)));
    let (outcome, asked) = close(vec![expired.clone()]).await;
    assert_eq!((&outcome, asked[0].path.as_str()), (&closed, "/v1/checkout/sessions/cs_live_a1/expire"));
    let (outcome, asked) = close(vec![not_open(), expired]).await;
    assert_eq!((&outcome, asked.len(), &asked[1].method), (&closed, 2, &Method::GET));
    let paid = Reply::Json(200, session("complete", "paid", charged()));
    let (outcome, _) = close(vec![not_open(), paid]).await;
    let Outcome::Accepted(Closed::AlreadyPaid(queried)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(queried.channel_txn_id.unwrap().as_str(), "pi_1");
    for (replies, label) in [
        (
            vec![not_open(), Reply::Json(200, session("complete", "unpaid", intent("processing")))],
            "retry_later",
        ),
        (vec![not_open(), Reply::Json(500, error("api_error", ""))], "unknown"),
        (vec![Reply::Json(404, error("invalid_request_error", "resource_missing"))], "retry_later"),
        (vec![Reply::Json(200, open_session())], "retry_later"),
        (vec![Reply::Hang], "unknown"),
    ] {
        assert_eq!(close(replies).await.0.label(), label);
    }
}
