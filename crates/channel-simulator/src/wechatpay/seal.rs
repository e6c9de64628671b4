//! AES-256-GCM as notices and certificates are sealed with it.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::Rng as _;
use rand::distr::Alphanumeric;
use serde_json::{Value, json};

use crate::wechatpay::Side;

/// A text sealed for the account, as it stands in JSON.
pub(super) fn sealed(side: &Side, associated_data: &str, plain: &[u8]) -> Value {
    let nonce: Vec<u8> = rand::rng().sample_iter(Alphanumeric).take(12).collect();
    let key = UnboundKey::new(&AES_256_GCM, side.api_v3_key.expose().as_bytes())
        .expect("a key of another length is refused when it is read");
    let mut text = plain.to_vec();
    LessSafeKey::new(key)
        .seal_in_place_append_tag(
            Nonce::try_assume_unique_for_key(&nonce).expect("a nonce has twelve bytes"),
            Aad::from(associated_data.as_bytes()),
            &mut text,
        )
        .expect("AES-GCM seals every text of this size");
    json!({
        "algorithm": "AEAD_AES_256_GCM",
        "associated_data": associated_data,
        "nonce": String::from_utf8_lossy(&nonce),
        "ciphertext": STANDARD.encode(text),
    })
}
