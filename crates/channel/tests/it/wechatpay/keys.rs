//! Which key verifies what, and when keys are fetched.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use channel::{Accounts, ClientSettings, NoticeReader as _, NoticeReason, RawNotice, clients, readers};
use pay_types::ChannelCode;
use service_kit::Clock;
use time::OffsetDateTime;

use super::support::{CERTIFICATE, Far, NEXT, PUBLIC_KEY, Pair, Reply, Table, adapter, notice, transaction};
use crate::call::pay_no;

fn now() -> OffsetDateTime {
    Clock::system().now()
}

fn paid(pair: &Pair, nonce: &str) -> RawNotice {
    notice(pair, now(), nonce, "TRANSACTION.SUCCESS", &transaction(pay_no().as_str()))
}

fn nothing() -> Reply {
    Reply::Unsigned(500, String::new())
}

/// Polls until the channel's side has heard `count` requests for certificates, and a little for one too many.
async fn asked(far: &Far, count: usize) {
    for _ in 0..200 {
        if far.certificates_asked.load(Ordering::SeqCst) >= count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(far.certificates_asked.load(Ordering::SeqCst), count);
}

/// While a merchant moves from one kind of key to the other, and while the channel changes certificates, each message is
/// verified by the key that it names. Fails when the newest key, or only one kind, is used.
#[tokio::test]
async fn all_keys_of_an_account_are_valid_at_once() {
    let account = Table::new("http://h", vec![&CERTIFICATE, &NEXT], vec![&PUBLIC_KEY]).account();
    let (_, reader) = adapter(&account, &Clock::system());
    for pair in [&*CERTIFICATE, &*NEXT, &*PUBLIC_KEY] {
        let read = reader.read(&paid(pair, "n1"), now()).unwrap();
        assert_eq!(read.key_id.trim_start_matches('0'), pair.id.trim_start_matches('0'));
        let mut renamed = paid(pair, "n1");
        for other in [&*CERTIFICATE, &*NEXT, &*PUBLIC_KEY].into_iter().filter(|other| other.id != pair.id) {
            renamed.headers.insert("wechatpay-serial", other.id.parse().unwrap());
            assert_eq!(reader.read(&renamed, now()).unwrap_err().reason, NoticeReason::SignatureInvalid);
        }
    }
    let mut lower = paid(&NEXT, "n1");
    lower.headers.insert("wechatpay-serial", NEXT.id.trim_start_matches('0').to_lowercase().parse().unwrap());
    assert!(reader.read(&lower, now()).is_ok(), "serials are compared as numbers");
}

/// A hundred notices by a certificate that we do not have are one request for it, and none for a while after. Fails without
/// the single flight or without the pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_unknown_serial_causes_one_refresh_not_one_for_each_request() {
    let far = Far::start(nothing()).await;
    let account = Table::new(&far.base_url, vec![&CERTIFICATE], vec![]).account();
    let reader = Arc::new(adapter(&account, &Clock::system()).1);
    let unknown = Pair::with_certificate("7157F09EFDC096DE15EBE81A47057A7200000003", 2090);
    let raw = Arc::new(paid(&unknown, "n1"));
    let all = |raw: &Arc<RawNotice>| {
        let reads: Vec<_> = (0..100)
            .map(|_| {
                let (reader, raw) = (Arc::clone(&reader), Arc::clone(raw));
                service_kit::task::spawn(
                    "notice",
                    async move { reader.read(&raw, now()).unwrap_err().reason },
                )
            })
            .collect();
        futures::future::join_all(reads)
    };
    for reason in all(&raw).await {
        assert_eq!(reason.unwrap().unwrap(), NoticeReason::KeyUnknown);
    }
    asked(&far, 1).await;
    // It brought the other new certificate, which is verified from now on; the unknown serial asks no more.
    assert!(eventually(&reader, &paid(&NEXT, "n2")).await);
    for reason in all(&raw).await {
        assert_eq!(reason.unwrap().unwrap(), NoticeReason::KeyUnknown);
    }
    asked(&far, 1).await;
}

async fn eventually(reader: &channel::wechatpay::Reader, raw: &RawNotice) -> bool {
    for _ in 0..200 {
        if reader.read(raw, now()).is_ok() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

/// An account that has public keys only is answered with an error when it asks for certificates; so it never asks. A serial
/// that is no certificate's never asks either.
#[tokio::test]
async fn what_can_bring_no_certificate_asks_for_none() {
    let far = Far::start(nothing()).await;
    let account = Table::new(&far.base_url, vec![], vec![&PUBLIC_KEY]).account();
    let (_, reader) = adapter(&account, &Clock::system());
    assert_eq!(reader.read(&paid(&CERTIFICATE, "n1"), now()).unwrap_err().reason, NoticeReason::KeyUnknown);

    let account = Table::new(&far.base_url, vec![&CERTIFICATE], vec![]).account();
    let (_, reader) = adapter(&account, &Clock::system());
    assert_eq!(reader.read(&paid(&PUBLIC_KEY, "n1"), now()).unwrap_err().reason, NoticeReason::KeyUnknown);
    for serial in ["not hex", "", "PUB_KEY_ID_1", &"F".repeat(100)] {
        let mut raw = paid(&CERTIFICATE, "n1");
        raw.headers.insert("wechatpay-serial", serial.parse().unwrap());
        assert_eq!(reader.read(&raw, now()).unwrap_err().reason, NoticeReason::KeyUnknown, "{serial}");
    }
    let mut probe = paid(&NEXT, "n1");
    probe.headers.insert("wechatpay-signature", "WECHATPAY/SIGNTEST/AAAA".parse().unwrap());
    assert_eq!(reader.read(&probe, now()).unwrap_err().reason, NoticeReason::SignatureInvalid);
    tokio::time::sleep(Duration::from_millis(200)).await;
    asked(&far, 0).await;
}

/// An account begins with no key of the channel's at all: the first notice fetches them.
#[tokio::test]
async fn an_account_without_keys_fetches_them() {
    let far = Far::start(nothing()).await;
    let account = Table::new(&far.base_url, vec![], vec![]).account();
    let (_, reader) = adapter(&account, &Clock::system());
    assert!(eventually(&reader, &paid(&NEXT, "n1")).await);
    assert!(reader.read(&paid(&CERTIFICATE, "n1"), now()).is_ok());
    asked(&far, 1).await;
}

/// Certificates are believed when the answer that brings them is signed by a key that we had, or by one of them. Fails when
/// `vouch` is left out.
#[tokio::test]
async fn certificates_are_not_taken_from_an_answer_of_someone_else() {
    let far = Far::start(nothing()).await;
    far.certificates.lock().unwrap().1 = &PUBLIC_KEY;
    let account = Table::new(&far.base_url, vec![&CERTIFICATE], vec![]).account();
    let (_, reader) = adapter(&account, &Clock::system());
    assert!(reader.read(&paid(&NEXT, "n1"), now()).is_err());
    asked(&far, 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(reader.read(&paid(&NEXT, "n1"), now()).unwrap_err().reason, NoticeReason::KeyUnknown);
}

/// Fails when the end of a certificate is not looked at.
#[tokio::test]
async fn an_expired_certificate_verifies_nothing() {
    let old = Pair::with_certificate("4157F09EFDC096DE15EBE81A47057A7200000004", 2020);
    let account = Table::new("http://127.0.0.1:1", vec![&old, &CERTIFICATE], vec![]).account();
    let (_, reader) = adapter(&account, &Clock::system());
    assert_eq!(reader.read(&paid(&old, "n1"), now()).unwrap_err().reason, NoticeReason::KeyUnknown);
    assert!(reader.read(&paid(&CERTIFICATE, "n1"), now()).is_ok());
}

/// A thousand notices for two accounts that know different keys *by the same serial*, mixed over threads: each is verified
/// by its own account's key, and by the other account's never. Fails when keys are found by serial alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn interleaved_notices_of_two_accounts_never_use_the_wrong_key() {
    let serial = "5157F09EFDC096DE15EBE81A47057A72000000AA";
    let pairs = [Pair::with_certificate(serial, 2090), Pair::with_certificate(serial, 2090)];
    let tables: String = ["one", "two"]
        .iter()
        .zip(&pairs)
        .map(|(name, pair)| Table { name, ..Table::new("http://127.0.0.1:1", vec![pair], vec![]) }.toml())
        .collect();
    let accounts = Accounts::parse(&tables).unwrap();
    let readers = Arc::new(readers(&accounts, &ClientSettings::default(), &Clock::system()).unwrap());
    let reads: Vec<_> = (0..1000usize)
        .map(|at| {
            let readers = Arc::clone(&readers);
            let raw = paid(&pairs[at % 2], &format!("n{at}"));
            service_kit::task::spawn("notice", async move {
                let read = |name: &str| {
                    let account = name.parse().unwrap();
                    readers.get(ChannelCode::WechatPay, &account).unwrap().read(&raw, now())
                };
                let (own, other) = if at.is_multiple_of(2) { ("one", "two") } else { ("two", "one") };
                (read(own).is_ok(), read(other).unwrap_err().reason)
            })
        })
        .collect();
    for read in futures::future::join_all(reads).await {
        assert_eq!(read.unwrap().unwrap(), (true, NoticeReason::SignatureInvalid));
    }
}

/// What the reader's notices made it fetch is there for the client's answers too: one account, one set of keys.
#[tokio::test]
async fn client_and_reader_of_an_account_share_its_keys() {
    let far = Far::start(Reply::Signed(404, r#"{"code":"ORDER_NOT_EXIST"}"#.to_owned(), &NEXT)).await;
    let table = Table::new(&far.base_url, vec![&CERTIFICATE], vec![]);
    let accounts = Accounts::parse(&table.toml()).unwrap();
    let settings = ClientSettings::default();
    let (channel, account) = (ChannelCode::WechatPay, "main".parse().unwrap());
    let clients = clients(&accounts, &settings, &Clock::system()).unwrap();
    let readers = readers(&accounts, &settings, &Clock::system()).unwrap();
    let find = channel::FindOrder::by(&pay_no());
    assert_eq!(clients.get(channel, &account).unwrap().query(&find).await.label(), "accepted");
    assert!(readers.get(channel, &account).unwrap().read(&paid(&NEXT, "n1"), now()).is_ok());
    asked(&far, 1).await;
}
