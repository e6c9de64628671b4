//! A merchant, the channel's keys, and the channel's side of the wire in a few lines.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use channel::wechatpay::{Client, Reader, Wire};
use channel::{Account, Accounts, Protocol, RawNotice};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize, SerialNumber};
use serde_json::{Value, json};
use service_kit::Clock;
use time::OffsetDateTime;
use tokio::net::TcpListener;

pub(super) const LIMIT: Duration = Duration::from_millis(1500);
pub(super) const MCHID: &str = "1900000001";
pub(super) const APPID: &str = "wx0000000000000001";
pub(super) const API_V3_KEY: &str = "throwaway-apiv3-key-for-tests-01";

/// A pair of keys, and what the other side knows it by.
pub(super) struct Pair {
    pub(super) id: String,
    /// Certificate or public key, as the account's table has it.
    pub(super) pem: String,
    pub(super) private_pem: String,
    public_pem: String,
    private: RsaKeyPair,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pair({})", self.id)
    }
}

impl Pair {
    /// With a certificate of this serial, that ends in `years_left` years.
    pub(super) fn with_certificate(serial: &str, until_year: i32) -> Self {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.serial_number = Some(SerialNumber::from(hex::decode(serial).unwrap()));
        params.not_after = rcgen::date_time_ymd(until_year, 1, 1);
        let pem = params.self_signed(&key).unwrap().pem();
        Self::of(serial, pem, &key)
    }

    pub(super) fn public_key(id: &str) -> Self {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        Self::of(id, key.public_key_pem(), &key)
    }

    fn of(id: &str, pem: String, key: &KeyPair) -> Self {
        Self {
            id: id.to_owned(),
            pem,
            private_pem: key.serialize_pem(),
            public_pem: key.public_key_pem(),
            private: RsaKeyPair::from_pkcs8(&key.serialize_der()).unwrap(),
        }
    }

    fn sign(&self, message: &[u8]) -> String {
        let mut signature = vec![0; self.private.public_modulus_len()];
        self.private.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
        STANDARD.encode(signature)
    }

    /// The headers of a message that this pair signs.
    pub(super) fn stamp(&self, at: OffsetDateTime, nonce: &str, body: &[u8]) -> HeaderMap {
        let at = at.unix_timestamp();
        let message = [format!("{at}\n{nonce}\n").as_bytes(), body, b"\n"].concat();
        [
            ("wechatpay-timestamp", at.to_string()),
            ("wechatpay-nonce", nonce.to_owned()),
            ("wechatpay-serial", self.id.clone()),
            ("wechatpay-signature", self.sign(&message)),
            ("wechatpay-signature-type", "WECHATPAY2-SHA256-RSA2048".to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::try_from(value).unwrap()))
        .collect()
    }
}

pub(super) static MERCHANT: LazyLock<Pair> =
    LazyLock::new(|| Pair::with_certificate("3775B6A45ACD588826D15E583A95F5DD00000001", 2090));
/// Two of the channel's certificates, and a public key.
pub(super) static CERTIFICATE: LazyLock<Pair> =
    LazyLock::new(|| Pair::with_certificate("5157F09EFDC096DE15EBE81A47057A7200000001", 2090));
pub(super) static NEXT: LazyLock<Pair> =
    LazyLock::new(|| Pair::with_certificate("00D157F09EFDC096DE15EBE81A47057A7200000002", 2090));
pub(super) static PUBLIC_KEY: LazyLock<Pair> =
    LazyLock::new(|| Pair::public_key("PUB_KEY_ID_0119000000012025031400000000000001"));

/// One account's table.
pub(super) struct Table<'a> {
    pub(super) name: &'a str,
    pub(super) base_url: &'a str,
    pub(super) product: &'a str,
    pub(super) mchid: &'a str,
    pub(super) api_v3_key: &'a str,
    pub(super) certificates: Vec<&'a Pair>,
    pub(super) public_keys: Vec<&'a Pair>,
}

impl<'a> Table<'a> {
    pub(super) fn new(base_url: &'a str, certificates: Vec<&'a Pair>, public_keys: Vec<&'a Pair>) -> Self {
        let (name, product) = ("main", "native");
        Self { name, base_url, product, mchid: MCHID, api_v3_key: API_V3_KEY, certificates, public_keys }
    }

    pub(super) fn toml(&self) -> String {
        let Self { name, base_url, product, mchid, api_v3_key, .. } = self;
        let certificates: String = self
            .certificates
            .iter()
            .map(|pair| format!("[[account.wechatpay.platform_certificate]]\npem = '''{}'''\n", pair.pem))
            .collect();
        let public_keys: String = self
            .public_keys
            .iter()
            .map(|pair| {
                format!("[[account.wechatpay.public_key]]\nid = \"{}\"\npem = '''{}'''\n", pair.id, pair.pem)
            })
            .collect();
        format!(
            r#"
[[account]]
channel = "wechatpay"
account = "{name}"
base_url = "{base_url}"
notify_url = "http://127.0.0.1:2/v1/callbacks/wechatpay/{name}"
[account.wechatpay]
mchid = "{mchid}"
appid = "{APPID}"
product = "{product}"
merchant_serial = "{}"
merchant_private_key = '''{}'''
api_v3_key = "{api_v3_key}"
{certificates}{public_keys}"#,
            MERCHANT.id, MERCHANT.private_pem
        )
    }

    pub(super) fn account(&self) -> Arc<Account> {
        Arc::clone(Accounts::parse(&self.toml()).unwrap().iter().next().unwrap())
    }
}

/// The adapter's own client and reader, without the guard.
pub(super) fn adapter(account: &Account, clock: &Clock) -> (Client, Reader) {
    let Protocol::WechatPay(settings) = account.protocol() else { panic!("an account of another channel") };
    let http =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let wire = Wire { http, limit: LIMIT, clock: clock.clone() };
    (wire.client(account, settings), wire.reader(account, settings))
}

/// `plain` as the channel seals it.
pub(super) fn seal(api_v3_key: &str, associated_data: &str, plain: &[u8]) -> Value {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, api_v3_key.as_bytes()).unwrap());
    let nonce = "0123456789ab";
    let mut bytes = plain.to_vec();
    let iv = Nonce::assume_unique_for_key(nonce.as_bytes().try_into().unwrap());
    key.seal_in_place_append_tag(iv, Aad::from(associated_data.as_bytes()), &mut bytes).unwrap();
    json!({
        "algorithm": "AEAD_AES_256_GCM",
        "nonce": nonce,
        "associated_data": associated_data,
        "ciphertext": STANDARD.encode(bytes),
    })
}

/// A notice with this event and content, signed by `pair`.
pub(super) fn notice(pair: &Pair, at: OffsetDateTime, nonce: &str, event: &str, plain: &Value) -> RawNotice {
    let body = json!({
        "id": "EV-1",
        "create_time": "2026-01-01T12:00:06+08:00",
        "event_type": event,
        "resource_type": "encrypt-resource",
        "resource": seal(API_V3_KEY, "transaction", plain.to_string().as_bytes()),
    });
    signed(pair, at, nonce, Bytes::from(body.to_string()))
}

pub(super) fn signed(pair: &Pair, at: OffsetDateTime, nonce: &str, body: Bytes) -> RawNotice {
    RawNotice {
        method: Method::POST,
        path_and_query: "/v1/callbacks/wechatpay/main".to_owned(),
        headers: pair.stamp(at, nonce, &body),
        body,
    }
}

pub(super) fn transaction(pay_no: &str) -> Value {
    json!({
        "appid": APPID, "mchid": MCHID, "out_trade_no": pay_no, "transaction_id": "42000000001",
        "trade_type": "NATIVE", "trade_state": "SUCCESS", "success_time": "2026-01-01T12:00:05+08:00",
        "amount": { "total": 1000, "payer_total": 900, "currency": "CNY", "payer_currency": "CNY" },
    })
}

/// What the channel does with a request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    /// Answers, signed by this pair.
    Signed(u16, String, &'static Pair),
    /// Answers with the signature of another body.
    SignedForOther(u16, String),
    /// Answers with a signature of ten minutes ago.
    SignedBefore(u16, String),
    Unsigned(u16, String),
    /// Says `content-length` and ends before it.
    CutShort,
    Redirect,
    Hang,
}

/// The channel's side.
#[derive(Debug)]
pub(super) struct Far {
    pub(super) base_url: String,
    reply: Mutex<Reply>,
    /// Certificates that it tells, and the pair that signs that answer.
    pub(super) certificates: Mutex<(Vec<&'static Pair>, &'static Pair)>,
    /// Requests whose `Authorization` verified, but for certificates.
    pub(super) verified: AtomicUsize,
    pub(super) certificates_asked: AtomicUsize,
    /// Path, body and `Wechatpay-Serial` of requests, but for certificates.
    pub(super) asked: Mutex<Vec<(String, String, Option<String>)>>,
}

impl Far {
    pub(super) async fn start(reply: Reply) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = Arc::new(Self {
            base_url: format!("http://{}", listener.local_addr().unwrap()),
            reply: Mutex::new(reply),
            certificates: Mutex::new((vec![&CERTIFICATE, &NEXT], &NEXT)),
            verified: AtomicUsize::new(0),
            certificates_asked: AtomicUsize::new(0),
            asked: Mutex::new(Vec::new()),
        });
        let own = Arc::clone(&far);
        let router = Router::new().fallback(move |request: Request| {
            let far = Arc::clone(&own);
            async move { far.serve(request).await }
        });
        service_kit::task::spawn("far_side", async move { axum::serve(listener, router).await });
        far
    }

    async fn serve(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 16).await.unwrap();
        let path = parts.uri.path_and_query().unwrap().as_str();
        let merchant = Verifier { mchid: MCHID, serial: &MERCHANT.id, pem: &MERCHANT.public_pem };
        let verified = merchant.authorized(&parts.headers, parts.method.as_str(), path, &body);
        if path == "/v3/certificates" {
            assert!(verified, "a request for certificates is signed too");
            self.certificates_asked.fetch_add(1, Ordering::SeqCst);
            return self.tell_certificates().await;
        }
        let serial = parts.headers.get("wechatpay-serial").map(|value| value.to_str().unwrap().to_owned());
        let body = String::from_utf8(body.to_vec()).unwrap();
        self.asked.lock().unwrap().push((path.to_owned(), body, serial));
        self.verified.fetch_add(usize::from(verified), Ordering::SeqCst);
        let reply = self.reply.lock().unwrap().clone();
        respond(reply).await
    }

    async fn tell_certificates(&self) -> Response {
        let (told, by) = self.certificates.lock().unwrap().clone();
        let data: Vec<Value> = told
            .iter()
            .map(|pair| {
                json!({
                    "serial_no": pair.id,
                    "encrypt_certificate": seal(API_V3_KEY, "certificate", pair.pem.as_bytes()),
                })
            })
            .collect();
        respond(Reply::Signed(200, json!({ "data": data }).to_string(), by)).await
    }
}

/// Who the channel takes for the sender of a request.
pub(super) struct Verifier<'a> {
    pub(super) mchid: &'a str,
    pub(super) serial: &'a str,
    pub(super) pem: &'a str,
}

impl Verifier<'_> {
    /// Whether `Authorization` is what the channel's definition says, byte for byte.
    pub(super) fn authorized(&self, headers: &HeaderMap, method: &str, path: &str, body: &[u8]) -> bool {
        let value = headers["authorization"].to_str().unwrap();
        let fields = value.strip_prefix("WECHATPAY2-SHA256-RSA2048 ").unwrap();
        let field = |name: &str| {
            let (_, rest) = fields.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0
        };
        assert_eq!((field("mchid"), field("serial_no")), (self.mchid, self.serial));
        let head = format!("{method}\n{path}\n{}\n{}\n", field("timestamp"), field("nonce_str"));
        let message = [head.as_bytes(), body, b"\n"].concat();
        let spki: String = self.pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let Ok(signature) = STANDARD.decode(field("signature")) else { return false };
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, STANDARD.decode(spki).unwrap())
            .verify(&message, &signature)
            .is_ok()
    }
}

async fn respond(reply: Reply) -> Response {
    let now = Clock::system().now();
    let with = |status: u16, headers: HeaderMap, body: String| {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response.headers_mut().extend(headers);
        response
    };
    match reply {
        Reply::Signed(status, body, pair) => with(status, pair.stamp(now, "n1", body.as_bytes()), body),
        Reply::SignedForOther(status, body) => with(status, CERTIFICATE.stamp(now, "n1", b"{}"), body),
        Reply::SignedBefore(status, body) => with(
            status,
            CERTIFICATE.stamp(now.saturating_sub(time::Duration::minutes(10)), "n1", body.as_bytes()),
            body,
        ),
        Reply::Unsigned(status, body) => with(status, HeaderMap::new(), body),
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
