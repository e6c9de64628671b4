//! What finance reads, and what nobody may change.

use channel_simulator::{AutoPay, Plan};
use contract::ledger::ledger_service_client::LedgerServiceClient;
use contract::ledger::{GetBalanceRequest, ListEntriesRequest, Side, TrialBalanceRequest};
use e2e::{Stack, Wish, count, request};
use futures::future::join_all;
use test_kit::{merchant, wait_for};

/// Debits equal credits whenever anyone looks, while entries are being written, and finance reads the same. Fails when totals
/// do not move with their entries. (That no unbalanced entry is written: `posting.rs` and `immutable.rs` of the ledger.)
#[tokio::test(flavor = "multi_thread")]
async fn books_balance_at_every_moment_and_finance_reads_them() {
    let stack = Stack::start(Wish { books: true, ..Wish::default() }).await;
    let plan = Plan {
        auto_pay: Some(AutoPay { percent: 100, delay_ms: [0, 50] }),
        notice_repeats: 2,
        reorder_percent: 30,
        ..Plan::default()
    };
    stack.simulator.plan(&plan).await;
    let merchant = merchant();
    let orders: Vec<String> = (0..40).map(|n| format!("O{n}")).collect();
    let payments = join_all(orders.iter().map(|order| {
        let request = request(merchant.as_str(), order, order);
        let caller = stack.caller().clone();
        async move { caller.pay(&request).await }
    }))
    .await;
    wait_for("all entries", || async {
        let off = "SELECT COUNT(*) FROM (SELECT 1 FROM posting GROUP BY currency
                   HAVING SUM(CASE side WHEN 'D' THEN amount ELSE -amount END) <> 0) AS off";
        assert_eq!(count(stack.books(), off).await, 0, "debits equal credits in every snapshot");
        count(stack.books(), "SELECT COUNT(*) FROM entry").await == 40
    })
    .await;
    let mut ledger = LedgerServiceClient::connect(stack.start_ledger_service().await).await.unwrap();
    let trial = ledger.trial_balance(TrialBalanceRequest::default()).await.unwrap().into_inner();
    assert_eq!(trial.totals.len(), 1);
    assert_eq!((trial.totals[0].debit, trial.totals[0].difference), (40 * 1999, 0));
    let payable = format!("payable:{merchant}:CNY");
    let asked = GetBalanceRequest { account_code: payable, ..Default::default() };
    let balance = ledger.get_balance(asked).await.unwrap().into_inner().balance.unwrap();
    assert_eq!(balance.balance, 40 * 1999);
    let asked = ListEntriesRequest { pay_no: payments[0].pay_no.clone(), ..Default::default() };
    let entries = ledger.list_entries(asked).await.unwrap().into_inner().entries;
    assert_eq!(entries.len(), 1);
    let sides: Vec<(Side, i64)> = entries[0].postings.iter().map(|p| (p.side(), p.amount)).collect();
    assert_eq!(sides, [(Side::Debit, 1999), (Side::Credit, 1999)]);
}
