//! AES-256-GCM, as the channel seals the `resource` of notices and its certificates: ciphertext followed by the tag of 16
//! bytes, in base64, under the account's API v3 key.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::strict_json;

/// The only algorithm; another one in a message is a message that we do not understand.
const ALGORITHM: &str = "AEAD_AES_256_GCM";

/// The account's API v3 key, ready for use.
pub(super) struct Key(LessSafeKey);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// `None` unless there are 32 bytes: 16 would be AES-128, which old examples show and the channel does not use.
    pub(super) fn try_new(bytes: &[u8]) -> Option<Self> {
        UnboundKey::new(&AES_256_GCM, bytes).ok().map(|key| Self(LessSafeKey::new(key)))
    }

    /// Opens `{algorithm, nonce, associated_data?, ciphertext}`. `None` for whatever does not open, the tag above all; which
    /// part was wrong is nobody's business.
    pub(super) fn open(&self, sealed: &Map<String, Value>) -> Option<Vec<u8>> {
        if strict_json::text(sealed, "algorithm") != Some(ALGORITHM) {
            return None;
        }
        // Empty, null and missing are the same to the channel.
        let associated_data = match sealed.get("associated_data") {
            None | Some(Value::Null) => "",
            Some(value) => value.as_str()?,
        };
        let nonce: [u8; NONCE_LEN] = strict_json::text(sealed, "nonce")?.as_bytes().try_into().ok()?;
        let mut bytes = STANDARD.decode(strict_json::text(sealed, "ciphertext")?).ok()?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let plain =
            self.0.open_in_place(nonce, Aad::from(associated_data.as_bytes()), &mut bytes).ok()?.len();
        bytes.truncate(plain);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &[u8; 32] = b"throwaway-apiv3-key-for-tests-01";

    fn sealed() -> Map<String, Value> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, KEY).unwrap());
        let mut bytes = b"{\"a\":1}".to_vec();
        let nonce = Nonce::assume_unique_for_key(*b"0123456789ab");
        key.seal_in_place_append_tag(nonce, Aad::from(b"transaction"), &mut bytes).unwrap();
        let value = json!({
            "algorithm": "AEAD_AES_256_GCM",
            "nonce": "0123456789ab",
            "associated_data": "transaction",
            "ciphertext": STANDARD.encode(bytes),
        });
        value.as_object().unwrap().clone()
    }

    #[test]
    fn what_was_sealed_opens_and_nothing_else_does() {
        let key = Key::try_new(KEY).unwrap();
        assert_eq!(key.open(&sealed()).unwrap(), b"{\"a\":1}");
        assert!(Key::try_new(b"throwaway-apiv3-key-for-tests-02").unwrap().open(&sealed()).is_none());
        let ciphertext = sealed()["ciphertext"].as_str().unwrap().to_owned();
        for (field, value) in [
            ("algorithm", json!("AEAD_AES_128_GCM")),
            ("nonce", json!("0123456789ac")),
            ("nonce", json!("0123456789abc")),
            ("nonce", json!("")),
            ("nonce", json!("支付支付")),
            ("associated_data", json!("refund")),
            ("associated_data", json!("")),
            ("associated_data", Value::Null),
            ("associated_data", json!(7)),
            ("ciphertext", json!("")),
            ("ciphertext", json!("AAAA")),
            ("ciphertext", json!("%%%%")),
            ("ciphertext", json!(ciphertext.replacen(&ciphertext[..1], "/", 1))),
            ("ciphertext", json!([])),
        ] {
            let mut changed = sealed();
            changed.insert(field.to_owned(), value.clone());
            assert!(key.open(&changed).is_none(), "{field}: {value}");
            changed.remove(field);
            assert!(key.open(&changed).is_none(), "{field} missing");
        }
    }

    #[test]
    fn only_32_bytes_are_a_key_and_none_is_printed() {
        for len in [0, 16, 24, 31, 33] {
            assert!(Key::try_new(&vec![b'k'; len]).is_none(), "{len}");
        }
        assert_eq!(format!("{:?}", Key::try_new(KEY).unwrap()), "Key(…)");
    }
}
