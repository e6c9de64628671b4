//! No byte of a notice can be changed without notice.

use bytes::Bytes;
use channel::generic::Reader;
use channel::generic::sign::{self, Covered, Stamp};
use channel::{NoticeReader as _, RawNotice};
use http::{HeaderValue, Method};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::account;
use crate::vector::{Case, cases};

fn published() -> Case {
    cases().into_iter().find(|case| case.name == "valid").unwrap()
}

/// The published notice, signed by ourselves: what is left out of the signature is then left out on both sides, and its
/// change passes.
fn valid() -> RawNotice {
    let mut raw = published().raw();
    let account = account("http://h");
    let nonce = raw.headers[&sign::NONCE].to_str().unwrap().to_owned();
    let covered = Covered::Request { method: raw.method.as_str(), path_and_query: &raw.path_and_query };
    let stamp = Stamp { at: published().now(), nonce: &nonce };
    sign::sign(&mut raw.headers, account.current_key().unwrap(), covered, stamp, &raw.body);
    raw
}

fn is_read(raw: &RawNotice) -> bool {
    Reader::new(account("http://h")).read(raw, published().now()).is_ok()
}

#[test]
fn the_notice_that_is_changed_is_read_unchanged() {
    assert!(is_read(&valid()));
}

/// Any bytes, and as often blanks alone, which somebody might take for nothing.
fn more() -> impl Strategy<Value = Vec<u8>> {
    let vec = proptest::collection::vec::<BoxedStrategy<u8>>;
    prop_oneof![vec(any::<u8>().boxed(), 1..8), vec(Just(b' ').boxed(), 1..8)]
}

/// `bytes` with one byte changed to another.
fn mutated(bytes: &[u8], at: &Index, xor: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = at.index(bytes.len());
    bytes[at] ^= xor;
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Fails when the body is left out of the signature, or read before it is checked.
    #[test]
    fn a_changed_byte_of_the_body_is_refused(at: Index, xor in 1_u8..=255) {
        let mut raw = valid();
        raw.body = Bytes::from(mutated(&raw.body, &at, xor));
        prop_assert!(!is_read(&raw));
    }

    /// Fails when the path is left out of the signature: a notice could then be moved to another account's address.
    #[test]
    fn a_changed_byte_of_the_path_is_refused(at: Index, xor in 1_u8..=127) {
        let mut raw = valid();
        if let Ok(path) = String::from_utf8(mutated(raw.path_and_query.as_bytes(), &at, xor)) {
            raw.path_and_query = path;
            prop_assert!(!is_read(&raw));
        }
    }

    /// Fails when time, nonce or key id are left out of the check.
    #[test]
    fn a_changed_byte_of_a_header_is_refused(which: Index, at: Index, xor in 1_u8..=255) {
        let mut raw = valid();
        let names: Vec<_> = raw.headers.keys().cloned().collect();
        let name = which.get(&names);
        if let Ok(value) = HeaderValue::from_bytes(&mutated(raw.headers[name].as_bytes(), &at, xor)) {
            raw.headers.insert(name.clone(), value);
            prop_assert!(!is_read(&raw));
        }
    }

    /// Fails when bytes are trimmed before the check.
    #[test]
    fn bytes_put_before_or_behind_the_body_are_refused(more in more(), before: bool) {
        let mut raw = valid();
        let parts = if before { [&more[..], &raw.body] } else { [&raw.body[..], &more] };
        raw.body = Bytes::from(parts.concat());
        prop_assert!(!is_read(&raw));
    }

    #[test]
    fn any_message_is_refused_without_panic(body: Vec<u8>, path in ".{0,40}", value in "[ -~]{0,80}") {
        let mut raw = valid();
        raw.body = Bytes::from(body);
        raw.path_and_query = path;
        for header in raw.headers.values_mut() {
            *header = value.parse().unwrap();
        }
        prop_assert!(!is_read(&raw));
    }
}

/// Fails when a signature may be spelled in two ways.
#[test]
fn a_signature_in_upper_case_is_refused() {
    let mut raw = valid();
    let signature = raw.headers[&sign::SIGNATURE].to_str().unwrap().to_owned();
    let upper = format!("v1={}", signature.trim_start_matches("v1=").to_uppercase());
    assert_ne!(upper, signature);
    raw.headers.insert(sign::SIGNATURE, HeaderValue::from_str(&upper).unwrap());
    assert!(!is_read(&raw));
}

/// Fails when the method is left out of the signature.
#[test]
fn another_method_is_refused() {
    let mut raw = valid();
    assert!(is_read(&raw));
    raw.method = Method::PUT;
    assert!(!is_read(&raw));
}
