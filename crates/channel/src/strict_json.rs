//! JSON from outside, read strictly: a key that stands twice, bytes behind the end, text that is not UTF-8 and numbers that
//! are none are refused, at every depth. A parser that picks one of two copies would let sender and reader disagree about a
//! message that both call verified.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads one JSON object; `None` for anything else.
pub(crate) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    match value {
        Value::Object(map) => Some(map),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

/// A text field that is there.
pub(crate) fn text<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    map.get(name).and_then(Value::as_str)
}

#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated keys")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // Kept as a float, which no field of ours takes.
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(Self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(Self)?;
            if map.insert(key, value).is_some() {
                return Err(A::Error::custom("a key stands twice"));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for bad in [
            &b"{\"a\":1,\"a\":1}"[..],
            b"{\"a\":{\"b\":1,\"b\":2}}",
            b"{\"a\":[{\"b\":1,\"\\u0062\":2}]}",
            b"{\"a\":1}x",
            b"{\"a\":1}{}",
            b"{\"a\":NaN}",
            b"{\"a\":Infinity}",
            b"{\"a\":01}",
            b"{\"a\":\"\xff\"}",
            b"\xef\xbb\xbf{}",
            b"[]",
            b"null",
            b"",
            b"{\"a\":1,}",
        ] {
            assert!(object(bad).is_none(), "{}", String::from_utf8_lossy(bad));
        }
        assert!(object("[".repeat(100_000).as_bytes()).is_none());
        assert_eq!(object(b" {\"a\":[1,\"b\",null,true,{}]}\n").unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_panic(bytes: Vec<u8>) {
            let _ = object(&bytes);
        }
    }
}
