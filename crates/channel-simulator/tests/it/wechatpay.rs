//! WeChat Pay's server side, driven by a client made by hand.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use service_kit::Clock;

use crate::far::{Far, Got, far, far_that, rsa_sign, rsa_verifies};

struct Merchant<'a> {
    far: &'a Far,
    serial: String,
    /// Which key the answer is to be signed with.
    wanted: String,
}

const PUBLIC_KEY_ID: &str = "PUB_KEY_ID_0119000000012026010100000000";

impl<'a> Merchant<'a> {
    fn new(far: &'a Far) -> Self {
        let serial = far.key("wechatpay-main.merchant.serial");
        Self { far, serial, wanted: far.key("wechatpay-main.platform.serial") }
    }

    fn authorization(&self, method: &Method, path: &str, body: &str) -> String {
        let time = Clock::system().now().unix_timestamp();
        let nonce = format!("{:032X}", rand::random::<u128>());
        let text = format!("{method}\n{path}\n{time}\n{nonce}\n{body}\n");
        let sign = rsa_sign(&self.far.key("wechatpay-main.merchant.private.pem"), text.as_bytes());
        format!(
            "WECHATPAY2-SHA256-RSA2048 mchid=\"1900000001\",nonce_str=\"{nonce}\",timestamp=\"{time}\",\
             serial_no=\"{}\",signature=\"{sign}\"",
            self.serial
        )
    }

    async fn send(&self, method: Method, path: &str, body: &str) -> reqwest::Result<Response> {
        let authorization = self.authorization(&method, path, body);
        let request = self.far.http.request(method, format!("{}{path}", self.far.url));
        request
            .header("Authorization", authorization)
            .header("Wechatpay-Serial", &self.wanted)
            .body(body.to_owned())
            .send()
            .await
    }

    /// A call whose answer must be signed by the key that was wanted.
    async fn call(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.send(method, path, &body).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.unwrap();
        let got = Got { path: String::new(), headers, body };
        assert_eq!(got.header("wechatpay-serial"), self.wanted);
        assert!(self.verifies(&got), "{status}: {:?}", got.body);
        (status, serde_json::from_slice(&got.body).unwrap_or_default())
    }

    fn verifies(&self, got: &Got) -> bool {
        let (time, nonce) = (got.header("wechatpay-timestamp"), got.header("wechatpay-nonce"));
        let text = [format!("{time}\n{nonce}\n").as_bytes(), &got.body, b"\n"].concat();
        let key = match got.header("wechatpay-serial") {
            PUBLIC_KEY_ID => "wechatpay-main.public-key.public.pem",
            _ => "wechatpay-main.platform.public.pem",
        };
        rsa_verifies(&self.far.key(key), &text, got.header("wechatpay-signature"))
    }

    fn open(&self, resource: &Value) -> Vec<u8> {
        let text = |name: &str| resource[name].as_str().unwrap();
        let key = self.far.key("wechatpay-main.api-v3-key");
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_bytes()).unwrap());
        let nonce = Nonce::try_assume_unique_for_key(text("nonce").as_bytes()).unwrap();
        let mut sealed = STANDARD.decode(text("ciphertext")).unwrap();
        let aad = Aad::from(text("associated_data").as_bytes());
        key.open_in_place(nonce, aad, &mut sealed).unwrap().to_vec()
    }

    fn plain(&self, got: &Got) -> Value {
        assert_eq!(got.header("wechatpay-signature-type"), "WECHATPAY2-SHA256-RSA2048");
        serde_json::from_slice(&self.open(&got.json()["resource"])).unwrap()
    }

    fn order(&self, number: &str) -> Value {
        json!({
            "appid": "wx0000000000000001", "mchid": "1900000001", "description": "tea 茶",
            "out_trade_no": number, "notify_url": format!("{}/v1/callbacks/wechatpay/main", self.far.receiver_url),
            "amount": { "total": 1000, "currency": "CNY" }, "attach": "a&b",
        })
    }

    async fn create(&self, number: &str) -> Value {
        let (status, json) = self.call(Method::POST, "/v3/pay/transactions/native", self.order(number)).await;
        assert_eq!(status, 200, "{json}");
        json
    }

    async fn query(&self, number: &str) -> (u16, Value) {
        let path = format!("/v3/pay/transactions/out-trade-no/{number}?mchid=1900000001");
        self.call(Method::GET, &path, Value::Null).await
    }

    async fn close(&self, number: &str) -> (u16, Value) {
        let path = format!("/v3/pay/transactions/out-trade-no/{number}/close");
        self.call(Method::POST, &path, json!({ "mchid": "1900000001" })).await
    }

    async fn refund(&self, number: &str, refund_no: &str, fen: i64) -> (u16, Value) {
        let body = json!({
            "out_trade_no": number, "out_refund_no": refund_no, "reason": "late",
            "notify_url": format!("{}/refunds", self.far.receiver_url),
            "amount": { "refund": fen, "total": 1000, "currency": "CNY" },
        });
        self.call(Method::POST, "/v3/refund/domestic/refunds", body).await
    }
}

fn code((status, json): &(u16, Value)) -> (u16, &str) {
    (*status, json["code"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_made_asked_for_paid_told_and_not_closed_then() {
    let far = far().await;
    let merchant = Merchant::new(&far);
    assert_eq!(code(&merchant.query("P00001").await), (404, "ORDER_NOT_EXIST"));
    let made = merchant.create("P00001").await;
    assert!(made["code_url"].as_str().unwrap().ends_with("/pay/P00001"));
    assert_eq!(merchant.create("P00001").await, made, "the same terms are the same order");
    let mut other = merchant.order("P00001");
    other["amount"]["total"] = json!(1001);
    let other = merchant.call(Method::POST, "/v3/pay/transactions/native", other).await;
    assert_eq!(code(&other), (403, "OUT_TRADE_NO_USED"));
    assert_eq!(merchant.query("P00001").await.1["trade_state"], "NOTPAY");

    far.pay("P00001").await;
    let told = far.told().await;
    assert_eq!((told.len(), told[0].path.as_str()), (1, "/v1/callbacks/wechatpay/main"));
    assert!(merchant.verifies(&told[0]));
    let (notice, plain) = (told[0].json(), merchant.plain(&told[0]));
    assert_eq!(
        (&notice["event_type"], &plain["trade_state"]),
        (&json!("TRANSACTION.SUCCESS"), &json!("SUCCESS"))
    );
    assert_eq!((&plain["out_trade_no"], &plain["amount"]["total"]), (&json!("P00001"), &json!(1000)));
    let (_, shown) = merchant.query("P00001").await;
    assert_eq!((&shown["transaction_id"], &shown["attach"]), (&plain["transaction_id"], &json!("a&b")));
    let path =
        format!("/v3/pay/transactions/id/{}?mchid=1900000001", plain["transaction_id"].as_str().unwrap());
    assert_eq!(merchant.call(Method::GET, &path, Value::Null).await.1, shown);
    assert_eq!(code(&merchant.close("P00001").await), (400, "ORDERPAID"));
}

/// Fails when the answer is signed with the newest key in place of the one that is asked for, or 204 is not signed.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_signed_with_the_key_that_the_caller_names() {
    let far = far().await;
    let mut merchant = Merchant::new(&far);
    merchant.create("P00001").await;
    merchant.wanted = PUBLIC_KEY_ID.to_owned();
    // Serial numbers are compared without case.
    merchant.serial = merchant.serial.to_lowercase();
    merchant.create("P00002").await;
    assert_eq!(merchant.close("P00002").await, (204, Value::Null));
    assert_eq!(merchant.query("P00002").await.1["trade_state"], "CLOSED");
    assert_eq!(code(&merchant.close("P00002").await), (400, "ORDER_CLOSED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_verify_does_nothing() {
    let far = far().await;
    let mut merchant = Merchant::new(&far);
    merchant.serial = "5A00".to_owned();
    let body = merchant.order("P00001").to_string();
    let refused = merchant.send(Method::POST, "/v3/pay/transactions/native", &body).await.unwrap();
    assert_eq!(refused.status(), 401);
    merchant.serial = far.key("wechatpay-main.merchant.serial");
    // A true signature, of another body.
    let genuine = merchant.authorization(&Method::POST, "/v3/pay/transactions/native", "{}");
    let request = far.http.post(format!("{}/v3/pay/transactions/native", far.url)).body(body);
    assert_eq!(request.header("Authorization", genuine).send().await.unwrap().status(), 401);
    assert_eq!(far.book().await.totals.orders, 0);
    let h5 = merchant.call(Method::POST, "/v3/pay/transactions/h5", merchant.order("P00001")).await;
    assert_eq!(code(&h5), (400, "PARAM_ERROR"), "scene_info is wanted");
    far.plan(json!({ "create": { "bad_answer_signature_percent": 100 } })).await;
    let response = merchant
        .send(Method::POST, "/v3/pay/transactions/native", &merchant.order("P00001").to_string())
        .await;
    let response = response.unwrap();
    let (headers, body) = (response.headers().clone(), response.bytes().await.unwrap());
    assert!(!merchant.verifies(&Got { path: String::new(), headers, body }), "spoilt on purpose");
    assert_eq!(far.book().await.totals.orders, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_are_taken_told_and_may_be_abnormal() {
    let far = far().await;
    let merchant = Merchant::new(&far);
    merchant.create("P00001").await;
    assert_eq!(code(&merchant.refund("P00001", "R1", 1).await), (403, "TRADE_ERROR"));
    far.pay("P00001").await;
    far.told().await;
    for (plan, refund_no, first, then, event) in [
        (json!({ "done_ms": [1, 1] }), "R1", "PROCESSING", "SUCCESS", "REFUND.SUCCESS"),
        (json!({ "abnormal_percent": 100 }), "R2", "ABNORMAL", "ABNORMAL", "REFUND.ABNORMAL"),
        (json!({ "fail_percent": 100 }), "R3", "CLOSED", "CLOSED", "REFUND.CLOSED"),
    ] {
        far.forget();
        far.plan(json!({ "refund": plan })).await;
        let (status, refund) = merchant.refund("P00001", refund_no, 300).await;
        assert_eq!((status, &refund["status"]), (200, &json!(first)), "{refund}");
        let told = far.told().await;
        assert_eq!((told.len(), told[0].path.as_str()), (1, "/refunds"));
        assert!(merchant.verifies(&told[0]));
        assert_eq!(told[0].json()["event_type"], event);
        let plain = merchant.plain(&told[0]);
        assert_eq!((&plain["refund_status"], &plain["out_refund_no"]), (&json!(then), &json!(refund_no)));
        assert!(plain.get("status").is_none() && plain["amount"].get("currency").is_none());
        let path = format!("/v3/refund/domestic/refunds/{refund_no}");
        assert_eq!(merchant.call(Method::GET, &path, Value::Null).await.1["status"], then);
        assert_eq!(merchant.refund("P00001", refund_no, 300).await.1["refund_id"], refund["refund_id"]);
        assert_eq!(code(&merchant.refund("P00001", refund_no, 299).await), (400, "INVALID_REQUEST"));
    }
    assert_eq!(
        code(&merchant.refund("P00001", "R4", 401).await),
        (400, "INVALID_REQUEST"),
        "600 are on their way"
    );
    assert_eq!(merchant.query("P00001").await.1["trade_state"], "REFUND");
    far.control("refunds/R2/succeed", json!({})).await;
    assert_eq!(
        merchant.call(Method::GET, "/v3/refund/domestic/refunds/R2", Value::Null).await.1["status"],
        "SUCCESS"
    );
}

/// Each sending is sealed and signed anew under one id, until 200 or 204. Fails when 202 counts as taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_sent_again_until_it_is_taken() {
    let far = far_that(|before, _| ([500, 202, 302].get(before).copied().unwrap_or(204), "")).await;
    let merchant = Merchant::new(&far);
    merchant.create("P00001").await;
    far.pay("P00001").await;
    let told = far.told().await;
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|got| merchant.verifies(got) && got.json()["id"] == told[0].json()["id"]));
    assert_ne!(told[0].header("wechatpay-nonce"), told[1].header("wechatpay-nonce"));
    assert_ne!(told[0].json()["resource"]["nonce"], told[1].json()["resource"]["nonce"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_are_what_they_say() {
    let far =
        far_that(|_, got| (if got.header("wechatpay-signature").contains('_') { 401 } else { 200 }, ""))
            .await;
    let merchant = Merchant::new(&far);
    far.plan(json!({ "lies": { "foreign_account_percent": 100, "probe_signature_percent": 100 } })).await;
    merchant.create("P00001").await;
    far.pay("P00001").await;
    let told = far.told().await;
    assert_eq!(told.len(), 3);
    let probe = told.iter().find(|got| got.header("wechatpay-signature").starts_with("WECHATPAY/SIGNTEST/"));
    assert!(!merchant.verifies(probe.unwrap()));
    let genuine: Vec<_> =
        told.iter().filter(|got| merchant.verifies(got)).map(|got| merchant.plain(got)).collect();
    assert_eq!(genuine.len(), 2);
    assert_eq!(genuine.iter().filter(|plain| plain["mchid"] == "1900009999").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_statements_can_be_fetched() {
    let far = far().await;
    let merchant = Merchant::new(&far);
    let (_, list) = merchant.call(Method::GET, "/v3/certificates", Value::Null).await;
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
    let certificate = merchant.open(&list["data"][0]["encrypt_certificate"]);
    assert_eq!(String::from_utf8(certificate).unwrap(), far.key("wechatpay-main.platform.certificate.pem"));
    assert_eq!(list["data"][0]["serial_no"], merchant.wanted);

    let today = Clock::system().now() + time::Duration::hours(8);
    let path = format!("/v3/bill/tradebill?bill_date={}&bill_type=ALL", today.date());
    let none = merchant.call(Method::GET, &path, Value::Null).await;
    assert_eq!(code(&none), (400, "NO_STATEMENT_EXIST"));
    merchant.create("P00001").await;
    far.pay("P00001").await;
    merchant.refund("P00001", "R1", 300).await;
    let (_, link) = merchant.call(Method::GET, &path, Value::Null).await;
    let download = link["download_url"].as_str().unwrap().strip_prefix(&far.url).unwrap();
    let file = merchant.send(Method::GET, download, "").await.unwrap().bytes().await.unwrap();
    let hash = hex::encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &file));
    assert_eq!(link["hash_value"], hash);
    let text = std::str::from_utf8(&file).unwrap().strip_prefix('\u{feff}').unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[..3].iter().all(|line| line.split(',').count() == 27));
    assert!(lines[4].starts_with("`2,`10.00,`3.00,"), "{text}");
}

/// Notices of the caller's making: late, unsigned, or with another amount, about an order of the book.
#[tokio::test(flavor = "multi_thread")]
async fn a_direct_notice_can_be_set_wrong() {
    let far = far().await;
    let merchant = Merchant::new(&far);
    merchant.create("P00001").await;
    let answers =
        far.control("notices", json!({ "pay_no": "P00001", "amount": 7, "timestamp_offset_s": -400 })).await;
    assert_eq!(answers["answers"][0]["status"], 200);
    far.control("notices", json!({ "pay_no": "P00001", "signature": "MISSING", "repeats": 2 })).await;
    let told = far.told().await;
    assert_eq!(told.len(), 3);
    assert!(merchant.verifies(&told[0]));
    assert_eq!(merchant.plain(&told[0])["amount"]["total"], 7);
    assert!(merchant.plain(&told[0])["transaction_id"].as_str().unwrap().starts_with('X'));
    let at: i64 = told[0].header("wechatpay-timestamp").parse().unwrap();
    assert!((390..420).contains(&(Clock::system().now().unix_timestamp() - at)));
    assert_eq!((told[1].header("wechatpay-signature"), &told[1].body), ("", &told[2].body));
    assert_eq!(far.book().await.totals.charges, 0, "a direct notice charges nobody");
}

/// A refund that is made at the channel itself is told like any other, under a number that is not ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_made_at_the_channel_is_told_too() {
    let far = far().await;
    let merchant = Merchant::new(&far);
    merchant.create("P00001").await;
    far.pay("P00001").await;
    far.told().await;
    far.forget();
    let refund = far.control("orders/P00001/refund", json!({ "amount": 400 })).await;
    let told = far.told().await;
    let plain = merchant.plain(&told[0]);
    assert_eq!((&plain["out_refund_no"], &plain["amount"]["refund"]), (&refund["refund_no"], &json!(400)));
    assert_eq!(merchant.query("P00001").await.1["trade_state"], "REFUND");
}
