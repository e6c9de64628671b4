//! Signing and checking of requests, answers and notices.
//!
//! Signed bytes are `METHOD\nPATH\nTIMESTAMP\nNONCE\n` + raw body + `\n`, for an answer `STATUS\nTIMESTAMP\nNONCE\n` + raw
//! body + `\n`. Method, path (with its query, as received), time and nonce are covered, so a message can be moved neither
//! to another address nor in time. Four headers carry the rest:
//!
//! | header | value |
//! |---|---|
//! | `X-Channel-Key-Id` | which secret |
//! | `X-Channel-Timestamp` | Unix seconds |
//! | `X-Channel-Nonce` | `[A-Za-z0-9_-]`, at most 64 characters; ours have 32 |
//! | `X-Channel-Signature` | `v1=<64 lower hex>`, several joined by commas while a scheme changes |

use aws_lc_rs::hmac;
use http::{HeaderMap, HeaderName, HeaderValue};
use service_kit::config::Secret;
use subtle::{Choice, ConstantTimeEq as _};
use time::OffsetDateTime;

use crate::accounts::{Account, Key};
use crate::port::{NoticeError, NoticeReason};
use crate::strict_header::single;

pub const KEY_ID: HeaderName = HeaderName::from_static("x-channel-key-id");
pub const TIMESTAMP: HeaderName = HeaderName::from_static("x-channel-timestamp");
pub const NONCE: HeaderName = HeaderName::from_static("x-channel-nonce");
pub const SIGNATURE: HeaderName = HeaderName::from_static("x-channel-signature");

/// A message this far from our clock is still taken, seconds, both ways and inclusive: clocks differ, but a message kept for
/// longer is no longer a delivery.
pub const WINDOW_S_MAX: u64 = 300;
/// Longest nonce; it stands in a database key.
const NONCE_BYTES_MAX: usize = 64;
/// Signatures looked at in one header: a change of scheme needs two.
const SIGNATURES_MAX: usize = 8;
/// Digits of a timestamp; twelve reach the year 33658.
const TIMESTAMP_DIGITS_MAX: usize = 12;

/// What a signature covers ahead of time, nonce and body.
#[derive(Debug, Clone, Copy)]
pub enum Covered<'a> {
    /// A request or a notice.
    Request { method: &'a str, path_and_query: &'a str },
    /// An answer.
    Answer { status: u16 },
}

/// When and under which nonce a message is signed.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    pub at: OffsetDateTime,
    pub nonce: &'a str,
}

/// What a verified message is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub key_id: String,
    pub nonce: String,
}

/// A nonce of 128 random bits in 32 hex digits.
#[must_use]
pub fn fresh_nonce() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// Puts the four headers of a message into `headers`.
pub fn sign(headers: &mut HeaderMap, key: &Key, covered: Covered<'_>, stamp: Stamp<'_>, body: &[u8]) {
    let timestamp = stamp.at.unix_timestamp().to_string();
    let signature = hex::encode(mac(key.secret(), covered, (&timestamp, stamp.nonce), body));
    let mut put = |name: HeaderName, value: &str| {
        headers
            .insert(name, HeaderValue::from_str(value).expect("key ids, digits and nonces are plain ASCII"));
    };
    put(KEY_ID, key.key_id());
    put(TIMESTAMP, &timestamp);
    put(NONCE, stamp.nonce);
    put(SIGNATURE, &format!("v1={signature}"));
}

/// Checks a message that arrived at `now` with the keys of `account`: first the signature, then the time.
///
/// # Errors
/// [`NoticeError`] with the reason of the first check that failed.
pub fn verify(
    account: &Account,
    covered: Covered<'_>,
    headers: &HeaderMap,
    body: &[u8],
    now: OffsetDateTime,
) -> Result<Verified, NoticeError> {
    use NoticeReason::{KeyUnknown, NoticeMalformed, SignatureInvalid, TimestampOutsideWindow};
    let key_id = single(headers, &KEY_ID)
        .ok_or(NoticeError::new(KeyUnknown, "X-Channel-Key-Id must be there exactly once"))?;
    let signature = single(headers, &SIGNATURE)
        .ok_or(NoticeError::new(SignatureInvalid, "X-Channel-Signature must be there exactly once"))?;
    let timestamp = single(headers, &TIMESTAMP)
        .ok_or(NoticeError::new(NoticeMalformed, "X-Channel-Timestamp must be there exactly once"))?;
    let nonce = single(headers, &NONCE).filter(|nonce| is_nonce(nonce)).ok_or(NoticeError::new(
        NoticeMalformed,
        "X-Channel-Nonce must be there exactly once, 64 letters, digits, '_' or '-' at most",
    ))?;
    let at = unix_seconds(timestamp)
        .ok_or(NoticeError::new(NoticeMalformed, "X-Channel-Timestamp must be Unix seconds in digits"))?;
    let key = account
        .key(key_id)
        .ok_or(NoticeError::new(KeyUnknown, "X-Channel-Key-Id names no key of this account"))?;
    if !matches(&mac(key.secret(), covered, (timestamp, nonce), body), signature) {
        return Err(NoticeError::new(SignatureInvalid, "no v1 signature is that of the message"));
    }
    if now.unix_timestamp().abs_diff(at) > WINDOW_S_MAX {
        return Err(NoticeError::new(
            TimestampOutsideWindow,
            "X-Channel-Timestamp is more than 300 s from our clock",
        ));
    }
    Ok(Verified { key_id: key_id.to_owned(), nonce: nonce.to_owned() })
}

fn mac(secret: &Secret, covered: Covered<'_>, (timestamp, nonce): (&str, &str), body: &[u8]) -> hmac::Tag {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
    let mut context = hmac::Context::with_key(&key);
    let head = match covered {
        Covered::Request { method, path_and_query } => format!("{method}\n{path_and_query}\n"),
        Covered::Answer { status } => format!("{status}\n"),
    };
    for part in [head.as_bytes(), timestamp.as_bytes(), b"\n", nonce.as_bytes(), b"\n", body, b"\n"] {
        context.update(part);
    }
    context.sign()
}

/// Whether any `v1=` value is the MAC. Every value is compared in full and in constant time, so that time tells neither
/// which one matched nor how far a wrong one was right.
fn matches(mac: &hmac::Tag, header: &str) -> bool {
    let found = header.split(',').take(SIGNATURES_MAX).fold(Choice::from(0), |found, part| {
        let given = part.trim().strip_prefix("v1=").filter(|text| is_lower_hex(text));
        match given.and_then(|text| hex::decode(text).ok()) {
            Some(given) => found | mac.as_ref().ct_eq(&given),
            None => found,
        }
    });
    found.into()
}

/// Upper case would be a second spelling of one signature.
fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_nonce(text: &str) -> bool {
    (1..=NONCE_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn unix_seconds(text: &str) -> Option<i64> {
    let plain = (1..=TIMESTAMP_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generic::notice::tests::{account, now};

    const REQUEST: Covered<'static> = Covered::Request { method: "POST", path_and_query: "/a?b=c" };

    fn signed(key_id: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let account = account();
        let key = account.key(key_id).unwrap();
        sign(&mut headers, key, REQUEST, Stamp { at: now(), nonce: "nonce-0001" }, b"body");
        headers
    }

    fn reason(headers: &HeaderMap) -> NoticeReason {
        verify(&account(), REQUEST, headers, b"body", now()).unwrap_err().reason
    }

    #[test]
    fn both_keys_verify_during_a_rotation_each_under_its_own_id() {
        for key_id in ["k0", "k1"] {
            let verified = verify(&account(), REQUEST, &signed(key_id), b"body", now()).unwrap();
            assert_eq!(verified, Verified { key_id: key_id.to_owned(), nonce: "nonce-0001".to_owned() });
        }
        let mut headers = signed("k0");
        headers.insert(KEY_ID, "k1".parse().unwrap());
        assert_eq!(reason(&headers), NoticeReason::SignatureInvalid);
        headers.insert(KEY_ID, "k2".parse().unwrap());
        assert_eq!(reason(&headers), NoticeReason::KeyUnknown);
    }

    #[test]
    fn any_of_several_signatures_is_enough_and_other_schemes_count_for_nothing() {
        let headers = signed("k1");
        let good = headers[&SIGNATURE].to_str().unwrap().to_owned();
        let zero = format!("v1={}", "0".repeat(64));
        let with = |value: String| {
            let mut headers = headers.clone();
            headers.insert(SIGNATURE, value.parse().unwrap());
            verify(&account(), REQUEST, &headers, b"body", now())
        };
        assert!(with(format!("{zero},{good}")).is_ok());
        assert!(with(format!("{good}, {zero}")).is_ok());
        assert!(with(format!("v0=x,{good}")).is_ok());
        for bad in [
            zero.clone(),
            good.replace("v1", "v0"),
            good.to_uppercase().replace("V1", "v1"),
            good[..66].to_owned(),
            format!("{good}00"),
            "v1=".to_owned(),
            String::new(),
            format!("{}{good}", format!("{zero},").repeat(SIGNATURES_MAX)),
        ] {
            assert_eq!(with(bad.clone()).unwrap_err().reason, NoticeReason::SignatureInvalid, "{bad}");
        }
    }

    #[test]
    fn a_header_that_is_missing_or_there_twice_is_refused() {
        for (name, expected) in [
            (KEY_ID, NoticeReason::KeyUnknown),
            (SIGNATURE, NoticeReason::SignatureInvalid),
            (TIMESTAMP, NoticeReason::NoticeMalformed),
            (NONCE, NoticeReason::NoticeMalformed),
        ] {
            let mut missing = signed("k1");
            let value = missing.remove(&name).unwrap();
            assert_eq!(reason(&missing), expected, "{name} missing");
            let mut twice = signed("k1");
            twice.append(name.clone(), value);
            assert_eq!(reason(&twice), expected, "{name} twice");
        }
    }

    #[test]
    fn the_form_of_time_and_nonce_is_checked() {
        for bad in
            ["NaN", "-1", "+1767240006", "1767240006.0", "1e9", "", "9999999999999", "１７６７２４０００６"]
        {
            let mut headers = signed("k1");
            headers.insert(TIMESTAMP, HeaderValue::from_bytes(bad.as_bytes()).unwrap());
            assert_eq!(reason(&headers), NoticeReason::NoticeMalformed, "{bad}");
        }
        for bad in ["", "a b", "a/b", &"n".repeat(65)] {
            let mut headers = signed("k1");
            headers.insert(NONCE, bad.parse().unwrap());
            assert_eq!(reason(&headers), NoticeReason::NoticeMalformed, "{bad}");
        }
        let nonce = fresh_nonce();
        assert!(is_nonce(&nonce) && nonce.len() == 32);
    }

    #[test]
    fn an_answer_is_no_request_and_a_status_is_covered() {
        let account = account();
        let mut headers = HeaderMap::new();
        let stamp = Stamp { at: now(), nonce: "nonce-0001" };
        sign(&mut headers, account.current_key().unwrap(), Covered::Answer { status: 200 }, stamp, b"{}");
        assert!(verify(&account, Covered::Answer { status: 200 }, &headers, b"{}", now()).is_ok());
        for other in [Covered::Answer { status: 201 }, REQUEST] {
            let error = verify(&account, other, &headers, b"{}", now()).unwrap_err();
            assert_eq!(error.reason, NoticeReason::SignatureInvalid);
        }
    }
}
