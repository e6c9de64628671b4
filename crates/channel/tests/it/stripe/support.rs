//! An account, signed events, and the channel's side of the wire in a few lines.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::hmac;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use channel::stripe::{Client, Reader};
use channel::{Account, Accounts, Protocol, RawNotice};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use service_kit::Clock;
use time::OffsetDateTime;
use tokio::net::TcpListener;

use crate::call::pay_no;

pub(super) const LIMIT: Duration = Duration::from_millis(1500);
pub(super) const SECRET_KEY: &str = "sk_live_throwaway_0001";
pub(super) const NEW: &str = "whsec_throwaway_new";
pub(super) const OLD: &str = "whsec_throwaway_old";

/// One account's table.
pub(super) struct Table<'a> {
    pub(super) base_url: &'a str,
    pub(super) secret_key: &'a str,
    pub(super) livemode: bool,
    pub(super) product: &'a str,
    pub(super) more: &'a str,
    pub(super) webhook_secrets: Vec<&'a str>,
}

impl<'a> Table<'a> {
    pub(super) fn new(base_url: &'a str) -> Self {
        let (livemode, product, webhook_secrets) = (true, "checkout", vec![NEW]);
        Self { base_url, secret_key: SECRET_KEY, livemode, product, more: "", webhook_secrets }
    }

    pub(super) fn toml(&self) -> String {
        let Self { base_url, secret_key, livemode, product, more, webhook_secrets } = self;
        let secrets: String = webhook_secrets
            .iter()
            .map(|secret| format!("[[account.stripe.webhook_secret]]\nsecret = \"{secret}\"\n"))
            .collect();
        format!(
            r#"
[[account]]
channel = "stripe"
account = "main"
base_url = "{base_url}"
notify_url = "https://pay.example/v1/callbacks/stripe/main"
[account.stripe]
secret_key = "{secret_key}"
livemode = {livemode}
product = "{product}"
{more}
{secrets}"#
        )
    }

    pub(super) fn account(&self) -> Arc<Account> {
        Arc::clone(Accounts::parse(&self.toml()).unwrap().iter().next().unwrap())
    }

    pub(super) fn reader(&self) -> Reader {
        let account = self.account();
        let Protocol::Stripe(settings) = account.protocol() else { panic!("not an account of Stripe") };
        Reader::new(settings)
    }

    pub(super) fn client(&self, clock: &Clock) -> Client {
        let account = self.account();
        let Protocol::Stripe(settings) = account.protocol() else { panic!("not an account of Stripe") };
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build();
        Client::new(&account, settings, http.unwrap(), LIMIT, clock.clone())
    }
}

/// The value of `Stripe-Signature` by one secret.
pub(super) fn signature(secret: &str, at: OffsetDateTime, body: &[u8]) -> String {
    let at = at.unix_timestamp();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, &[format!("{at}.").as_bytes(), body].concat());
    format!("t={at},v1={}", hex::encode(tag))
}

pub(super) fn raw(signature: &str, body: &[u8]) -> RawNotice {
    let mut headers = HeaderMap::new();
    headers.insert("stripe-signature", HeaderValue::from_str(signature).unwrap());
    RawNotice {
        method: Method::POST,
        path_and_query: "/v1/callbacks/stripe/main".to_owned(),
        headers,
        body: Bytes::copy_from_slice(body),
    }
}

/// A clock a second after our test numbers were made.
pub(super) fn clock() -> Clock {
    Clock::fixed(OffsetDateTime::from_unix_timestamp(1_767_240_007).unwrap())
}

/// What the far side does with one request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    Json(u16, Value),
    Text(u16, String),
    CutShort,
    Redirect,
    Hang,
}

/// What was asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// A field of the body, decoded.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        fields(&self.body).into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// A field of the query, decoded.
    pub(super) fn in_query(&self, name: &str) -> Option<String> {
        let query = self.path.split_once('?')?.1;
        fields(query).into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

fn fields(text: &str) -> Vec<(String, String)> {
    let url = reqwest::Url::parse(&format!("http://h/?{text}")).unwrap();
    url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

/// Follows its script, and does the last thing in it for ever.
#[derive(Debug)]
pub(super) struct Far {
    pub(super) base_url: String,
    pub(super) asked: Mutex<Vec<Asked>>,
    replies: Mutex<VecDeque<Reply>>,
}

impl Far {
    pub(super) async fn start(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = Arc::new(Self {
            base_url: format!("http://{}", listener.local_addr().unwrap()),
            asked: Mutex::default(),
            replies: Mutex::new(replies.into_iter().collect()),
        });
        let own = Arc::clone(&far);
        let handler = move |request: Request| {
            let far = Arc::clone(&own);
            async move { far.respond(request).await }
        };
        let router = Router::new().fallback(handler);
        service_kit::task::spawn("far_side", async move { axum::serve(listener, router).await });
        far
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    async fn respond(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 16).await.unwrap();
        self.asked.lock().unwrap().push(Asked {
            method: parts.method,
            path: parts.uri.path_and_query().unwrap().as_str().to_owned(),
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        });
        let reply = {
            let mut replies = self.replies.lock().unwrap();
            if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }
        };
        let text = |status: u16, text: String| Response::builder().status(status).body(Body::from(text));
        match reply.unwrap() {
            Reply::Json(status, json) => text(status, json.to_string()).unwrap(),
            Reply::Text(status, body) => text(status, body).unwrap(),
            Reply::CutShort => {
                let chunks =
                    futures::stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("cut"))]);
                Response::builder().header("content-length", "100").body(Body::from_stream(chunks)).unwrap()
            }
            Reply::Redirect => {
                Response::builder().status(307).header("location", "/elsewhere").body(Body::empty()).unwrap()
            }
            Reply::Hang => std::future::pending().await,
        }
    }
}

/// An intent of our test order. Paid, its charge is not sent along.
pub(super) fn intent(status: &str) -> Value {
    json!({
        "id": "pi_1", "object": "payment_intent", "amount": 1000,
        "amount_received": if status == "succeeded" { 1000 } else { 0 },
        "client_secret": "pi_1_secret_x", "created": 1_767_240_006, "currency": "cny", "latest_charge": "ch_1",
        "last_payment_error": null, "livemode": true, "metadata": { "pay_no": pay_no().as_str() }, "status": status,
    })
}

/// The same, with its charge.
pub(super) fn charged() -> Value {
    let mut intent = intent("succeeded");
    intent["latest_charge"] = json!({ "id": "ch_1", "object": "charge", "created": 1_767_240_099 });
    intent
}

/// A session of our test order.
pub(super) fn session(status: &str, payment_status: &str, intent: Value) -> Value {
    json!({
        "id": "cs_live_a1", "object": "checkout.session", "amount_total": 1000, "currency": "cny",
        "client_reference_id": pay_no().as_str(), "livemode": true, "metadata": { "pay_no": pay_no().as_str() },
        "payment_intent": intent, "payment_status": payment_status, "status": status,
        "url": "https://checkout.example/c/pay/cs_live_a1",
    })
}

pub(super) fn error(kind: &str, code: &str) -> Value {
    match code {
        "" => json!({ "error": { "type": kind, "message": "m" } }),
        code => json!({ "error": { "type": kind, "code": code, "message": "m" } }),
    }
}
