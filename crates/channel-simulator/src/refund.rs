//! Refunds in the channel's book: money that goes back, never more of a transaction than was taken in it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::control_types::Totals;
use crate::order::Order;
use crate::plan::{CreateFault, Plan, RefundFate};

/// Most refunds: as many as a book of orders can need in a run of the demo.
const REFUNDS_MAX: usize = 100_000;

/// State of a refund at the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundStatus {
    Accepted,
    Succeeded,
    Failed,
}

/// What a refund call asks for. A repeat must be equal in all of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct RefundTerms {
    pub(crate) refund_no: String,
    pub(crate) pay_no: String,
    pub(crate) channel_txn_id: String,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) reason: String,
    pub(crate) notify_url: String,
}

/// A refund.
#[derive(Debug, Clone)]
pub(crate) struct Refund {
    /// Account whose key made it.
    pub(crate) account: String,
    pub(crate) terms: RefundTerms,
    pub(crate) channel_refund_no: String,
    pub(crate) status: RefundStatus,
    pub(crate) changed_at: OffsetDateTime,
    pub(crate) fate: RefundFate,
    calls: u64,
    query_calls: u64,
}

impl Refund {
    fn view(&self) -> RefundView {
        RefundView {
            refund_no: self.terms.refund_no.clone(),
            pay_no: self.terms.pay_no.clone(),
            channel_txn_id: self.terms.channel_txn_id.clone(),
            channel_refund_no: self.channel_refund_no.clone(),
            amount: self.terms.amount,
            currency: self.terms.currency.clone(),
            status: self.status,
            calls: self.calls,
            query_calls: self.query_calls,
        }
    }
}

/// A refund as the control calls show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundView {
    pub refund_no: String,
    pub pay_no: String,
    /// The transaction whose money goes back.
    pub channel_txn_id: String,
    pub channel_refund_no: String,
    /// Minor units.
    pub amount: i64,
    pub currency: String,
    pub status: RefundStatus,
    /// Verified calls for this number, the first included.
    pub calls: u64,
    pub query_calls: u64,
}

/// How a refund call ended.
#[derive(Debug)]
pub(crate) enum MadeRefund {
    New(Refund),
    /// It was there, on the same terms.
    Same(Refund),
    TermsDiffer,
    /// The order has no such transaction.
    NoTransaction,
    /// More than is left of the transaction.
    Exceeds,
    Full,
    /// The plan lets the call fail, and nothing was written.
    FailedBeforeCommit,
}

/// All refunds.
#[derive(Debug, Default)]
pub(crate) struct Refunds {
    by_number: HashMap<String, Refund>,
    /// Numbers in the order of creation.
    sequence: Vec<String>,
    /// Refund calls for new numbers since the plan was set; what fates are drawn from.
    ordinal: u64,
    calls: u64,
}

impl Refunds {
    /// A new plan: the next new refund is its first.
    pub(crate) fn restart(&mut self) {
        self.ordinal = 0;
    }

    /// Makes a refund, or finds it made. Idempotent by number: the same terms find the same refund.
    pub(crate) fn make(
        &mut self,
        asked: (&str, RefundTerms),
        order: Option<&Order>,
        channel_refund_no: String,
        plan: &Plan,
        now: OffsetDateTime,
    ) -> MadeRefund {
        let (account, terms) = asked;
        self.calls = self.calls.saturating_add(1);
        if let Some(refund) = self.by_number.get_mut(&terms.refund_no) {
            refund.calls = refund.calls.saturating_add(1);
            let same = refund.account == account && refund.terms == terms;
            return if same { MadeRefund::Same(refund.clone()) } else { MadeRefund::TermsDiffer };
        }
        let taken = order.filter(|order| {
            order.account == account
                && order.terms.currency == terms.currency
                && order.charges.iter().any(|charge| charge.channel_txn_id == terms.channel_txn_id)
        });
        let Some(order) = taken else { return MadeRefund::NoTransaction };
        if self.given_back(&terms.channel_txn_id).saturating_add(terms.amount) > order.terms.amount {
            return MadeRefund::Exceeds;
        }
        if self.by_number.len() >= REFUNDS_MAX {
            return MadeRefund::Full;
        }
        let fate = RefundFate::draw(plan, self.ordinal);
        self.ordinal = self.ordinal.saturating_add(1);
        if fate.fault == CreateFault::ErrorBeforeCommit {
            return MadeRefund::FailedBeforeCommit;
        }
        let done = fate.done_ms == 0;
        let mut refund = Refund {
            account: account.to_owned(),
            channel_refund_no,
            status: RefundStatus::Accepted,
            changed_at: now,
            fate,
            calls: 1,
            query_calls: 0,
            terms,
        };
        if done {
            refund.status = ended(&refund);
        }
        self.sequence.push(refund.terms.refund_no.clone());
        self.by_number.insert(refund.terms.refund_no.clone(), refund.clone());
        MadeRefund::New(refund)
    }

    /// The refund of this account under this number, as a channel call sees it.
    pub(crate) fn query(&mut self, account: &str, refund_no: &str) -> Option<Refund> {
        let refund = self.by_number.get_mut(refund_no).filter(|refund| refund.account == account)?;
        refund.query_calls = refund.query_calls.saturating_add(1);
        Some(refund.clone())
    }

    /// Ends a refund that waits, as its fate says.
    pub(crate) fn finish(&mut self, refund_no: &str, now: OffsetDateTime) -> Option<Refund> {
        let refund = self.by_number.get_mut(refund_no)?;
        if refund.status == RefundStatus::Accepted {
            refund.status = ended(refund);
            refund.changed_at = now;
        }
        Some(refund.clone())
    }

    /// Minor units of a transaction that went back or are on their way.
    fn given_back(&self, channel_txn_id: &str) -> i64 {
        self.by_number
            .values()
            .filter(|refund| refund.terms.channel_txn_id == channel_txn_id)
            .filter(|refund| refund.status != RefundStatus::Failed)
            .fold(0, |sum, refund| sum.saturating_add(refund.terms.amount))
    }

    pub(crate) fn add_to(&self, totals: &mut Totals) {
        totals.refund_calls = self.calls;
        for refund in self.by_number.values() {
            totals.refunds = totals.refunds.saturating_add(1);
            if refund.status == RefundStatus::Succeeded {
                let sum = totals.refunded.entry(refund.terms.currency.clone()).or_default();
                *sum = sum.saturating_add(refund.terms.amount);
            }
        }
    }

    /// All refunds, in the order of creation.
    pub(crate) fn views(&self) -> Vec<RefundView> {
        self.sequence.iter().filter_map(|number| self.by_number.get(number)).map(Refund::view).collect()
    }
}

fn ended(refund: &Refund) -> RefundStatus {
    if refund.fate.fails { RefundStatus::Failed } else { RefundStatus::Succeeded }
}

#[cfg(test)]
mod tests {
    use crate::book::Book;
    use crate::order::Terms;

    use super::*;

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_767_240_006).unwrap()
    }

    /// A book with one order of 500, paid twice; gives its transactions.
    fn book() -> (Book, Vec<String>) {
        let book = Book::new(now());
        let terms = Terms {
            merchant_id: "M1".to_owned(),
            pay_no: "P1".to_owned(),
            amount: 500,
            currency: "CNY".to_owned(),
            subject: "tea".to_owned(),
            expire_at: now().saturating_add(time::Duration::hours(1)),
            notify_url: "http://h/n".to_owned(),
        };
        let _ = book.make("main", terms, now());
        book.charge("P1", now()).unwrap();
        let (order, _) = book.charge_again("P1", now()).unwrap();
        (book, order.charges.into_iter().map(|charge| charge.channel_txn_id).collect())
    }

    fn terms(refund_no: &str, channel_txn_id: &str, amount: i64) -> RefundTerms {
        RefundTerms {
            refund_no: refund_no.to_owned(),
            pay_no: "P1".to_owned(),
            channel_txn_id: channel_txn_id.to_owned(),
            amount,
            currency: "CNY".to_owned(),
            reason: "LATE_SUCCESS".to_owned(),
            notify_url: "http://h/n".to_owned(),
        }
    }

    #[test]
    fn one_number_is_one_refund_and_never_more_than_its_transaction() {
        let (book, txns) = book();
        let (first, second) = (txns[0].as_str(), txns[1].as_str());
        assert!(matches!(book.refund("main", terms("R1", second, 300), now()), MadeRefund::New(_)));
        assert!(matches!(book.refund("main", terms("R1", second, 300), now()), MadeRefund::Same(_)));
        assert!(matches!(book.refund("main", terms("R1", second, 200), now()), MadeRefund::TermsDiffer));
        assert!(matches!(book.refund("main", terms("R2", second, 201), now()), MadeRefund::Exceeds));
        assert!(matches!(book.refund("main", terms("R2", second, 200), now()), MadeRefund::New(_)));
        assert!(matches!(book.refund("main", terms("R3", first, 500), now()), MadeRefund::New(_)));
        assert!(matches!(book.refund("main", terms("R4", "T0", 1), now()), MadeRefund::NoTransaction));
        assert!(matches!(book.refund("second", terms("R5", first, 1), now()), MadeRefund::NoTransaction));
        let view = book.view(true, now());
        assert_eq!(
            (view.totals.refunds, view.totals.refund_calls, view.totals.refunded["CNY"]),
            (3, 8, 1000)
        );
        assert_eq!((view.orders[0].refunds, view.orders[0].refunded), (3, 1000));
        assert_eq!((view.refunds[0].refund_no.as_str(), view.refunds[0].calls), ("R1", 3));
        assert!(book.query_refund("second", "R1").is_none(), "another account's refund is not shown");
    }

    #[test]
    fn a_refund_that_failed_gives_its_money_free() {
        let (book, txns) = book();
        book.set_plan(serde_json::from_str(r#"{"refund":{"fail_percent":100,"done_ms":[5,5]}}"#).unwrap());
        assert!(matches!(book.refund("main", terms("R1", &txns[0], 500), now()), MadeRefund::New(_)));
        assert_eq!(book.query_refund("main", "R1").unwrap().status, RefundStatus::Accepted);
        assert_eq!(book.finish_refund("R1", now()).unwrap().status, RefundStatus::Failed);
        book.set_plan(Plan::default());
        assert!(matches!(book.refund("main", terms("R2", &txns[0], 500), now()), MadeRefund::New(_)));
        assert_eq!(book.finish_refund("R2", now()).unwrap().status, RefundStatus::Succeeded);
        assert_eq!(book.view(false, now()).totals.refunded["CNY"], 500);
    }
}
