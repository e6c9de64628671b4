//! Checking of notices: header `Stripe-Signature: t=<Unix seconds>,v1=<64 lower hex>[,v1=…]`, each `v1` an HMAC-SHA256 over
//! `t` as written, a dot, and the raw body.
//!
//! While a secret is rolled the channel signs with the old and the new one, so that any `v1` may match any of our secrets.
//! `v0` is a scheme of test events that anybody can make, and counts for nothing. A second `t` is refused: one of them
//! would be covered by the signature, the other one would be looked at.

use aws_lc_rs::hmac;
use http::{HeaderMap, HeaderName};
use subtle::{Choice, ConstantTimeEq as _};
use time::OffsetDateTime;

use super::settings::{Settings, WebhookSecret};
use crate::port::{NoticeError, NoticeReason};
use crate::strict_header::single;

const SIGNATURE: HeaderName = HeaderName::from_static("stripe-signature");

/// A notice this far from our clock is still taken, seconds, both ways and inclusive. The channel signs each re-send anew.
pub(super) const WINDOW_S_MAX: u64 = 300;
/// Longest header: a hundred bytes for the time and each signature, and some air.
const HEADER_BYTES_MAX: usize = 4096;
/// Signatures looked at in one header: two while a secret is rolled.
const SIGNATURES_MAX: usize = 16;
/// Digits of a timestamp; twelve reach the year 33658.
const TIMESTAMP_DIGITS_MAX: usize = 12;

/// The header, of the right form.
struct Stamp<'a> {
    timestamp: &'a str,
    at: i64,
    signatures: Vec<&'a str>,
}

/// Checks a notice that arrived at `now`: first the signature, then the time. Tells which secret verified it.
///
/// # Errors
/// [`NoticeError`] with the reason of the first check that failed.
pub(super) fn verify<'a>(
    settings: &'a Settings,
    headers: &HeaderMap,
    body: &[u8],
    now: OffsetDateTime,
) -> Result<&'a str, NoticeError> {
    let header = single(headers, &SIGNATURE)
        .filter(|header| header.len() <= HEADER_BYTES_MAX)
        .ok_or(invalid("Stripe-Signature must be there exactly once"))?;
    let stamp = parse(header)?;
    let mut verified: Option<&WebhookSecret> = None;
    for secret in &settings.webhook_secrets {
        let expected = mac(&secret.key, stamp.timestamp, body);
        // All are compared in full, so that time tells neither which one matched nor how far a wrong one was right.
        let matched = stamp
            .signatures
            .iter()
            .fold(Choice::from(0), |found, given| found | expected.as_bytes().ct_eq(given.as_bytes()));
        if bool::from(matched) {
            verified = verified.or(Some(secret));
        }
    }
    let verified = verified.ok_or(invalid("no v1 is the signature of the notice by one of our secrets"))?;
    if now.unix_timestamp().abs_diff(stamp.at) > WINDOW_S_MAX {
        let reason = NoticeReason::TimestampOutsideWindow;
        return Err(NoticeError::new(reason, "t of Stripe-Signature is more than 300 s from our clock"));
    }
    Ok(&verified.key_id)
}

fn parse(header: &str) -> Result<Stamp<'_>, NoticeError> {
    let mut timestamp = None;
    let mut signatures = Vec::new();
    for part in header.split(',') {
        match part.split_once('=') {
            Some(("t", _)) if timestamp.is_some() => {
                return Err(malformed("t must stand in Stripe-Signature exactly once"));
            }
            Some(("t", value)) => timestamp = Some(value),
            Some(("v1", value)) if signatures.len() < SIGNATURES_MAX => signatures.push(value),
            Some(_) | None => {}
        }
    }
    let timestamp = timestamp.ok_or(malformed("t must stand in Stripe-Signature exactly once"))?;
    let at =
        unix_seconds(timestamp).ok_or(malformed("t of Stripe-Signature must be Unix seconds in digits"))?;
    if signatures.is_empty() {
        return Err(invalid("Stripe-Signature must have a v1"));
    }
    Ok(Stamp { timestamp, at, signatures })
}

fn unix_seconds(text: &str) -> Option<i64> {
    let digits = (1..=TIMESTAMP_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// In lower hex: compared as text, upper case is another signature.
fn mac(key: &hmac::Key, timestamp: &str, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(key);
    for part in [timestamp.as_bytes(), b".", body] {
        context.update(part);
    }
    hex::encode(context.sign())
}

const fn invalid(detail: &'static str) -> NoticeError {
    NoticeError::new(NoticeReason::SignatureInvalid, detail)
}

const fn malformed(detail: &'static str) -> NoticeError {
    NoticeError::new(NoticeReason::NoticeMalformed, detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_header_is_read_by_its_grammar() {
        let stamp = parse("t=12,v0=aa,v1=bb,scheme=cc,v1=dd,").unwrap();
        assert_eq!((stamp.timestamp, stamp.at, stamp.signatures), ("12", 12, vec!["bb", "dd"]));
        for (bad, reason) in [
            ("", NoticeReason::NoticeMalformed),
            ("t=", NoticeReason::NoticeMalformed),
            ("v1,t=1", NoticeReason::SignatureInvalid),
            ("t=1", NoticeReason::SignatureInvalid),
            ("t=1,v0=aa", NoticeReason::SignatureInvalid),
            ("v1=aa", NoticeReason::NoticeMalformed),
            ("t=NaN,v1=aa", NoticeReason::NoticeMalformed),
            ("t=-1,v1=aa", NoticeReason::NoticeMalformed),
            ("t=+1,v1=aa", NoticeReason::NoticeMalformed),
            ("t= 1,v1=aa", NoticeReason::NoticeMalformed),
            ("t=1.0,v1=aa", NoticeReason::NoticeMalformed),
            ("t=9999999999999,v1=aa", NoticeReason::NoticeMalformed),
            ("t=1,t=1,v1=aa", NoticeReason::NoticeMalformed),
            ("t=1,v1=aa,t=2", NoticeReason::NoticeMalformed),
        ] {
            assert_eq!(parse(bad).err().unwrap().reason, reason, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_refused_without_panic(header in "[tv01=,0-9a-f ]{0,80}|.{0,80}") {
            if let Ok(stamp) = parse(&header) {
                prop_assert!(!stamp.signatures.is_empty() && stamp.signatures.len() <= SIGNATURES_MAX);
            }
        }
    }
}
