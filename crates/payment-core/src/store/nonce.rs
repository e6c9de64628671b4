//! Table `notice_nonce`: the replay guard of channels that sign a nonce.

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

/// The nonce of one notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewNonce {
    pub(crate) channel: String,
    pub(crate) channel_account: String,
    pub(crate) key_id: String,
    pub(crate) nonce: String,
    pub(crate) notify_id: String,
    pub(crate) body_sha256: Vec<u8>,
}

/// Remembers nonces. Gives, in the order of the input, whether each may pass: it is new, or it is the same notice again.
pub(crate) async fn admit_in_tx(
    tx: &mut PgConnection,
    nonces: &[NewNonce],
    now: OffsetDateTime,
) -> Result<Vec<bool>, sqlx::Error> {
    if nonces.is_empty() {
        return Ok(Vec::new());
    }
    let mut order: Vec<&NewNonce> = nonces.iter().collect();
    order.sort_by_key(|n| (&n.channel, &n.channel_account, &n.key_id, &n.nonce));
    let column = |rows: &[&NewNonce], text: fn(&NewNonce) -> &str| -> Vec<String> {
        rows.iter().map(|n| text(n).to_owned()).collect()
    };
    sqlx::query!(
        "INSERT INTO notice_nonce (channel, channel_account, key_id, nonce, notify_id, body_sha256, seen_at)
         SELECT *, $7 FROM UNNEST($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::BYTEA[])
         ON CONFLICT DO NOTHING",
        &column(&order, |n| &n.channel),
        &column(&order, |n| &n.channel_account),
        &column(&order, |n| &n.key_id),
        &column(&order, |n| &n.nonce),
        &column(&order, |n| &n.notify_id),
        &order.iter().map(|n| n.body_sha256.clone()).collect::<Vec<_>>(),
        now
    )
    .execute(&mut *tx)
    .await?;
    let input: Vec<&NewNonce> = nonces.iter().collect();
    let same = sqlx::query_scalar!(
        "SELECT (s.notify_id = w.notify_id AND s.body_sha256 = w.body_sha256) AS \"same!\"
         FROM UNNEST($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::BYTEA[]) WITH ORDINALITY
              AS w (channel, channel_account, key_id, nonce, notify_id, body_sha256, place)
         JOIN notice_nonce s ON s.channel = w.channel AND s.channel_account = w.channel_account
                            AND s.key_id = w.key_id AND s.nonce = w.nonce
         ORDER BY w.place",
        &column(&input, |n| &n.channel),
        &column(&input, |n| &n.channel_account),
        &column(&input, |n| &n.key_id),
        &column(&input, |n| &n.nonce),
        &column(&input, |n| &n.notify_id),
        &input.iter().map(|n| n.body_sha256.clone()).collect::<Vec<_>>(),
    )
    .fetch_all(tx)
    .await?;
    // A row that vanished between the two statements (the purge) ends the transaction; it is run again.
    if same.len() == nonces.len() { Ok(same) } else { Err(sqlx::Error::RowNotFound) }
}

/// Forgets nonces seen before `before`, at most `rows_max`.
pub(crate) async fn purge(pool: &PgPool, before: OffsetDateTime, rows_max: i64) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "DELETE FROM notice_nonce WHERE ctid IN (SELECT ctid FROM notice_nonce WHERE seen_at < $1 LIMIT $2)",
        before,
        rows_max
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}
