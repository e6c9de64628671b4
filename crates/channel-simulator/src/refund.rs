//! Refunds in the channel's book: money that goes back, never more of a transaction than was taken in it.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::control_types::Totals;
use crate::fate::{CreateFault, RefundFate};
use crate::order::Order;
use crate::plan::Plan;
use crate::sides::Owner;

/// Most refunds: as many as a book of orders can need in a run of the demo.
const REFUNDS_MAX: usize = 100_000;

/// State of a refund at the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundStatus {
    Accepted,
    Succeeded,
    Failed,
    /// Stuck until a person acts at the channel.
    Abnormal,
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
    /// What the caller wants to be told again; of Stripe only.
    #[serde(skip)]
    pub(crate) metadata: BTreeMap<String, String>,
}

/// A refund that is asked for.
#[derive(Debug)]
pub(crate) struct NewRefund {
    pub(crate) owner: Owner,
    /// What the book knows it by: our number, or the channel's own where ours is no handle.
    pub(crate) key: String,
    pub(crate) terms: RefundTerms,
}

/// A refund.
#[derive(Debug, Clone)]
pub(crate) struct Refund {
    /// Account whose key made it.
    pub(crate) owner: Owner,
    pub(crate) key: String,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) terms: RefundTerms,
    pub(crate) channel_refund_no: String,
    pub(crate) status: RefundStatus,
    pub(crate) changed_at: OffsetDateTime,
    pub(crate) fate: RefundFate,
    calls: u64,
    query_calls: u64,
}

impl Refund {
    pub(crate) fn view(&self) -> RefundView {
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
        asked: NewRefund,
        order: Option<&Order>,
        channel_refund_no: String,
        plan: &Plan,
        now: OffsetDateTime,
    ) -> MadeRefund {
        let NewRefund { owner, key, terms } = asked;
        self.calls = self.calls.saturating_add(1);
        if let Some(refund) = self.by_number.get_mut(&key) {
            refund.calls = refund.calls.saturating_add(1);
            let same = refund.owner == owner && refund.terms == terms;
            return if same { MadeRefund::Same(refund.clone()) } else { MadeRefund::TermsDiffer };
        }
        let taken = order.filter(|order| {
            order.owner == owner
                && order.terms.pay_no == terms.pay_no
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
        let done = fate.done_ms == 0 && !fate.stuck;
        let mut refund = Refund {
            owner,
            key,
            created_at: now,
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
        self.sequence.push(refund.key.clone());
        self.by_number.insert(refund.key.clone(), refund.clone());
        MadeRefund::New(refund)
    }

    /// The refund of this account under this number, as a channel call sees it.
    pub(crate) fn query(&mut self, owner: &Owner, key: &str) -> Option<Refund> {
        let refund = self.by_number.get_mut(key).filter(|refund| refund.owner == *owner)?;
        refund.query_calls = refund.query_calls.saturating_add(1);
        Some(refund.clone())
    }

    /// All refunds of an order's transactions, oldest first.
    pub(crate) fn of(&self, order: &Order) -> Vec<Refund> {
        let refunds = self.sequence.iter().filter_map(|key| self.by_number.get(key));
        refunds.filter(|refund| is_of(refund, order)).cloned().collect()
    }

    /// Ends a refund that waits, as its fate says.
    pub(crate) fn finish(&mut self, key: &str, now: OffsetDateTime) -> Option<Refund> {
        let refund = self.by_number.get_mut(key)?;
        if refund.status == RefundStatus::Accepted {
            refund.status = ended(refund);
            refund.changed_at = now;
        }
        Some(refund.clone())
    }

    /// The refund under its key or under our number.
    pub(crate) fn find(&self, name: &str) -> Option<Refund> {
        let by_our_number = || self.by_number.values().find(|refund| refund.terms.refund_no == name);
        self.by_number.get(name).or_else(by_our_number).cloned()
    }

    /// Ends a refund as a person says, whatever its state is.
    pub(crate) fn set(&mut self, name: &str, status: RefundStatus, now: OffsetDateTime) -> Option<Refund> {
        let key = self.find(name)?.key;
        let refund = self.by_number.get_mut(&key)?;
        refund.status = status;
        refund.changed_at = now;
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

fn is_of(refund: &Refund, order: &Order) -> bool {
    refund.owner == order.owner
        && order.charges.iter().any(|charge| charge.channel_txn_id == refund.terms.channel_txn_id)
}

fn ended(refund: &Refund) -> RefundStatus {
    if refund.fate.abnormal {
        RefundStatus::Abnormal
    } else if refund.fate.fails {
        RefundStatus::Failed
    } else {
        RefundStatus::Succeeded
    }
}

#[cfg(test)]
mod tests {
    use crate::book::Book;
    use crate::order::{Form, NewOrder, Terms};
    use pay_types::ChannelCode;

    use super::*;

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_767_240_006).unwrap()
    }

    fn owner(account: &str) -> Owner {
        Owner::new(ChannelCode::Generic, account)
    }

    fn asked(account: &str, terms: RefundTerms) -> NewRefund {
        NewRefund { owner: owner(account), key: terms.refund_no.clone(), terms }
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
        let form = Form::Generic;
        let _ = book.make(NewOrder { owner: owner("main"), key: "P1".to_owned(), form, terms }, now());
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
            metadata: BTreeMap::new(),
        }
    }

    #[test]
    fn one_number_is_one_refund_and_never_more_than_its_transaction() {
        let (book, txns) = book();
        let (first, second) = (txns[0].as_str(), txns[1].as_str());
        assert!(matches!(book.refund(asked("main", terms("R1", second, 300)), now()), MadeRefund::New(_)));
        assert!(matches!(book.refund(asked("main", terms("R1", second, 300)), now()), MadeRefund::Same(_)));
        assert!(matches!(
            book.refund(asked("main", terms("R1", second, 200)), now()),
            MadeRefund::TermsDiffer
        ));
        assert!(matches!(book.refund(asked("main", terms("R2", second, 201)), now()), MadeRefund::Exceeds));
        assert!(matches!(book.refund(asked("main", terms("R2", second, 200)), now()), MadeRefund::New(_)));
        assert!(matches!(book.refund(asked("main", terms("R3", first, 500)), now()), MadeRefund::New(_)));
        assert!(matches!(book.refund(asked("main", terms("R4", "T0", 1)), now()), MadeRefund::NoTransaction));
        assert!(matches!(
            book.refund(asked("second", terms("R5", first, 1)), now()),
            MadeRefund::NoTransaction
        ));
        let view = book.view(true, now());
        assert_eq!(
            (view.totals.refunds, view.totals.refund_calls, view.totals.refunded["CNY"]),
            (3, 8, 1000)
        );
        assert_eq!((view.orders[0].refunds, view.orders[0].refunded), (3, 1000));
        assert_eq!((view.refunds[0].refund_no.as_str(), view.refunds[0].calls), ("R1", 3));
        assert!(book.query_refund(&owner("second"), "R1").is_none(), "another account's refund is not shown");
    }

    #[test]
    fn a_refund_that_failed_gives_its_money_free() {
        let (book, txns) = book();
        book.set_plan(serde_json::from_str(r#"{"refund":{"fail_percent":100,"done_ms":[5,5]}}"#).unwrap());
        assert!(matches!(book.refund(asked("main", terms("R1", &txns[0], 500)), now()), MadeRefund::New(_)));
        assert_eq!(book.query_refund(&owner("main"), "R1").unwrap().status, RefundStatus::Accepted);
        assert_eq!(book.finish_refund("R1", now()).unwrap().status, RefundStatus::Failed);
        book.set_plan(Plan::default());
        assert!(matches!(book.refund(asked("main", terms("R2", &txns[0], 500)), now()), MadeRefund::New(_)));
        assert_eq!(book.finish_refund("R2", now()).unwrap().status, RefundStatus::Succeeded);
        assert_eq!(book.view(false, now()).totals.refunded["CNY"], 500);
    }
}
