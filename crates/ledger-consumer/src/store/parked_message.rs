//! Messages that were set aside, with everything that is needed to post them later.

use std::collections::HashMap;

use broker::Message;
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::park::Cause;

/// Why messages could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the ledger database refused to keep a parked message or could not be asked")]
    Store(#[from] sqlx::Error),
    /// The topic was made anew and counts from zero again. A person must move the old row away; until then nothing of
    /// this partition is passed over.
    #[error("another message is parked as {topic}[{partition}]@{offset}: was the topic made anew?")]
    PlaceTaken { topic: String, partition: i32, offset: i64 },
}

/// Keeps messages of one partition; `true` for each that was not kept before, in their order. Delivered again, a message
/// is kept once.
///
/// # Errors
/// [`Error`].
pub async fn insert_in_tx(
    tx: &mut PgConnection,
    topic: &str,
    partition: i32,
    parked: &[(&Message, &Cause)],
) -> Result<Vec<bool>, Error> {
    let offsets: Vec<i64> = parked.iter().map(|(message, _)| message.offset).collect();
    let msg_keys: Vec<String> = parked.iter().map(|(message, _)| msg_key(message)).collect();
    let has_key: Vec<bool> = parked.iter().map(|(message, _)| message.key.is_some()).collect();
    let keys: Vec<Vec<u8>> = parked.iter().map(|(m, _)| m.key.clone().unwrap_or_default()).collect();
    let has_value: Vec<bool> = parked.iter().map(|(message, _)| message.value.is_some()).collect();
    let values: Vec<Vec<u8>> = parked.iter().map(|(m, _)| m.value.clone().unwrap_or_default()).collect();
    let headers: Vec<Value> = parked.iter().map(|(message, _)| headers(message)).collect();
    let errors: Vec<String> = parked.iter().map(|(_, cause)| cause.to_string()).collect();
    let new = sqlx::query_scalar!(
        "INSERT INTO parked_message (topic, partition_no, offset_no, msg_key, record_key, headers, value, error)
         SELECT $1, $2, p.offset_no, NULLIF(p.msg_key, ''), CASE WHEN p.has_key THEN p.key END, p.headers,
                CASE WHEN p.has_value THEN p.value END, p.error
         FROM UNNEST($3::BIGINT[], $4::TEXT[], $5::BOOLEAN[], $6::BYTEA[], $7::JSONB[], $8::BOOLEAN[], $9::BYTEA[], $10::TEXT[])
           AS p (offset_no, msg_key, has_key, key, headers, has_value, value, error)
         ORDER BY p.offset_no
         ON CONFLICT (topic, partition_no, offset_no) DO NOTHING
         RETURNING offset_no",
        topic,
        partition,
        &offsets,
        &msg_keys,
        &has_key,
        &keys,
        &headers,
        &has_value,
        &values,
        &errors
    )
    .fetch_all(&mut *tx)
    .await?;
    if new.len() < parked.len() {
        let old: Vec<_> = parked.iter().filter(|(m, _)| !new.contains(&m.offset)).map(|(m, _)| *m).collect();
        check_same(tx, topic, partition, &old).await?;
    }
    Ok(offsets.iter().map(|offset| new.contains(offset)).collect())
}

/// A place that is taken must hold the same message.
async fn check_same(
    tx: &mut PgConnection,
    topic: &str,
    partition: i32,
    messages: &[&Message],
) -> Result<(), Error> {
    let offsets: Vec<i64> = messages.iter().map(|message| message.offset).collect();
    let rows = sqlx::query!(
        "SELECT offset_no, value FROM parked_message
         WHERE topic = $1 AND partition_no = $2 AND offset_no = ANY($3)",
        topic,
        partition,
        &offsets
    )
    .fetch_all(tx)
    .await?;
    let kept: HashMap<i64, Option<Vec<u8>>> =
        rows.into_iter().map(|row| (row.offset_no, row.value)).collect();
    match messages.iter().find(|message| kept.get(&message.offset) != Some(&message.value)) {
        None => Ok(()),
        Some(other) => Err(Error::PlaceTaken { topic: topic.to_owned(), partition, offset: other.offset }),
    }
}

/// The key as the header tells it, for people who search; empty where it cannot be one.
fn msg_key(message: &Message) -> String {
    let text = message.header(contract::event::header::ID);
    text.filter(|text| text.parse::<ledger::MsgKey>().is_ok()).unwrap_or_default().to_owned()
}

/// Headers in order, readable where they are text, and complete in any case: `JSONB` takes no NUL, so whatever is not
/// plain text goes in as hexadecimal digits.
fn headers(message: &Message) -> Value {
    let plain = |bytes: &[u8]| {
        std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control)).map(str::to_owned)
    };
    let write = |bytes: &[u8], text: &str, hex: &str| match plain(bytes) {
        Some(plain) => (text.to_owned(), Value::from(plain)),
        None => (hex.to_owned(), Value::from(to_hex(bytes))),
    };
    let one = |(name, value): &(String, Vec<u8>)| {
        let name = write(name.as_bytes(), "name", "name_hex");
        let value = write(value, "value", "value_hex");
        Value::Object([name, value].into_iter().collect())
    };
    json!(message.headers.iter().map(one).collect::<Vec<_>>())
}

fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_kept_whole_whatever_they_hold() {
        let message = Message {
            topic: "t".into(),
            partition: 0,
            offset: 0,
            key: None,
            value: None,
            headers: vec![
                ("ce_id".into(), b"K".to_vec()),
                ("ce_id".into(), vec![0, 255]),
                ("a\0".into(), Vec::new()),
            ],
            timestamp_ms: None,
        };
        let wanted = json!([
            {"name": "ce_id", "value": "K"},
            {"name": "ce_id", "value_hex": "00ff"},
            {"name_hex": "6100", "value": ""},
        ]);
        assert_eq!(headers(&message), wanted);
    }
}
