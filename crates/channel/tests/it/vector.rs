//! The published vectors of the generic channel, made apart from this code.

use bytes::Bytes;
use channel::generic::Reader;
use channel::{Fact, NoticeReader as _, NoticeReason, RawNotice};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;
use time::OffsetDateTime;

use crate::support::account;

#[derive(Debug, Deserialize)]
struct File {
    secrets: std::collections::BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    path: String,
    headers: std::collections::BTreeMap<String, String>,
    body: String,
    now: i64,
    expect: String,
}

impl Case {
    pub(crate) fn raw(&self) -> RawNotice {
        let headers: HeaderMap = self
            .headers
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
            .collect();
        let body = Bytes::from(self.body.clone());
        RawNotice { method: Method::POST, path_and_query: self.path.clone(), headers, body }
    }

    pub(crate) fn now(&self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(self.now).unwrap()
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let file: File = serde_json::from_str(include_str!("../fixtures/generic_notifications.json")).unwrap();
    for (key_id, secret) in &file.secrets {
        assert_eq!(
            account("http://h").key(key_id).unwrap().secret().expose(),
            secret,
            "the account is theirs"
        );
    }
    file.cases
}

/// The signature is what the channel's definition says, key by key and case by case. Fails when the signed bytes, the
/// window or the choice of the key change: leave the nonce out of `sign::mac`, or let `verify` try every key.
#[test]
fn the_published_vectors_are_read_as_published() {
    let reader = Reader::new(account("http://h"));
    let mut seen = 0;
    for case in cases() {
        let read = reader.read(&case.raw(), case.now());
        let expected = match case.expect.as_str() {
            "valid" => None,
            "invalid" => Some(NoticeReason::SignatureInvalid),
            "invalid: stale" | "invalid: future" => Some(NoticeReason::TimestampOutsideWindow),
            other => panic!("a new expectation in the vectors: {other}"),
        };
        match (&read, expected) {
            (Ok(notice), None) => {
                assert_eq!(
                    (notice.fact, notice.notify_id.as_str()),
                    (Fact::PaySucceeded, "G-1"),
                    "{}",
                    case.name
                );
            }
            (Err(error), Some(reason)) => assert_eq!(error.reason, reason, "{}", case.name),
            _ => panic!("{}: {read:?}, expected {expected:?}", case.name),
        }
        seen += 1;
    }
    assert_eq!(seen, 6);
}

/// The window is 300 s both ways, its edges inside. Fails when `WINDOW_S_MAX` moves or one side is not checked.
#[test]
fn the_window_ends_after_300_seconds_on_both_sides() {
    let reader = Reader::new(account("http://h"));
    let case = cases().into_iter().find(|case| case.name == "valid").unwrap();
    for (offset, inside) in [(-301, false), (-300, true), (0, true), (300, true), (301, false)] {
        let read = reader.read(&case.raw(), case.now() + time::Duration::seconds(offset));
        match read {
            Ok(_) => assert!(inside, "{offset}"),
            Err(error) => {
                assert!(!inside, "{offset}: {error}");
                assert_eq!(error.reason, NoticeReason::TimestampOutsideWindow);
            }
        }
    }
}
