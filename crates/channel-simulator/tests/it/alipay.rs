//! Alipay's server side, driven by a client made by hand.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use service_kit::Clock;

use crate::far::{Far, Got, far, far_that, far_with, rsa_sign, rsa_verifies};

struct App<'a> {
    far: &'a Far,
}

impl App<'_> {
    fn params(&self, method: &str, biz: &Value) -> BTreeMap<String, String> {
        let mut params: BTreeMap<String, String> = [
            ("app_id", "2021000000000001"),
            ("method", method),
            ("format", "JSON"),
            ("charset", "utf-8"),
            ("sign_type", "RSA2"),
            ("timestamp", "2026-01-01 08:00:00"),
            ("version", "1.0"),
            ("notify_url", &format!("{}/v1/callbacks/alipay/main", self.far.receiver_url)),
            ("biz_content", &biz.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let text = joined(&params);
        params.insert(
            "sign".to_owned(),
            rsa_sign(&self.far.key("alipay-main.app.private.pem"), text.as_bytes()),
        );
        params
    }

    /// By POST, parted between query and form as the channel's own libraries do it.
    async fn post(&self, method: &str, biz: Value) -> String {
        let mut query = self.params(method, &biz);
        let body = query.remove("biz_content").unwrap();
        let request = self.far.http.post(format!("{}/gateway.do?{}", self.far.url, encoded(&query)));
        let form = encoded(&BTreeMap::from([("biz_content".to_owned(), body)]));
        request.body(form).send().await.unwrap().text().await.unwrap()
    }

    /// By GET, all of it in the query.
    async fn get(&self, method: &str, biz: Value) -> String {
        let url = format!("{}/gateway.do?{}", self.far.url, encoded(&self.params(method, &biz)));
        self.far.http.get(url).send().await.unwrap().text().await.unwrap()
    }

    /// The node of an answer whose signature must verify over its own text.
    fn node(&self, answer: &str) -> Value {
        let (node, sign) = parted(answer);
        assert!(self.verifies(node.as_bytes(), &sign), "{answer}");
        serde_json::from_str(node).unwrap()
    }

    fn verifies(&self, text: &[u8], sign: &str) -> bool {
        rsa_verifies(&self.far.key("alipay-main.channel.public.pem"), text, sign)
    }

    async fn call(&self, method: &str, biz: Value) -> Value {
        self.node(&self.post(method, biz).await)
    }

    async fn create(&self, number: &str) -> Value {
        let biz = json!({ "out_trade_no": number, "total_amount": "12.30", "subject": "tea 茶+年卡" });
        self.call("alipay.trade.precreate", biz).await
    }

    async fn query(&self, number: &str) -> Value {
        self.call("alipay.trade.query", json!({ "out_trade_no": number })).await
    }

    async fn refund(&self, number: &str, request_no: &str, yuan: &str) -> Value {
        let biz = json!({ "out_trade_no": number, "out_request_no": request_no, "refund_amount": yuan });
        self.call("alipay.trade.refund", biz).await
    }

    /// The fields of a notice whose signature must verify.
    fn notice(&self, got: &Got) -> BTreeMap<String, String> {
        let text = std::str::from_utf8(&got.body).unwrap();
        let mut fields: BTreeMap<String, String> = text
            .split('&')
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect();
        let sign = fields.remove("sign").unwrap();
        assert_eq!(fields.remove("sign_type").unwrap(), "RSA2");
        assert!(self.verifies(joined(&fields).as_bytes(), &sign), "{text}");
        fields
    }
}

/// The text of the node, as it is, and the signature.
fn parted(answer: &str) -> (&str, String) {
    let (_, rest) = answer.split_once("_response\":").unwrap();
    let (node, sign) = rest.rsplit_once(",\"sign\":\"").unwrap();
    let node = node.split(",\"alipay_cert_sn\"").next().unwrap();
    (node, sign.trim_end_matches("\"}").to_owned())
}

fn joined(params: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

fn encoded(params: &BTreeMap<String, String>) -> String {
    let one = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let pairs: Vec<String> =
        params.iter().map(|(name, value)| format!("{}={}", one(name), one(value))).collect();
    pairs.join("&")
}

fn decoded(text: &str) -> String {
    let url = reqwest::Url::parse(&format!("http://h/?a={text}")).unwrap();
    url.query_pairs().next().unwrap().1.into_owned()
}

/// The trade is not there before the payer has scanned; afterwards it is asked for, paid and told.
#[tokio::test(flavor = "multi_thread")]
async fn a_trade_begins_when_it_is_scanned() {
    let far = far().await;
    let app = App { far: &far };
    let made = app.create("P1").await;
    assert_eq!((&made["code"], &made["out_trade_no"]), (&json!("10000"), &json!("P1")));
    assert_eq!(app.query("P1").await["sub_code"], "ACQ.TRADE_NOT_EXIST");
    let close = |number: &str| app.call("alipay.trade.close", json!({ "out_trade_no": number }));
    assert_eq!(close("P1").await["sub_code"], "ACQ.TRADE_NOT_EXIST");
    let page = far.http.get(made["qr_code"].as_str().unwrap()).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("12.30 CNY") && page.contains("支付"), "{page}");
    assert_eq!(app.query("P1").await["trade_status"], "WAIT_BUYER_PAY");
    assert_eq!(app.create("P1").await["code"], "10000", "the same terms are the same order");
    let other = json!({ "out_trade_no": "P1", "total_amount": "12.31", "subject": "tea 茶+年卡" });
    assert_eq!(app.call("alipay.trade.precreate", other).await["sub_code"], "ACQ.CONTEXT_INCONSISTENT");

    far.pay("P1").await;
    let told = far.told().await;
    let fields = app.notice(&told[0]);
    let shown = app.node(&app.get("alipay.trade.query", json!({ "out_trade_no": "P1" })).await);
    assert_eq!(shown["trade_status"], "TRADE_SUCCESS");
    assert_eq!(fields["trade_no"], shown["trade_no"].as_str().unwrap());
    assert_eq!((fields["total_amount"].as_str(), fields["subject"].as_str()), ("12.30", "tea 茶+年卡"));
    assert_eq!(
        (fields["seller_id"].as_str(), fields["trade_status"].as_str()),
        ("2088000000000001", "TRADE_SUCCESS")
    );
    assert!(fields.contains_key("gmt_payment") && !fields.contains_key("refund_fee"));
    assert_eq!(close("P1").await["sub_code"], "ACQ.REASON_TRADE_STATUS_INVALID");
    assert_eq!(app.create("P1").await["sub_code"], "ACQ.TRADE_HAS_SUCCESS");

    app.create("P2").await;
    far.control("orders/P2/meet", json!({})).await;
    assert_eq!(close("P2").await["code"], "10000");
    assert_eq!(app.query("P2").await["trade_status"], "TRADE_CLOSED");
    assert_eq!(close("P2").await["sub_code"], "ACQ.TRADE_HAS_CLOSE");
}

/// Only the word alone acknowledges; the id stays over all sendings, and the time of sending does not keep it from doing so.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_sent_again_until_the_exact_word() {
    let answers = [(200, "\"success\""), (200, "success\n"), (204, ""), (500, "success")];
    let far = far_that(move |before, _| answers.get(before).copied().unwrap_or((200, "success"))).await;
    let app = App { far: &far };
    app.create("P1").await;
    far.pay("P1").await;
    let told = far.told().await;
    assert_eq!(told.len(), 5);
    let ids: Vec<String> = told.iter().map(|got| app.notice(got)["notify_id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
}

/// A repeat of a refund moves nothing, and the notices tell how much went back in all. Fails when `fund_change` is `Y` for a
/// repeat.
#[tokio::test(flavor = "multi_thread")]
async fn refunds_add_up_and_repeats_move_nothing() {
    let far = far().await;
    let app = App { far: &far };
    app.create("P1").await;
    far.pay("P1").await;
    far.told().await;
    far.forget();
    let first = app.refund("P1", "R1", "2.30").await;
    assert_eq!((&first["fund_change"], &first["refund_fee"]), (&json!("Y"), &json!("2.30")));
    let again = app.refund("P1", "R1", "2.30").await;
    assert_eq!((&again["fund_change"], &again["refund_fee"]), (&json!("N"), &json!("2.30")));
    assert_eq!(app.refund("P1", "R1", "2.31").await["sub_code"], "ACQ.DISCORDANT_REPEAT_REQUEST");
    assert_eq!(app.refund("P1", "R2", "10.01").await["sub_code"], "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL");
    let told = far.told().await;
    let fields = app.notice(&told[0]);
    assert_eq!((fields["trade_status"].as_str(), fields["refund_fee"].as_str()), ("TRADE_SUCCESS", "2.30"));
    assert_eq!(fields["out_biz_no"], "R1");
    assert_eq!(app.refund("P1", "R2", "10").await["refund_fee"], "12.30");
    let told = far.told().await;
    let fields = app.notice(&told[1]);
    assert_eq!((fields["trade_status"].as_str(), fields["refund_fee"].as_str()), ("TRADE_CLOSED", "12.30"));
    assert!(fields.contains_key("gmt_payment"));
    assert_eq!(app.query("P1").await["trade_status"], "TRADE_CLOSED");

    let ask = |number: &'static str| {
        let biz = json!({ "out_trade_no": "P1", "out_request_no": number });
        app.call("alipay.trade.fastpay.refund.query", biz)
    };
    let known = ask("R2").await;
    assert_eq!(
        (&known["refund_status"], &known["refund_amount"]),
        (&json!("REFUND_SUCCESS"), &json!("10.00"))
    );
    let unknown = ask("R9").await;
    assert!(unknown["code"] == "10000" && unknown.get("refund_status").is_none(), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_verify_does_nothing() {
    let far = far().await;
    let app = App { far: &far };
    let biz = json!({ "out_trade_no": "P1", "total_amount": "12.30", "subject": "tea" });
    let mut params = app.params("alipay.trade.precreate", &biz);
    let changed = params["biz_content"].replace("12.30", "12.31");
    params.insert("biz_content".to_owned(), changed);
    let ask = |params: BTreeMap<String, String>| {
        let request = far.http.get(format!("{}/gateway.do?{}", far.url, encoded(&params)));
        async { request.send().await.unwrap().text().await.unwrap() }
    };
    let answer = ask(params.clone()).await;
    assert_eq!(app.node(&answer)["sub_code"], "isv.invalid-signature");
    params.insert("app_id".to_owned(), "2021000000000009".to_owned());
    let answer = ask(params).await;
    assert!(answer.starts_with("{\"error_response\":") && !answer.contains("\"sign\""), "{answer}");
    assert_eq!(far.book().await.totals.orders, 0);

    far.plan(json!({ "create": { "bad_answer_signature_percent": 100 } })).await;
    let answer = app.post("alipay.trade.precreate", biz).await;
    let (node, sign) = parted(&answer);
    assert!(!app.verifies(node.as_bytes(), &sign), "spoilt on purpose");
    assert_eq!(far.book().await.totals.orders, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_with_a_signed_address_makes_the_order_and_sees_the_page() {
    let far = far().await;
    let app = App { far: &far };
    let biz = json!({
        "out_trade_no": "P1", "total_amount": "12.30", "subject": "tea", "product_code": "FAST_INSTANT_TRADE_PAY",
        "passback_params": "a%3Db", "timeout_express": "90m",
    });
    for _ in 0..2 {
        let page = app.get("alipay.trade.page.pay", biz.clone()).await;
        assert!(page.contains("12.30 CNY") && page.contains("action=\"/pay/P1\""), "{page}");
    }
    let page = far.http.post(format!("{}/pay/P1", far.url)).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("已支付"), "{page}");
    let page = app.get("alipay.trade.page.pay", biz).await;
    assert!(page.contains("已支付"), "a paid one is shown as paid: {page}");
    let told = far.told().await;
    assert_eq!(app.notice(&told[0])["passback_params"], "a%3Db");
    assert_eq!((told.len(), far.book().await.totals.charges), (1, 1));
}

/// The three ways to write a slash, and certificate mode's field between node and signature.
#[tokio::test(flavor = "multi_thread")]
async fn slashes_may_be_escaped_before_or_after_signing() {
    for (line, as_sent, without) in [
        ("slashes = \"escaped\"\nalipay_cert_sn = \"abc\"", true, false),
        ("slashes = \"escaped_after_signing\"", false, true),
    ] {
        let far = far_with(line, |_, _| (200, "success")).await;
        let app = App { far: &far };
        let biz = json!({ "out_trade_no": "P1", "total_amount": "1", "subject": "tea" });
        let answer = app.post("alipay.trade.precreate", biz).await;
        let (node, sign) = parted(&answer);
        assert!(node.contains("http:\\/\\/"), "{answer}");
        assert_eq!(app.verifies(node.as_bytes(), &sign), as_sent, "{line}");
        assert_eq!(app.verifies(node.replace("\\/", "/").as_bytes(), &sign), without, "{line}");
    }
}

/// A charset that stands in the form alone is not seen by the gateway: notices come in GBK, and are signed so.
#[tokio::test(flavor = "multi_thread")]
async fn notices_of_a_charset_in_the_form_alone_are_gbk() {
    let far = far().await;
    let app = App { far: &far };
    let biz = json!({ "out_trade_no": "P1", "total_amount": "1", "subject": "测试订单" });
    let form = encoded(&app.params("alipay.trade.precreate", &biz));
    let answer = far.http.post(format!("{}/gateway.do", far.url)).body(form).send().await.unwrap();
    assert_eq!(app.node(&answer.text().await.unwrap())["code"], "10000");
    far.pay("P1").await;
    let told = far.told().await;
    let text = std::str::from_utf8(&told[0].body).unwrap();
    assert!(text.contains("charset=GBK") && text.contains("subject=%B2%E2%CA%D4%B6%A9%B5%A5"), "{text}");
    let sign = decoded(text.split('&').find_map(|pair| pair.strip_prefix("sign=")).unwrap());
    let pairs = text.split('&').filter(|pair| !pair.starts_with("sign"));
    let mut pairs: Vec<Vec<u8>> = pairs
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| [name.as_bytes(), b"=", &gbk_bytes(value)].concat())
        .collect();
    pairs.sort();
    assert!(app.verifies(&pairs.join(&b'&'), &sign));
}

fn gbk_bytes(value: &str) -> Vec<u8> {
    let mut rest = value.bytes();
    let mut out = Vec::new();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            b'+' => out.push(b' '),
            other => out.push(other),
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_a_zip_of_gbk() {
    let far = far().await;
    let app = App { far: &far };
    let today = Clock::system().now() + time::Duration::hours(8);
    let biz = json!({ "bill_type": "trade", "bill_date": today.date().to_string() });
    let method = "alipay.data.dataservice.bill.downloadurl.query";
    assert_eq!(app.call(method, biz.clone()).await["sub_code"], "isp.bill_not_exist");
    app.create("P1").await;
    far.pay("P1").await;
    app.refund("P1", "R1", "2.30").await;
    let link = app.call(method, biz).await;
    let url = link["bill_download_url"].as_str().unwrap();
    let archive = far.http.get(url).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(&archive[..4], b"PK\x03\x04");
    let text = encoding_rs::GBK.decode(&archive).0.into_owned();
    assert!(
        text.contains("业务明细列表") && text.contains("tea 茶+年卡\t") && text.contains("-2.30\t"),
        "{text}"
    );
    assert!(text.contains("#交易合计：1笔，商家实收共12.30元") && text.contains("R1\t"), "{text}");
}
