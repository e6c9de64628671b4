//! How many notices one core verifies and reads in a second, for each channel:
//! `cargo run --release -p channel --example notice_speed`.
//!
//! The figure decides whether a notice may be verified on the thread that serves others meanwhile.

use std::io::Write as _;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use channel::generic::sign::{self, Covered, Stamp};
use channel::{Accounts, ClientSettings, NoticeReader, RawNotice, readers};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pay_types::ChannelCode;
use serde_json::json;
use service_kit::Clock;
use time::OffsetDateTime;

const API_V3_KEY: &str = "throwaway-apiv3-key-for-tests-01";
const SERIAL: &str = "5157F09EFDC096DE15EBE81A47057A7200000001";
/// Long enough that one slow moment of the machine is no figure.
const MEASURED_FOR: Duration = Duration::from_secs(3);
/// Between two looks at the time.
const NOTICES_AT_ONCE: u32 = 200;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result {
    let key = KeyPair::generate(KeySize::Rsa2048)?;
    let accounts = accounts(&key)?;
    let now = OffsetDateTime::from_unix_timestamp(1_767_240_006)?;
    let readers = readers(&accounts, &ClientSettings::default(), &Clock::fixed(now))?;
    let mut out = std::io::stdout();
    for (channel, raw) in
        [(ChannelCode::Generic, generic(&accounts, now)), (ChannelCode::WechatPay, wechatpay(&key, now)?)]
    {
        let account = accounts.default_of(channel).ok_or("an account of each channel")?;
        let reader = readers.get(channel, account.account()).ok_or("a reader of each account")?;
        let a_second = measure(&**reader, &raw, now)?;
        let micros = 1_000_000_u128.checked_div(a_second).unwrap_or_default();
        writeln!(
            out,
            "{channel}: {a_second} notices of {} bytes a second, {micros} us each",
            raw.body.len()
        )?;
    }
    Ok(())
}

/// Notices a second.
fn measure(reader: &dyn NoticeReader, raw: &RawNotice, now: OffsetDateTime) -> Result<u128> {
    let begun = Instant::now();
    let mut count = 0_u128;
    while begun.elapsed() < MEASURED_FOR {
        for _ in 0..NOTICES_AT_ONCE {
            std::hint::black_box(reader.read(raw, now)?);
        }
        count = count.saturating_add(u128::from(NOTICES_AT_ONCE));
    }
    Ok(count.saturating_mul(1_000_000_000).checked_div(begun.elapsed().as_nanos()).unwrap_or_default())
}

fn accounts(key: &KeyPair) -> Result<Accounts> {
    let private: Pkcs8V1Der<'_> = key.as_der()?;
    let public: PublicKeyX509Der<'_> = key.public_key().as_der()?;
    let (private, public) = (STANDARD.encode(private.as_ref()), STANDARD.encode(public.as_ref()));
    let head = |channel: &str| {
        format!(
            "[[account]]\nchannel = \"{channel}\"\naccount = \"main\"\nbase_url = \"http://127.0.0.1:1\"\n\
             notify_url = \"http://127.0.0.1:2/n\"\n"
        )
    };
    Ok(Accounts::parse(&format!(
        "{}current_key_id = \"k1\"\n[[account.key]]\nkey_id = \"k1\"\nsecret = \"generic-secret-current-0001\"\n\
         {}[account.wechatpay]\nmchid = \"1900000001\"\nappid = \"wx0000000000000001\"\nproduct = \"native\"\n\
         merchant_serial = \"{SERIAL}\"\nmerchant_private_key = \"{private}\"\napi_v3_key = \"{API_V3_KEY}\"\n\
         [[account.wechatpay.platform_certificate]]\nserial = \"{SERIAL}\"\npem = \"{public}\"\n",
        head("generic"),
        head("wechatpay"),
    ))?)
}

fn notice(headers: HeaderMap, body: String) -> RawNotice {
    RawNotice { method: Method::POST, path_and_query: "/n".to_owned(), headers, body: Bytes::from(body) }
}

fn generic(accounts: &Accounts, now: OffsetDateTime) -> RawNotice {
    let body = json!({
        "notify_id": "G-1", "event": "payment.succeeded", "merchant_id": "M1", "pay_no": "P1", "channel_txn_id": "T1",
        "amount": 1000, "currency": "CNY", "occurred_at": "2026-01-01T12:00:05+08:00",
    })
    .to_string();
    let mut headers = HeaderMap::new();
    if let Some(key) = accounts.default_of(ChannelCode::Generic).and_then(|account| account.current_key()) {
        let covered = Covered::Request { method: "POST", path_and_query: "/n" };
        sign::sign(&mut headers, key, covered, Stamp { at: now, nonce: "nonce-0001" }, body.as_bytes());
    }
    notice(headers, body)
}

fn wechatpay(key: &KeyPair, now: OffsetDateTime) -> Result<RawNotice> {
    let mut sealed = json!({
        "mchid": "1900000001", "appid": "wx0000000000000001", "out_trade_no": "P1", "transaction_id": "T1",
        "trade_type": "NATIVE", "trade_state": "SUCCESS", "success_time": "2026-01-01T12:00:05+08:00",
        "amount": { "total": 1000, "payer_total": 900, "currency": "CNY", "payer_currency": "CNY" },
    })
    .to_string()
    .into_bytes();
    let nonce = Nonce::assume_unique_for_key(*b"0123456789ab");
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, API_V3_KEY.as_bytes())?).seal_in_place_append_tag(
        nonce,
        Aad::empty(),
        &mut sealed,
    )?;
    let body = json!({
        "id": "EV-1", "create_time": "2026-01-01T12:00:06+08:00", "event_type": "TRANSACTION.SUCCESS",
        "resource": {
            "algorithm": "AEAD_AES_256_GCM", "nonce": "0123456789ab", "ciphertext": STANDARD.encode(sealed),
        },
    })
    .to_string();
    let at = now.unix_timestamp().to_string();
    let message = [at.as_bytes(), b"\nnonce-0001\n", body.as_bytes(), b"\n"].concat();
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &message, &mut signature)?;
    let headers = [
        ("wechatpay-timestamp", at),
        ("wechatpay-nonce", "nonce-0001".to_owned()),
        ("wechatpay-serial", SERIAL.to_owned()),
        ("wechatpay-signature", STANDARD.encode(signature)),
    ]
    .into_iter()
    .map(|(name, value)| Ok((HeaderName::from_static(name), HeaderValue::try_from(value)?)))
    .collect::<Result<HeaderMap>>()?;
    Ok(notice(headers, body))
}
