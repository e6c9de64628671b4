//! Forms as the channel reads them: `metadata[pay_no]=P1&expand[]=latest_charge`, percent-encoded. The same fields in the same
//! order are the same bytes, so that a repeated call is the same call.

use std::fmt::Write as _;

/// Fields in the order in which they were put.
#[derive(Debug, Clone, Default)]
pub(super) struct Form(String);

impl Form {
    /// Adds a field. `path` is its name and what stands in brackets behind it; an empty one is the next place of a list.
    pub(super) fn put(mut self, path: &[&str], value: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        for (depth, name) in path.iter().enumerate() {
            if depth > 0 {
                self.0.push_str("%5B");
            }
            encode(&mut self.0, name);
            if depth > 0 {
                self.0.push_str("%5D");
            }
        }
        self.0.push('=');
        encode(&mut self.0, value);
        self
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Everything but the unreserved characters of RFC 3986, which mean themselves in any reading of forms.
fn encode(into: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            into.push(char::from(byte));
        } else {
            write!(into, "%{byte:02X}").expect("text takes all that is written into it");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_stand_in_brackets_and_values_are_encoded() {
        let text = Form::default()
            .put(&["amount"], "1099")
            .put(&["line_items", "0", "price_data", "currency"], "usd")
            .put(&["metadata", "pay_no"], "a b+c&d=e[f]茶")
            .put(&["expand", ""], "latest_charge")
            .into_text();
        assert_eq!(
            text,
            "amount=1099&line_items%5B0%5D%5Bprice_data%5D%5Bcurrency%5D=usd\
             &metadata%5Bpay_no%5D=a%20b%2Bc%26d%3De%5Bf%5D%E8%8C%B6&expand%5B%5D=latest_charge"
        );
        assert_eq!(Form::default().into_text(), "");
    }

    proptest! {
        /// No value can become a field of its own.
        #[test]
        fn a_value_stays_one_value(value in ".{0,40}") {
            let text = Form::default().put(&["a"], &value).put(&["b"], "1").into_text();
            prop_assert_eq!(text.split('&').count(), 2);
            prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()));
        }
    }
}
