//! No byte of a notice can be changed without notice.

use bytes::Bytes;
use channel::generic::Reader;
use channel::{NoticeReader as _, RawNotice};
use http::{HeaderValue, Method};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::account;
use crate::vector::{Case, cases};

fn valid() -> Case {
    cases().into_iter().find(|case| case.name == "valid").unwrap()
}

fn is_read(raw: &RawNotice) -> bool {
    Reader::new(account("http://h")).read(raw, valid().now()).is_ok()
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
        let mut raw = valid().raw();
        raw.body = Bytes::from(mutated(&raw.body, &at, xor));
        prop_assert!(!is_read(&raw));
    }

    /// Fails when the path is left out of the signature: a notice could then be moved to another account's address.
    #[test]
    fn a_changed_byte_of_the_path_is_refused(at: Index, xor in 1_u8..=127) {
        let mut raw = valid().raw();
        if let Ok(path) = String::from_utf8(mutated(raw.path_and_query.as_bytes(), &at, xor)) {
            raw.path_and_query = path;
            prop_assert!(!is_read(&raw));
        }
    }

    /// Fails when time, nonce or key id are left out of the check, or when a signature may be spelled in two ways.
    #[test]
    fn a_changed_byte_of_a_header_is_refused(which: Index, at: Index, xor in 1_u8..=255) {
        let mut raw = valid().raw();
        let names: Vec<_> = raw.headers.keys().cloned().collect();
        let name = which.get(&names);
        if let Ok(value) = HeaderValue::from_bytes(&mutated(raw.headers[name].as_bytes(), &at, xor)) {
            raw.headers.insert(name.clone(), value);
            prop_assert!(!is_read(&raw));
        }
    }

    /// Fails when bytes are trimmed, or when the end of the body is not marked.
    #[test]
    fn bytes_put_before_or_behind_the_body_are_refused(more in proptest::collection::vec(any::<u8>(), 1..8), before: bool) {
        let mut raw = valid().raw();
        let parts = if before { [&more[..], &raw.body] } else { [&raw.body[..], &more] };
        raw.body = Bytes::from(parts.concat());
        prop_assert!(!is_read(&raw));
    }

    #[test]
    fn any_message_is_refused_without_panic(body: Vec<u8>, path in ".{0,40}", value in "[ -~]{0,80}") {
        let mut raw = valid().raw();
        raw.body = Bytes::from(body);
        raw.path_and_query = path;
        for header in raw.headers.values_mut() {
            *header = value.parse().unwrap();
        }
        prop_assert!(!is_read(&raw));
    }
}

/// Fails when the method is left out of the signature.
#[test]
fn another_method_is_refused() {
    let mut raw = valid().raw();
    assert!(is_read(&raw));
    raw.method = Method::PUT;
    assert!(!is_read(&raw));
}
