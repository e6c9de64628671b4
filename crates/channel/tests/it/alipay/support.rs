//! An account with keys of the test's own, and the published one.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use channel::{Account, Accounts, Protocol, alipay};
use service_kit::Clock;

/// One side's keys: ours to sign calls, the channel's to sign answers.
pub(super) struct Keys {
    pub(super) private: String,
    pub(super) public: String,
}

fn keys() -> Keys {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let private: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    Keys { private: STANDARD.encode(private.as_ref()), public: STANDARD.encode(public.as_ref()) }
}

pub(super) static OURS: LazyLock<Keys> = LazyLock::new(keys);
pub(super) static THEIRS: LazyLock<Keys> = LazyLock::new(keys);

pub(super) fn file(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)).unwrap()
}

/// An account at `base_url` whose channel signs with `public`.
pub(super) fn account(base_url: &str, product: &str, public: &str) -> Arc<Account> {
    let text = format!(
        r#"
[[account]]
channel = "alipay"
account = "main"
base_url = "{base_url}"
notify_url = "http://127.0.0.1:2/v1/callbacks/alipay/main"
[account.alipay]
app_id = "2021000000000001"
seller_id = "2088000000000001"
product = "{product}"
app_private_key = "{}"
[[account.alipay.public_key]]
pem = """{public}"""
"#,
        OURS.private
    );
    Arc::clone(Accounts::parse(&text).unwrap().iter().next().unwrap())
}

pub(super) fn client(base_url: &str, product: &str) -> alipay::Client {
    let account = account(base_url, product, &THEIRS.public);
    let Protocol::Alipay(settings) = account.protocol() else { panic!() };
    alipay::Client::new(
        &account,
        settings,
        reqwest::Client::new(),
        Duration::from_millis(500),
        Clock::system(),
    )
}

pub(super) fn reader(public: &str) -> alipay::Reader {
    let account = account("http://127.0.0.1:1/gateway.do", "page", public);
    let Protocol::Alipay(settings) = account.protocol() else { panic!() };
    alipay::Reader::new(settings)
}
