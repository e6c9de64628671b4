//! Signed texts: sorted `name=value`, joined with `&`, over values that were decoded once. RSA2, which is RSA PKCS#1 v1.5 with
//! SHA-256, and nothing else: what a message says about its algorithm stands outside its signature.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use crate::rsa::{PrivateKey, PublicKey};

/// One parameter, decoded, in the bytes that were sent.
pub(super) type Parameter = (Vec<u8>, Vec<u8>);

/// The text that is signed: all parameters but those named, sorted by name, byte by byte.
pub(super) fn canonical(parameters: &[Parameter], without: &[&str], keep_empty: bool) -> Vec<u8> {
    let mut kept: Vec<&Parameter> = parameters
        .iter()
        .filter(|(name, value)| {
            !without.iter().any(|left_out| left_out.as_bytes() == name) && (keep_empty || !value.is_empty())
        })
        .collect();
    kept.sort();
    let parts: Vec<Vec<u8>> =
        kept.iter().map(|(name, value)| [name.as_slice(), b"=", value.as_slice()].concat()).collect();
    parts.join(&b'&')
}

/// Signs a request: `sign_type` stays in, empty values go.
pub(super) fn request(key: &PrivateKey, parameters: &[Parameter]) -> String {
    STANDARD.encode(key.sign(&canonical(parameters, &["sign"], false)))
}

/// Which of the channel's keys verifies, by its place in the channels file.
pub(super) fn verifying(keys: &[PublicKey], message: &[u8], signature: &str) -> Option<usize> {
    let signature = STANDARD.decode(signature).ok()?;
    keys.iter().position(|key| key.verify(message, &signature))
}

/// The node of an answer, exactly as it was sent, and whether its signature verifies.
pub(super) fn node<'a>(keys: &[PublicKey], body: &'a str, method: &str) -> Option<(&'a str, bool)> {
    let parts: HashMap<&str, &RawValue> = serde_json::from_str(body).ok()?;
    let name = format!("{}_response", method.replace('.', "_"));
    let node = parts.get(name.as_str()).or_else(|| parts.get("error_response"))?.get();
    let signature: Option<String> = parts.get("sign").and_then(|text| serde_json::from_str(text.get()).ok());
    let verified = signature.is_some_and(|signature| {
        let verifies = |text: &str| verifying(keys, text.as_bytes(), &signature).is_some();
        // Some gateways sign before they escape slashes.
        verifies(node) || (node.contains("\\/") && verifies(&node.replace("\\/", "/")))
    });
    Some((node, verified))
}

/// Splits a form body into its parameters, each decoded once, on bytes. `None`: it is no form, or a name is there twice.
pub(super) fn parameters(body: &[u8]) -> Option<Vec<Parameter>> {
    let mut read: Vec<Parameter> = Vec::new();
    for pair in body.split(|b| *b == b'&').filter(|pair| !pair.is_empty()) {
        // Signatures end in '=', so only the first one parts.
        let at = pair.iter().position(|b| *b == b'=')?;
        let (name, value) = pair.split_at_checked(at)?;
        let (name, value) = (decoded(name)?, decoded(value.get(1..)?)?);
        if read.iter().any(|(known, _)| *known == name) {
            return None;
        }
        read.push((name, value));
    }
    Some(read)
}

/// Form decoding, once: `+` is a blank, `%XX` a byte. Nothing is trimmed.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let pair = [*rest.next()?, *rest.next()?];
                let mut byte = [0_u8];
                hex::decode_to_slice(pair, &mut byte).ok()?;
                let [byte] = byte;
                byte
            }
            other => *other,
        });
    }
    Some(bytes)
}

/// Form encoding of one value.
pub(super) fn encoded(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_decoded_once_and_a_name_that_comes_twice_is_none() {
        let read = parameters(b"b=%E4%BC%9A%2B+x&a=1%3D%3D&e=").unwrap();
        assert_eq!(canonical(&read, &[], true), "a=1==&b=会+ x&e=".as_bytes());
        assert_eq!(canonical(&read, &["a"], false), "b=会+ x".as_bytes());
        for bad in ["a=1&a=1", "a", "a=%2", "a=%zz"] {
            assert!(parameters(bad.as_bytes()).is_none(), "{bad}");
        }
        assert_eq!(parameters(encoded("a=b".as_bytes()).as_bytes()), None, "an encoded '=' parts nothing");
    }
}
