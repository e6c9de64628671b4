//! Crockford base 32, upper case, the alphabet of ULID.

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The character for the lowest five bits of `value`.
pub(crate) fn digit(value: u128) -> char {
    let index = usize::try_from(value & 31).expect("five bits fit");
    char::from(*ALPHABET.get(index).expect("five bits index 32 characters"))
}

/// The value of an upper-case text of at most 26 characters; `None` for any other character.
pub(crate) fn decode(text: &str) -> Option<u128> {
    if text.is_empty() || text.len() > 26 {
        return None;
    }
    text.bytes().try_fold(0_u128, |value, byte| {
        let digit = ALPHABET.iter().position(|c| *c == byte)?;
        value.checked_mul(32)?.checked_add(u128::try_from(digit).ok()?)
    })
}

/// `value` in exactly `len` characters, highest first.
pub(crate) fn encode(value: u128, len: u32) -> String {
    (0..len).rev().map(|place| digit(value.checked_shr(place.saturating_mul(5)).unwrap_or(0))).collect()
}
