//! Form encoding on bytes: decoded once, and nothing trimmed.

/// One `name=value`, decoded; what is not UTF-8 becomes the replacement character.
pub(crate) fn pair(pair: &[u8]) -> (String, String) {
    let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
        Some(place) => (pair.get(..place), pair.get(place.saturating_add(1)..)),
        None => (Some(pair), None),
    };
    let text = |part: Option<&[u8]>| String::from_utf8_lossy(&decoded(part.unwrap_or_default())).into_owned();
    (text(name), text(value))
}

/// `+` is a blank, and `%XX` a byte.
pub(crate) fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = escaped.filter(|_| *first == b'%').and_then(|d| u8::from_str_radix(d, 16).ok());
        match (first, escaped) {
            (_, Some(byte)) => {
                out.push(byte);
                rest = after.get(2..).unwrap_or_default();
                continue;
            }
            (b'+', None) => out.push(b' '),
            (other, None) => out.push(*other),
        }
        rest = after;
    }
    out
}

/// Everything but letters, digits and `-._~*` becomes `%XX`; a blank becomes `+`.
pub(crate) fn encoded(text: &[u8]) -> String {
    text.iter().fold(String::with_capacity(text.len()), |mut out, byte| {
        match *byte {
            b' ' => out.push('+'),
            byte @ (b'-' | b'.' | b'_' | b'~' | b'*') => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_once_and_split_at_the_first_sign() {
        assert_eq!(pair(b"sign=a%2Bb=="), ("sign".to_owned(), "a+b==".to_owned()));
        assert_eq!(pair(b"a+b=%252B%"), ("a b".to_owned(), "%2B%".to_owned()));
        assert_eq!(pair(b"empty"), ("empty".to_owned(), String::new()));
        for text in ["茶 + 100%", "a&b=c"] {
            assert_eq!(decoded(encoded(text.as_bytes()).as_bytes()), text.as_bytes());
        }
    }
}
