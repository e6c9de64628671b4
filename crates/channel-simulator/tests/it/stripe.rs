//! Stripe's server side, driven by a client made by hand.

use aws_lc_rs::hmac;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::far::{Far, Got, far};

struct Stripe<'a> {
    far: &'a Far,
    key: String,
}

/// An answer with what its headers say of it.
#[derive(Debug)]
struct Told {
    status: u16,
    replayed: bool,
    json: Value,
}

impl<'a> Stripe<'a> {
    fn new(far: &'a Far) -> Self {
        Self { far, key: far.key("stripe-main.secret-key") }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        form: &str,
        idempotency_key: &str,
    ) -> reqwest::Result<Response> {
        let mut request =
            self.far.http.request(method, format!("{}{path}", self.far.url)).bearer_auth(&self.key);
        if !idempotency_key.is_empty() {
            request = request.header("Idempotency-Key", idempotency_key);
        }
        request.body(form.to_owned()).send().await
    }

    async fn call(&self, method: Method, path: &str, form: &str, idempotency_key: &str) -> Told {
        let response = self.send(method, path, form, idempotency_key).await.unwrap();
        assert!(response.headers().contains_key("request-id"));
        Told {
            status: response.status().as_u16(),
            replayed: response.headers().contains_key("idempotent-replayed"),
            json: serde_json::from_str(&response.text().await.unwrap()).unwrap(),
        }
    }

    async fn post(&self, path: &str, form: &str) -> Value {
        let told = self.call(Method::POST, path, form, "").await;
        assert_eq!(told.status, 200, "{}", told.json);
        told.json
    }

    async fn get(&self, path: &str) -> Value {
        let told = self.call(Method::GET, path, "", "").await;
        assert_eq!(told.status, 200, "{}", told.json);
        told.json
    }

    /// A session of 12.34 USD for the number.
    async fn session(&self, pay_no: &str) -> Value {
        let form = format!(
            "mode=payment&client_reference_id={pay_no}&payment_intent_data[metadata][pay_no]={pay_no}\
             &line_items[0][quantity]=1&line_items[0][price_data][currency]=usd\
             &line_items[0][price_data][unit_amount]=1234&line_items[0][price_data][product_data][name]=tea+%E8%8C%B6\
             &success_url=https%3A%2F%2Fshop.example%2Fok"
        );
        self.post("/v1/checkout/sessions", &form).await
    }

    /// The event, if the receiver's check would let it in.
    fn event(&self, got: &Got) -> Option<Value> {
        let header = got.header("stripe-signature");
        let (time, signature) = header.split_once(",v1=")?;
        let time = time.strip_prefix("t=")?;
        let secret = self.far.key("stripe-main.webhook-secret");
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let text = [time.as_bytes(), b".", &got.body].concat();
        hmac::verify(&key, &text, &hex::decode(signature).ok()?).ok()?;
        Some(got.json())
    }

    async fn events(&self) -> Vec<(String, Value)> {
        let told = self.far.told().await;
        let events = told.iter().map(|got| self.event(got).expect("the signature verifies"));
        events
            .map(|event| (event["type"].as_str().unwrap().to_owned(), event["data"]["object"].clone()))
            .collect()
    }
}

fn types(events: &[(String, Value)]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    types.sort_unstable();
    types
}

/// A key is one request: its repeat gets the first answer, another request is refused. Fails when `Answers::begin` does not
/// compare what is asked, or when answers are not kept.
#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_is_one_request() {
    let far = far().await;
    let stripe = Stripe::new(&far);
    let form = "amount=1234&currency=usd&metadata[pay_no]=P1&automatic_payment_methods[enabled]=true";
    let path = "/v1/payment_intents";
    let first = stripe.call(Method::POST, path, form, "pay:P1:1").await;
    assert_eq!((first.status, first.replayed), (200, false), "{first:?}");
    let again = stripe.call(Method::POST, path, form, "pay:P1:1").await;
    assert_eq!((again.status, again.replayed, &again.json), (200, true, &first.json));
    let other = stripe.call(Method::POST, path, &form.replace("1234", "1235"), "pay:P1:1").await;
    assert_eq!((other.status, &other.json["error"]["type"]), (400, &json!("idempotency_error")));
    // A refusal before the work began leaves the key as it was.
    let refused = stripe.call(Method::POST, path, "currency=usd", "pay:P2:1").await;
    assert_eq!(refused.status, 400);
    assert_eq!(stripe.call(Method::POST, path, form, "pay:P2:1").await.status, 200);

    far.plan(json!({ "create": { "delay_ms": [700, 700] } })).await;
    let running = stripe.call(Method::POST, path, form, "pay:P3:1");
    let while_it_runs = async {
        test_kit::wait_for("the intent is made", async || far.book().await.totals.orders == 3).await;
        stripe.call(Method::POST, path, form, "pay:P3:1").await
    };
    let (first, second) = tokio::join!(running, while_it_runs);
    assert_eq!((second.status, &second.json["error"]["code"]), (409, &json!("idempotency_key_in_use")));
    let third = stripe.call(Method::POST, path, form, "pay:P3:1").await;
    assert_eq!((third.replayed, third.json), (true, first.json));
    assert_eq!(far.book().await.totals.orders, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_accounts_key_is_taken_as_bearer_or_as_basic() {
    let far = far().await;
    let mut stripe = Stripe::new(&far);
    let basic = far.http.get(format!("{}/v1/payment_intents", far.url)).basic_auth(&stripe.key, Some(""));
    assert_eq!(basic.send().await.unwrap().status(), 200);
    let intent = stripe.post("/v1/payment_intents", "amount=5&currency=usd").await;
    let path = format!("/v1/payment_intents/{}", intent["id"].as_str().unwrap());
    stripe.key = far.key("stripe-second.secret-key");
    assert_eq!(stripe.call(Method::GET, &path, "", "").await.status, 404, "another account's");
    stripe.key.push('x');
    assert_eq!(stripe.call(Method::GET, &path, "", "").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_is_declined_paid_refunded_and_cannot_be_cancelled_then() {
    let far = far().await;
    let stripe = Stripe::new(&far);
    let intent = stripe.post("/v1/payment_intents", "amount=500&currency=ugx&metadata[pay_no]=P1").await;
    let id = intent["id"].as_str().unwrap();
    assert_eq!(intent["status"], "requires_payment_method");
    far.control("orders/P1/decline", json!({})).await;
    far.pay("P1").await;
    let events = stripe.events().await;
    assert_eq!(types(&events), ["payment_intent.payment_failed", "payment_intent.succeeded"]);
    let paid = &events.iter().find(|(kind, _)| kind.ends_with("succeeded")).unwrap().1;
    assert_eq!((&paid["id"], &paid["amount_received"]), (&json!(id), &json!(500)));
    // Stripe counts UGX in hundredths, and the book as ISO 4217 does.
    assert_eq!(far.book().await.orders[0].amount, 5);
    let cancelled = stripe.call(Method::POST, &format!("/v1/payment_intents/{id}/cancel"), "", "").await;
    assert_eq!(cancelled.json["error"]["code"], "payment_intent_unexpected_state");
    assert_eq!(cancelled.json["error"]["payment_intent"]["status"], "succeeded");

    let form = format!("payment_intent={id}&amount=200&metadata[refund_no]=R1");
    let refund = stripe.post("/v1/refunds", &form).await;
    assert_eq!((&refund["status"], &refund["metadata"]["refund_no"]), (&json!("succeeded"), &json!("R1")));
    let page = stripe.get(&format!("/v1/refunds?payment_intent={id}&limit=1")).await;
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&refund["id"], &json!(false)));
    let events = stripe.events().await;
    let charge = events.iter().find(|(kind, _)| kind == "charge.refunded").unwrap();
    assert_eq!((&charge.1["amount_refunded"], &charge.1["refunded"]), (&json!(200), &json!(false)));
    let too_much =
        stripe.call(Method::POST, "/v1/refunds", &format!("payment_intent={id}&amount=400"), "").await;
    assert_eq!(too_much.status, 400);
    stripe.post("/v1/refunds", &format!("charge={}", charge.1["id"].as_str().unwrap())).await;
    let none_left = stripe.call(Method::POST, "/v1/refunds", &format!("payment_intent={id}"), "").await;
    assert_eq!(none_left.json["error"]["code"], "charge_already_refunded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_told_twice_and_an_expired_one_once() {
    let far = far().await;
    let stripe = Stripe::new(&far);
    let session = stripe.session("P1").await;
    assert_eq!((&session["status"], &session["amount_total"]), (&json!("open"), &json!(1234)));
    let page = far.http.get(session["url"].as_str().unwrap()).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("12.34 USD") && page.contains("tea 茶"), "{page}");
    far.pay("P1").await;
    let events = stripe.events().await;
    assert_eq!(types(&events), ["checkout.session.completed", "payment_intent.succeeded"]);
    let completed = &events.iter().find(|(kind, _)| kind.starts_with("checkout")).unwrap().1;
    let intent = &events.iter().find(|(kind, _)| kind.starts_with("payment_intent")).unwrap().1;
    assert_eq!(
        (&completed["payment_status"], &completed["client_reference_id"]),
        (&json!("paid"), &json!("P1"))
    );
    assert_eq!((&completed["payment_intent"], &intent["metadata"]["pay_no"]), (&intent["id"], &json!("P1")));
    let path = format!("/v1/checkout/sessions/{}", session["id"].as_str().unwrap());
    let shown = stripe.get(&format!("{path}?expand[]=payment_intent.latest_charge")).await;
    assert_eq!(shown["payment_intent"]["latest_charge"]["captured"], true);
    assert_eq!(stripe.call(Method::POST, &format!("{path}/expire"), "", "").await.status, 400);
    let found = stripe.get("/v1/payment_intents/search?query=metadata%5B'pay_no'%5D:'P1'").await;
    assert_eq!(found["data"][0]["id"], intent["id"]);

    far.forget();
    let session = stripe.session("P2").await;
    let path = format!("/v1/checkout/sessions/{}/expire", session["id"].as_str().unwrap());
    assert_eq!(stripe.post(&path, "").await["status"], "expired");
    assert_eq!(types(&stripe.events().await), ["checkout.session.expired"]);
}

/// Whatever goes wrong with the first call, the same call under the same key makes no second object.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_went_wrong_is_made_good_under_its_key() {
    let far = far().await;
    let stripe = Stripe::new(&far);
    let form = "amount=1234&currency=usd";
    for (fault, made) in [
        ("error_before_commit_percent", 0),
        ("error_after_commit_percent", 1),
        ("drop_after_commit_percent", 1),
    ] {
        far.plan(json!({ "create": { fault: 100 } })).await;
        let before = far.book().await.totals.orders;
        let first = stripe.send(Method::POST, "/v1/payment_intents", form, fault).await;
        let failed = match first {
            Ok(response) => response.status().as_u16() >= 500 || response.bytes().await.is_err(),
            Err(_) => true,
        };
        assert!(failed, "{fault}");
        assert_eq!(far.book().await.totals.orders - before, made, "{fault}");
        far.plan(json!({})).await;
        let again = stripe.call(Method::POST, "/v1/payment_intents", form, fault).await;
        assert_eq!((again.status, again.replayed), (200, made == 1), "{fault}");
        assert_eq!(far.book().await.totals.orders - before, 1, "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_hang_fail_and_come_back_as_planned() {
    let far = far().await;
    let stripe = Stripe::new(&far);
    stripe.session("P1").await;
    let paid = far.pay("P1").await;
    let intent = paid["channel_txn_id"].as_str().unwrap();
    far.told().await;
    for (plan, status, told) in [
        (json!({ "stuck_percent": 100 }), "pending", vec![]),
        (json!({ "fail_percent": 100, "done_ms": [1, 1] }), "pending", vec!["refund.failed"]),
        (
            json!({ "fail_after_success_percent": 100 }),
            "succeeded",
            vec!["charge.refunded", "refund.failed", "refund.updated"],
        ),
    ] {
        far.forget();
        far.plan(json!({ "refund": plan })).await;
        let refund = stripe.post("/v1/refunds", &format!("payment_intent={intent}&amount=100")).await;
        assert_eq!(refund["status"], status);
        assert_eq!(types(&stripe.events().await), told);
    }
}

/// The lies of Stripe: the test mode is another's, and the amount and the number are wrong under a transaction with an `X`.
#[tokio::test(flavor = "multi_thread")]
async fn lies_are_what_they_say() {
    let far = far().await;
    let stripe = Stripe::new(&far);
    let lies = json!({
        "foreign_account_percent": 100, "wrong_amount_percent": 100, "bad_signature_percent": 100,
        "stale_timestamp_percent": 100, "probe_signature_percent": 100,
    });
    far.plan(json!({ "lies": lies })).await;
    stripe.session("P1").await;
    far.pay("P1").await;
    let told = far.told().await;
    let totals = far.quiet().await;
    assert_eq!((totals.lies.foreign_account, totals.lies.probe_signature), (1, 0), "a probe is WeChat Pay's");
    assert_eq!(told.len(), 6);
    assert_eq!(told.iter().filter(|got| stripe.event(got).is_none()).count(), 1);
    let events: Vec<Value> = told.iter().filter_map(|got| stripe.event(got)).collect();
    assert_eq!(events.iter().filter(|event| event["livemode"] == false).count(), 1);
    let wrong = events.iter().filter(|event| event["data"]["object"]["amount_total"] == 1235);
    let wrong: Vec<_> = wrong.map(|event| event["data"]["object"]["payment_intent"].clone()).collect();
    assert!(wrong.len() == 1 && wrong[0].as_str().unwrap().starts_with("pi_X"), "{wrong:?}");
}
