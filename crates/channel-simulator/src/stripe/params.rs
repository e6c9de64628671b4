//! Form parameters with brackets, as Stripe's clients send them in bodies and queries.

use std::collections::BTreeMap;

/// Decoded parameters in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    pub(super) fn read(text: &[u8]) -> Self {
        let pairs = text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        Self(pairs.map(crate::form::pair).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A whole number; `Err` when it is there and is none.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, ()> {
        self.get(name).map(|text| text.parse::<i64>().map_err(|_| ())).transpose()
    }

    /// What stands under `name[…]`, one level deep.
    pub(super) fn map(&self, name: &str) -> BTreeMap<String, String> {
        let inside = |key: &str| {
            let key = key.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')?;
            (!key.contains(['[', ']'])).then(|| key.to_owned())
        };
        self.0.iter().filter_map(|(key, value)| Some((inside(key)?, value.clone()))).collect()
    }

    /// Whether a list such as `expand[]` has this entry.
    pub(super) fn list_has(&self, name: &str, entry: &str) -> bool {
        let in_list = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('['));
        self.0.iter().any(|(key, value)| in_list(key) && value == entry)
    }

    /// The same for the same parameters in any order.
    pub(super) fn fingerprint(&self) -> String {
        let mut sorted = self.0.clone();
        sorted.sort();
        format!("{sorted:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_read_one_level_deep() {
        let params = Params::read(
            b"amount=5&metadata%5Bpay_no%5D=P1&metadata[a][b]=2&expand[]=latest_charge&expand[0]=x",
        );
        assert_eq!(params.number("amount"), Ok(Some(5)));
        assert_eq!(params.map("metadata"), BTreeMap::from([("pay_no".to_owned(), "P1".to_owned())]));
        assert!(params.list_has("expand", "latest_charge") && params.list_has("expand", "x"));
    }
}
