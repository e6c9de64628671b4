//! Gate 1, the client's side: how a client may make its idempotency key.
//!
//! Any key will do that is made once for one purchase, **stored before the first send**, and resent unchanged. This helper
//! makes one from what names the purchase, so that two programs of one client make the same key.

use sha2::{Digest, Sha256};

/// Response metadata: `true` when the answer is an earlier call's payment.
pub const REPLAYED: &str = "idempotent-replayed";
/// Response metadata: when the key was first seen, RFC 3339.
pub const FIRST_SEEN: &str = "idempotency-first-seen";
/// Response metadata: until when the key is known at least, RFC 3339. Keys of payments in process are kept longer.
pub const EXPIRES_AT: &str = "idempotency-expires-at";

/// A key for one purchase: 64 lower-case hex characters of SHA-256 over the parts, each behind its length. Plain joining
/// would give `("ab", "c")` and `("a", "bc")` one key.
///
/// `nonce` tells apart purchases that agree in all else; draw it once and store it with the key.
#[must_use]
pub fn idempotency_key(user_id: &str, order_no: &str, attempt_no: u16, nonce: &str) -> String {
    let attempt = attempt_no.to_string();
    let mut hasher = Sha256::new();
    for part in [user_id, order_no, &attempt, nonce] {
        let len = u64::try_from(part.len()).expect("a text is shorter than 2^64 bytes");
        hasher.update(len.to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_good_and_parts_never_run_together() {
        let key = idempotency_key("ab", "c", 1, "n");
        assert!(crate::validate::idempotency_key(&key).is_ok());
        assert_eq!(key, idempotency_key("ab", "c", 1, "n"));
        for other in [
            idempotency_key("a", "bc", 1, "n"),
            idempotency_key("ab", "c", 11, "n"),
            idempotency_key("ab", "c1", 1, "n"),
            idempotency_key("ab", "c", 1, ""),
        ] {
            assert_ne!(key, other);
        }
    }
}
