//! Gate 4, the idempotent log.

use idempotency::log::{self, Claim, Claimed};
use test_kit::Db;

fn claim(key: &str, hash: &[u8], result: &str) -> Claim {
    Claim { biz_key: key.to_owned(), request_hash: hash.to_vec(), result_no: result.to_owned() }
}

/// Fails when the claim is not unique: two of the transactions would be first.
#[tokio::test]
async fn of_many_concurrent_claims_of_one_key_one_is_first() {
    let db = Db::payment().await;
    let claims: Vec<_> = (0..20)
        .map(|n| {
            let pool = db.pool().clone();
            service_kit::task::spawn("claim", async move {
                let mut tx = pool.begin().await.unwrap();
                let told = log::claim_in_tx(&mut tx, &[claim("k", b"h", &n.to_string())]).await.unwrap();
                tx.commit().await.unwrap();
                told.into_iter().next().unwrap()
            })
        })
        .collect();
    let (mut first, mut seen) = (0, Vec::new());
    for told in claims {
        match told.await.unwrap().unwrap() {
            Claimed::First => first += 1,
            Claimed::Seen(row) => seen.push(row.result_no),
        }
    }
    assert_eq!((first, seen.len()), (1, 19));
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "all see the one winner: {seen:?}");
}

/// A claim whose transaction rolls back leaves the key free. Fails when the claim commits by itself.
#[tokio::test]
async fn a_claim_ends_with_its_transaction() {
    let db = Db::payment().await;
    let mut tx = db.pool().begin().await.unwrap();
    assert_eq!(log::claim_in_tx(&mut tx, &[claim("k", b"h", "1")]).await.unwrap(), [Claimed::First]);
    tx.rollback().await.unwrap();
    assert_eq!(log::find(db.pool(), "k").await.unwrap(), None);
}

/// Of equal keys in one batch the first one is first, wherever they stand. Fails when a new key makes all its claims first.
#[tokio::test]
async fn a_batch_behaves_as_its_claims_one_by_one() {
    let db = Db::payment().await;
    let mut tx = db.pool().begin().await.unwrap();
    let batch =
        [claim("b", b"1", "B1"), claim("a", b"2", "A1"), claim("b", b"3", "B2"), claim("a", b"2", "A2")];
    let told = log::claim_in_tx(&mut tx, &batch).await.unwrap();
    let results: Vec<Option<String>> = told
        .into_iter()
        .map(|claimed| match claimed {
            Claimed::First => None,
            Claimed::Seen(row) => Some(row.result_no),
        })
        .collect();
    assert_eq!(results, [None, None, Some("B1".to_owned()), Some("A1".to_owned())]);
    tx.commit().await.unwrap();
}

/// Two batches over the same keys in opposite order. Fails with a deadlock when claims are not taken in key order.
#[tokio::test]
async fn batches_over_the_same_keys_never_deadlock() {
    let db = Db::payment().await;
    for round in 0..30 {
        let keys: Vec<Claim> = (0..300).map(|n| claim(&format!("{round}-{n}"), b"h", "r")).collect();
        let reversed: Vec<Claim> = keys.iter().rev().cloned().collect();
        let run = |claims: Vec<Claim>| {
            let pool = db.pool().clone();
            service_kit::task::spawn("batch", async move {
                let mut tx = pool.begin().await.unwrap();
                log::claim_in_tx(&mut tx, &claims).await.unwrap();
                tx.commit().await.unwrap();
            })
        };
        let (a, b) = (run(keys), run(reversed));
        assert!(a.await.unwrap().is_some() && b.await.unwrap().is_some(), "round {round}");
    }
}
