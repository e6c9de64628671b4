//! Headers from outside.

use http::{HeaderMap, HeaderName};

/// The value of a header that is there exactly once: of two copies a proxy may show the one and we read the other.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}
