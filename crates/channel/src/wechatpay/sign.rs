//! Signing of our requests, and checking of answers and notices.
//!
//! We sign `METHOD\nPATH\nTIMESTAMP\nNONCE\nBODY\n`; the channel signs `TIMESTAMP\nNONCE\nBODY\n`, an empty body too. All by RSA
//! PKCS#1 v1.5 with SHA-256, over the bytes as they travel: bodies come with `\/` and `\u` in them, and read and written again
//! they are other bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use time::OffsetDateTime;

use super::keys::{Found, PlatformKey};
use super::settings::Settings;
use crate::port::{NoticeError, NoticeReason};
use crate::strict_header::single;

pub(super) const SERIAL: HeaderName = HeaderName::from_static("wechatpay-serial");
const TIMESTAMP: HeaderName = HeaderName::from_static("wechatpay-timestamp");
const NONCE: HeaderName = HeaderName::from_static("wechatpay-nonce");
pub(super) const SIGNATURE: HeaderName = HeaderName::from_static("wechatpay-signature");
const SIGNATURE_TYPE: HeaderName = HeaderName::from_static("wechatpay-signature-type");

/// The scheme of both directions. The channel's header may leave it out, and may name no other.
const SCHEME: &str = "WECHATPAY2-SHA256-RSA2048";
/// With this the channel tries now and then whether we verify. A bad signature like any other, and no reason for alarm.
const PROBE: &str = "WECHATPAY/SIGNTEST/";
/// A message this far from our clock is still taken, seconds, both ways and inclusive.
pub(super) const WINDOW_S_MAX: u64 = 300;
/// Longest nonce; it stands in a database key.
const NONCE_BYTES_MAX: usize = 64;
/// Digits of a timestamp; twelve reach the year 33658.
const TIMESTAMP_DIGITS_MAX: usize = 12;
/// Longest signature in base64: that of an RSA key of 8192 bits.
const SIGNATURE_BYTES_MAX: usize = 1368;

/// What a verified message is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) key_id: String,
    pub(super) nonce: String,
}

/// The value of `Authorization`. `path` is path and query exactly as sent.
pub(super) fn authorization(
    settings: &Settings,
    method: &str,
    path: &str,
    at: OffsetDateTime,
    nonce: &str,
    body: &[u8],
) -> HeaderValue {
    let at = at.unix_timestamp();
    let message = message(&format!("{method}\n{path}\n{at}\n{nonce}\n"), body);
    let signature = STANDARD.encode(settings.merchant_key.sign(&message));
    let Settings { mchid, merchant_serial, .. } = settings;
    let mut value = HeaderValue::try_from(format!(
        "{SCHEME} mchid=\"{mchid}\",nonce_str=\"{nonce}\",timestamp=\"{at}\",serial_no=\"{merchant_serial}\",signature=\"{signature}\""
    ))
    .expect("names, serials, digits and base64 are plain ASCII");
    value.set_sensitive(true);
    value
}

/// The signature headers of a message, of the right form.
#[derive(Debug)]
pub(super) struct Stamp<'a> {
    pub(super) serial: &'a str,
    timestamp: &'a str,
    at: i64,
    nonce: &'a str,
    signature: Vec<u8>,
}

impl<'a> Stamp<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    /// [`NoticeError`] naming the header.
    pub(super) fn of(headers: &'a HeaderMap) -> Result<Self, NoticeError> {
        use NoticeReason::{KeyUnknown, NoticeMalformed, SignatureInvalid};
        let signature = single(headers, &SIGNATURE)
            .ok_or(NoticeError::new(SignatureInvalid, "Wechatpay-Signature must be there exactly once"))?;
        if signature.starts_with(PROBE) {
            metrics::counter!("oncepay_wechatpay_probes_total").increment(1);
            return Err(NoticeError::new(
                SignatureInvalid,
                "the channel tried whether signatures are checked",
            ));
        }
        if headers.contains_key(&SIGNATURE_TYPE) && single(headers, &SIGNATURE_TYPE) != Some(SCHEME) {
            return Err(NoticeError::new(
                SignatureInvalid,
                "Wechatpay-Signature-Type must be WECHATPAY2-SHA256-RSA2048",
            ));
        }
        let signature = Some(signature)
            .filter(|text| text.len() <= SIGNATURE_BYTES_MAX)
            .and_then(|text| STANDARD.decode(text).ok())
            .ok_or(NoticeError::new(SignatureInvalid, "Wechatpay-Signature must be base64"))?;
        let serial = single(headers, &SERIAL).ok_or(NoticeError::new(
            KeyUnknown,
            "Wechatpay-Serial must be there exactly once; look at the proxies before us",
        ))?;
        let timestamp = single(headers, &TIMESTAMP)
            .ok_or(NoticeError::new(NoticeMalformed, "Wechatpay-Timestamp must be there exactly once"))?;
        let at = unix_seconds(timestamp)
            .ok_or(NoticeError::new(NoticeMalformed, "Wechatpay-Timestamp must be Unix seconds in digits"))?;
        let nonce = single(headers, &NONCE).filter(|nonce| is_nonce(nonce)).ok_or(NoticeError::new(
            NoticeMalformed,
            "Wechatpay-Nonce must be there exactly once, 64 printable characters at most",
        ))?;
        Ok(Self { serial, timestamp, at, nonce, signature })
    }

    /// Checks the signature over `body` with `key`, and then the time.
    ///
    /// # Errors
    /// [`NoticeError`] with the reason of the first check that failed.
    pub(super) fn verify(
        &self,
        key: &PlatformKey,
        body: &[u8],
        now: OffsetDateTime,
    ) -> Result<Verified, NoticeError> {
        let message = message(&format!("{}\n{}\n", self.timestamp, self.nonce), body);
        if !key.verifies(&message, &self.signature) {
            return Err(NoticeError::new(
                NoticeReason::SignatureInvalid,
                "Wechatpay-Signature is not that of the message",
            ));
        }
        if now.unix_timestamp().abs_diff(self.at) > WINDOW_S_MAX {
            return Err(NoticeError::new(
                NoticeReason::TimestampOutsideWindow,
                "Wechatpay-Timestamp is more than 300 s from our clock",
            ));
        }
        Ok(Verified { key_id: key.id().to_owned(), nonce: self.nonce.to_owned() })
    }
}

/// Checks a message that arrived at `now` with the keys of the account.
///
/// # Errors
/// [`NoticeError`] with the reason of the first check that failed.
pub(super) fn verify(
    settings: &Settings,
    headers: &HeaderMap,
    body: &[u8],
    now: OffsetDateTime,
) -> Result<Verified, NoticeError> {
    let stamp = Stamp::of(headers)?;
    match settings.keys.find(stamp.serial, now) {
        Found::Key(key) => stamp.verify(&key, body, now),
        Found::Expired => Err(NoticeError::new(
            NoticeReason::KeyUnknown,
            "Wechatpay-Serial names a certificate that has expired",
        )),
        Found::Unknown => {
            Err(NoticeError::new(NoticeReason::KeyUnknown, "Wechatpay-Serial names no key of this account"))
        }
    }
}

/// What is signed: the lines of `head`, and the body as one more.
fn message(head: &str, body: &[u8]) -> Vec<u8> {
    [head.as_bytes(), body, b"\n"].concat()
}

fn is_nonce(text: &str) -> bool {
    (1..=NONCE_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn unix_seconds(text: &str) -> Option<i64> {
    let plain = (1..=TIMESTAMP_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
