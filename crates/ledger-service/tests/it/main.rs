//! The service over real gRPC, on a real PostgreSQL, in the role that can only read.
#![cfg(test)]
#![expect(clippy::arithmetic_side_effects, reason = "an overflow in a test panics, as it should")]

mod faults;
mod read;
mod refuse;

use std::net::SocketAddr;

use contract::ledger::ledger_service_client::LedgerServiceClient;
use ledger::{Account, BalancedEntry, EntryKind, NewEntry, Shard};
use ledger_service::{App, Settings};
use pay_types::{Bucket, ChannelCode, Currency, MerchantId, Money, OrderNo, PayNo};
use service_kit::config::Secret;
use service_kit::pg::PoolSettings;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock};
use sqlx::postgres::PgPoolOptions;
use test_kit::Db;
use time::OffsetDateTime;
use tonic::transport::Channel;

/// 2025-03-14 00:00:00 UTC, the day on which the tests' facts happen.
const DAY: i64 = 1_741_910_400;

fn at(seconds: i64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: DAY + seconds, nanos: 0 }
}

/// Payment `number` of merchant `M{number % 3}`, over `number + 1` fen, at second `number` of the day.
fn paid(number: u32) -> NewEntry {
    let merchant_id: MerchantId = format!("M{}", number % 3).parse().unwrap();
    let order_no: OrderNo = format!("O{number}").parse().unwrap();
    let currency = Currency::from_code("CNY").unwrap();
    let amount = Money::try_new(i64::from(number) + 1, currency).unwrap();
    let mut entropy = [0; 10];
    entropy[..4].copy_from_slice(&number.to_be_bytes());
    let pay_no = PayNo::new(0, entropy, Bucket::of(&merchant_id, &order_no));
    let clearing = Account::clearing(ChannelCode::Generic, &"main".parse().unwrap(), currency);
    NewEntry {
        msg_key: format!("PAY_SUCCEEDED:{pay_no}").parse().unwrap(),
        kind: EntryKind::PaySucceeded,
        body: BalancedEntry::transfer(clearing, Account::payable(&merchant_id, currency), amount).unwrap(),
        merchant_id,
        order_no,
        pay_no,
        refund_no: None,
        occurred_at: OffsetDateTime::from_unix_timestamp(DAY + i64::from(number)).unwrap(),
    }
}

/// Books payments as the consumer does.
async fn post(db: &Db, numbers: std::ops::Range<u32>) {
    let url = db.url_as("ledger_consumer");
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy(url.expose()).unwrap();
    let entries: Vec<_> = numbers.map(paid).collect();
    let mut tx = pool.begin().await.unwrap();
    let posted = ledger::post_in_tx(&mut tx, Shard::of_partition(0).unwrap(), &entries).await.unwrap();
    assert_eq!(posted.len(), entries.len());
    tx.commit().await.unwrap();
}

/// A running service.
struct Service {
    client: LedgerServiceClient<Channel>,
    admin: SocketAddr,
    shutdown: CancellationToken,
}

impl Service {
    async fn start(db: &Db) -> Self {
        Self::start_at(db.url_as("ledger_service"), PoolSettings::default()).await
    }

    async fn start_at(database_url: Secret, pool: PoolSettings) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings = Settings { listen: any, admin_listen: any, database_url, pool };
        let app = App::build(settings, Clock::system(), Switches::all_on()).await.unwrap();
        let (addr, admin, shutdown) = (app.addr(), app.admin_addr(), CancellationToken::new());
        service_kit::task::spawn("test.service", app.run(shutdown.clone()));
        let client = LedgerServiceClient::new(service_kit::grpc::channel(&format!("http://{addr}")).unwrap());
        Self { client, admin, shutdown }
    }

    fn client(&self) -> LedgerServiceClient<Channel> {
        self.client.clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
