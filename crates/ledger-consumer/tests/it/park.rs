//! A bad message is set aside and spoils nobody; what is not a message's fault parks nothing.

use broker::Message;
use contract::event::PaymentEvent;
use sqlx::Row as _;
use test_kit::Db;

use crate::{applier, apply, assert_books_agree, books, count, entries, fact, message, messages, paid};

/// Every kind of poison among good ones. Fails when a fault of one message fails the batch.
#[tokio::test]
async fn poison_among_good_ones_parks_only_itself() {
    let db = Db::ledger().await;
    let broken = |offset: i64, value: Option<Vec<u8>>| {
        let event = paid("M1", 900 + u32::try_from(offset).unwrap(), 5);
        Message { value, ..message(offset, &event) }
    };
    let other_header = Message { headers: Vec::new(), ..message(6, &paid("M1", 6, 5)) };
    let batch = [
        message(0, &paid("M1", 0, 5)),
        broken(1, Some(b"\x08\x01 no json".to_vec())),
        broken(2, None),
        message(3, &PaymentEvent { currency: "ABC".into(), ..paid("M1", 3, 5) }),
        message(4, &paid("M1", 4, 0)),
        message(5, &fact("COUPON_GIVEN", "M1", 5, 5)),
        other_header,
        message(7, &paid("M1", 7, 5)),
    ];
    let codes =
        ["UNDECODABLE", "UNDECODABLE", "FIELD_INVALID", "FIELD_INVALID", "UNKNOWN_KIND", "HEADER_DIFFERS"];
    assert_eq!(apply(&applier(&db), &batch).await, codes);
    assert_eq!(entries(&db).await, 2);
    assert_books_agree(&db).await;
    // Delivered again, it is kept once.
    let before = books(&db).await;
    assert_eq!(apply(&applier(&db), &batch).await, [""; 0]);
    assert_eq!(books(&db).await, before);
}

/// A parked row has all that is needed to post it later, whatever bytes the message has.
#[tokio::test]
async fn a_parked_message_is_kept_whole() {
    let db = Db::ledger().await;
    let event = paid("M1", 1, 5);
    let mut bad = message(9, &PaymentEvent { channel: "a\0b".into(), ..event.clone() });
    bad.headers.extend([("x\0".to_owned(), vec![0, 1, 255]), ("ce_id".to_owned(), b"second".to_vec())]);
    let tombstone = Message { key: None, value: None, headers: Vec::new(), ..message(10, &event) };
    apply(&applier(&db), &[bad.clone(), tombstone]).await;
    let rows =
        sqlx::query("SELECT * FROM parked_message ORDER BY offset_no").fetch_all(db.pool()).await.unwrap();
    assert_eq!(rows[0].get::<&str, _>("topic"), "t");
    assert_eq!(rows[0].get::<&str, _>("msg_key"), event.msg_key);
    assert_eq!(rows[0].get::<Option<Vec<u8>>, _>("record_key"), bad.key);
    assert_eq!(rows[0].get::<Option<Vec<u8>>, _>("value"), bad.value);
    let headers: serde_json::Value = rows[0].get("headers");
    assert_eq!(headers[4], serde_json::json!({"name_hex": "7800", "value_hex": "0001ff"}));
    assert_eq!(rows[0].get::<&str, _>("state"), "PARKED");
    assert!(rows[0].get::<&str, _>("error").starts_with("FIELD_INVALID: channel "));
    assert_eq!(rows[1].get::<Option<Vec<u8>>, _>("value"), None);
    assert_eq!(rows[1].get::<Option<Vec<u8>>, _>("record_key"), None);
    assert_eq!(rows[1].get::<Option<&str>, _>("msg_key"), None);
}

/// The database refuses one message of a batch for its own sake: here a total that is full. The batch is taken apart, the
/// culprit is parked, and its mark is not taken. Fails when a refused batch is parked or dropped whole.
#[tokio::test]
async fn a_message_that_the_database_refuses_parks_only_itself() {
    let db = Db::ledger().await;
    let full = |n| PaymentEvent { channel_account: "full".into(), ..paid("M1", n, 5) };
    apply(&applier(&db), &[message(0, &full(0))]).await;
    let fill = "UPDATE account_balance SET debit = 9223372036854775807 WHERE account_code LIKE '%:full:%'";
    sqlx::query(fill).execute(db.pool()).await.unwrap();
    let events = [paid("M2", 1, 5), full(2), paid("M2", 3, 5), paid("M2", 4, 0)];
    assert_eq!(apply(&applier(&db), &messages(&events)).await, ["REFUSED", "FIELD_INVALID"]);
    let books = books(&db).await;
    assert_eq!(books.parked[0], (1, "REFUSED: the ledger database refused it (22003)".to_owned()));
    assert_eq!(books.postings.iter().filter(|(_, code, ..)| code == "payable:M2:CNY").count(), 2);
    assert_eq!(books.marks.len(), 3, "a parked message may be posted later, so its mark must be free");
}

/// A message alone in its batch goes the same way.
#[tokio::test]
async fn a_refused_message_alone_is_parked() {
    let db = Db::ledger().await;
    apply(&applier(&db), &[message(0, &paid("M1", 0, 5))]).await;
    sqlx::query("UPDATE account_balance SET debit = 9223372036854775807").execute(db.pool()).await.unwrap();
    assert_eq!(apply(&applier(&db), &[message(1, &paid("M1", 1, 5))]).await, ["REFUSED"]);
    assert_eq!(entries(&db).await, 1);
}

/// H6: conflicts are run again from the inputs and counted against nobody. Here the first tries fail, by a trigger whose
/// count survives the rollback. Fails without the loop in `run`, and books twice if a rerun kept anything.
#[tokio::test]
async fn conflicts_are_run_again_and_park_nothing() {
    let db = Db::ledger().await;
    for (code, failures) in [("40001", 3), ("40P01", 7)] {
        fail_balances(&db, code, failures).await;
        let before = entries(&db).await;
        let events: Vec<_> = (0..5).map(|n| paid(&format!("M{code}"), n, 5)).collect();
        assert_eq!(apply(&applier(&db), &messages(&events)).await, [""; 0]);
        assert_eq!(entries(&db).await, before + 5);
        assert_eq!(count(&db, "SELECT count(*) FROM parked_message").await, 0);
    }
    assert_books_agree(&db).await;
}

/// What lasts and is no message's fault stops the batch, whole: a conflict without end, a missing grant, a server that
/// ends sessions. Nothing is parked, nothing stays, and everything is booked once it is over. Fails when such an error
/// is taken for the message's fault.
#[tokio::test]
async fn what_is_no_messages_fault_stops_and_parks_nothing() {
    let db = Db::ledger().await;
    let batch = messages(&[paid("M1", 0, 5), paid("M1", 1, 5)]);
    for code in ["40001", "53200", "57P01", "XX000", "42P01"] {
        fail_balances(&db, code, 1_000_000).await;
        let applied = applier(&db).apply(&batch).await;
        assert!(applied.stopped.is_some() && applied.done == 0 && applied.parked.is_empty(), "{code}");
        fail_balances(&db, code, 0).await;
    }
    sqlx::raw_sql("REVOKE INSERT ON entry FROM ledger_consumer").execute(db.pool()).await.unwrap();
    let applied = applier(&db).apply(&batch).await;
    assert!(applied.stopped.is_some() && applied.done == 0, "{applied:?}");
    sqlx::raw_sql("GRANT INSERT ON entry TO ledger_consumer").execute(db.pool()).await.unwrap();
    assert_eq!(entries(&db).await, 0);
    assert_eq!(count(&db, "SELECT count(*) FROM parked_message").await, 0);
    assert_eq!(apply(&applier(&db), &batch).await, [""; 0]);
    assert_eq!(entries(&db).await, 2);
}

/// A topic that was made anew counts its offsets from zero: another bad message comes to a place that is taken. It is
/// not passed over as a repeat. Fails when `ON CONFLICT DO NOTHING` is believed without a look.
#[tokio::test]
async fn another_message_at_a_parked_place_stops_the_partition() {
    let db = Db::ledger().await;
    let bad = |n| message(5, &paid("M1", n, 0));
    assert_eq!(apply(&applier(&db), &[bad(1)]).await, ["FIELD_INVALID"]);
    assert_eq!(apply(&applier(&db), &[bad(1)]).await, [""; 0]);
    let batch = [bad(2)];
    let applied = applier(&db).apply(&batch).await;
    assert!(applied.stopped.is_some() && applied.done == 0, "{applied:?}");
}

/// Makes the next `failures` statements on balances fail with this code; a sequence counts, since rollbacks leave it.
async fn fail_balances(db: &Db, code: &str, failures: u32) {
    let statement = format!(
        "DROP SEQUENCE IF EXISTS failed CASCADE; CREATE SEQUENCE failed;
         CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
         BEGIN
           IF nextval('failed') <= {failures} THEN
             RAISE EXCEPTION 'made to fail' USING ERRCODE = '{code}';
           END IF;
           RETURN NULL;
         END $$;
         DROP TRIGGER IF EXISTS tr_fail ON account_balance;
         CREATE TRIGGER tr_fail BEFORE INSERT ON account_balance FOR EACH STATEMENT EXECUTE FUNCTION fail();"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(db.pool()).await.unwrap();
}
