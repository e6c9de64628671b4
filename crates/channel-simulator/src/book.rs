//! The channel's own book: which orders exist, and what was taken from whom. In memory: the simulator is the one part that a
//! demo never kills.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use time::OffsetDateTime;

use crate::control_types::{BookView, Totals};
use crate::fate::{CreateFault, Fate, Lie};
use crate::ids::Ids;
use crate::order::{Charge, Form, NewOrder, Order, OrderView, Status};
use crate::plan::Plan;
use crate::refund::{MadeRefund, NewRefund, Refund, RefundStatus, Refunds};
use crate::sides::Owner;

/// Most orders: about a kilobyte each, so a hundred megabytes; ten times the largest run of the demo.
const ORDERS_MAX: usize = 100_000;

/// How a create call ended.
#[derive(Debug)]
pub(crate) enum Made {
    New(Order),
    /// It was there, on the same terms.
    Same(Order),
    TermsDiffer,
    Expired,
    Full,
    /// The plan lets the call fail, and nothing was written.
    FailedBeforeCommit,
}

/// Why a control call about an order was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    NoSuchOrder,
    /// The order is in this state, which does not allow it.
    NotIn(Status),
}

/// Which of the channel's calls asks for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Query,
    Close,
}

/// What a notice is, for the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Genuine,
    ClosedAfterPaid,
    /// About a refund.
    Refund,
    Lie(Lie),
}

#[derive(Debug, Default)]
struct Inner {
    orders: HashMap<String, Order>,
    /// Other names of orders, transactions above all, and the keys that they stand for.
    names: HashMap<String, String>,
    /// Keys in the order of creation.
    sequence: Vec<String>,
    refunds: Refunds,
    plan: Plan,
    /// Create calls for new numbers since the plan was set; what fates are drawn from.
    ordinal: u64,
    totals: Totals,
}

/// The book. Nothing waits while it is locked.
#[derive(Debug)]
pub(crate) struct Book {
    inner: Mutex<Inner>,
    ids: Ids,
}

impl Inner {
    /// The order under its key or under another of its names.
    fn order(&mut self, name: &str) -> Option<&mut Order> {
        let key = if self.orders.contains_key(name) { name } else { self.names.get(name)?.as_str() };
        self.orders.get_mut(key)
    }
}

impl Book {
    pub(crate) fn new(now: OffsetDateTime) -> Self {
        Self { inner: Mutex::default(), ids: Ids::new(now) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ids that no other run has used.
    pub(crate) fn ids(&self) -> &Ids {
        &self.ids
    }

    pub(crate) fn plan(&self) -> Plan {
        self.lock().plan.clone()
    }

    /// Sets a plan; the next new order is its first.
    pub(crate) fn set_plan(&self, plan: Plan) {
        let mut inner = self.lock();
        inner.plan = plan;
        inner.ordinal = 0;
        inner.refunds.restart();
    }

    /// Makes an order, or finds it made. Idempotent by key: the same terms find the same order.
    pub(crate) fn make(&self, asked: NewOrder, now: OffsetDateTime) -> Made {
        let mut inner = self.lock();
        inner.totals.create_calls = inner.totals.create_calls.saturating_add(1);
        if let Some(order) = inner.orders.get_mut(&asked.key) {
            order.counts.create_calls = order.counts.create_calls.saturating_add(1);
            order.expire(now);
            return if order.is(&asked) { Made::Same(order.clone()) } else { Made::TermsDiffer };
        }
        if asked.terms.expire_at <= now {
            return Made::Expired;
        }
        if inner.orders.len() >= ORDERS_MAX {
            return Made::Full;
        }
        let fate = Fate::draw(&inner.plan, inner.ordinal);
        inner.ordinal = inner.ordinal.saturating_add(1);
        if fate.create_fault == CreateFault::ErrorBeforeCommit {
            return Made::FailedBeforeCommit;
        }
        let order = Order::new(asked, fate, now);
        inner.sequence.push(order.key.clone());
        if order.key != order.terms.pay_no {
            // The newest order of a number is the one that control calls by the number mean.
            inner.names.insert(order.terms.pay_no.clone(), order.key.clone());
        }
        inner.orders.insert(order.key.clone(), order.clone());
        Made::New(order)
    }

    /// The order of this account under this name, as a channel call sees it; a close call closes it if it can.
    pub(crate) fn call(&self, owner: &Owner, name: &str, call: Call, now: OffsetDateTime) -> Option<Order> {
        let mut inner = self.lock();
        let order = inner.order(name).filter(|order| order.owner == *owner)?;
        order.expire(now);
        match call {
            Call::Query => order.counts.query_calls = order.counts.query_calls.saturating_add(1),
            Call::Close => {
                order.counts.close_calls = order.counts.close_calls.saturating_add(1);
                if order.status == Status::Created {
                    order.status = Status::Closed;
                    order.changed_at = now;
                }
            }
        }
        Some(order.clone())
    }

    /// The payer's side meets an order: it was opened or scanned.
    pub(crate) fn meet(&self, name: &str) {
        if let Some(Form::Alipay(trade)) = self.lock().order(name).map(|order| &mut order.form) {
            trade.met = true;
        }
    }

    /// Takes the money, unless it was taken: a payer cannot pay one order twice. True: it was taken now.
    pub(crate) fn charge(&self, name: &str, now: OffsetDateTime) -> Result<(Order, bool), Refused> {
        let inner = &mut *self.lock();
        let order = inner.order(name).ok_or(Refused::NoSuchOrder)?;
        order.expire(now);
        match order.status {
            Status::Paid => Ok((order.clone(), false)),
            Status::Created => {
                let channel_txn_id = self.ids.transaction(order, now);
                order.status = Status::Paid;
                order.changed_at = now;
                order.charges.push(Charge { channel_txn_id: channel_txn_id.clone(), at: now });
                let order = order.clone();
                inner.names.insert(channel_txn_id, order.key.clone());
                Ok((order, true))
            }
            status @ (Status::Closed | Status::Failed) => Err(Refused::NotIn(status)),
        }
    }

    /// Takes the money once more, in whatever state: the fault of a channel, or a second payer.
    pub(crate) fn charge_again(&self, name: &str, now: OffsetDateTime) -> Result<(Order, Charge), Refused> {
        let inner = &mut *self.lock();
        let order = inner.order(name).ok_or(Refused::NoSuchOrder)?;
        let charge = Charge { channel_txn_id: self.ids.transaction(order, now), at: now };
        order.charges.push(charge.clone());
        let order = order.clone();
        inner.names.insert(charge.channel_txn_id.clone(), order.key.clone());
        Ok((order, charge))
    }

    /// Ends an unpaid order from the channel's side.
    pub(crate) fn end(&self, name: &str, status: Status, now: OffsetDateTime) -> Result<Order, Refused> {
        let mut inner = self.lock();
        let order = inner.order(name).ok_or(Refused::NoSuchOrder)?;
        order.expire(now);
        if order.status != Status::Created && order.status != status {
            return Err(Refused::NotIn(order.status));
        }
        if order.status == Status::Created {
            order.status = status;
            order.changed_at = now;
        }
        Ok(order.clone())
    }

    /// Gives money back, or finds it given back under this number.
    pub(crate) fn refund(&self, asked: NewRefund, now: OffsetDateTime) -> MadeRefund {
        let channel_refund_no = self.ids.refund(&asked, now);
        let inner = &mut *self.lock();
        let order = inner.order(&asked.terms.channel_txn_id).cloned();
        inner.refunds.make(asked, order.as_ref(), channel_refund_no, &inner.plan, now)
    }

    /// The refund of this account under this key.
    pub(crate) fn query_refund(&self, owner: &Owner, key: &str) -> Option<Refund> {
        self.lock().refunds.query(owner, key)
    }

    /// The refund under the book's name for it or under our number.
    pub(crate) fn find_refund(&self, name: &str) -> Option<Refund> {
        self.lock().refunds.find(name)
    }

    /// The refunds of an order's money, oldest first.
    pub(crate) fn refunds_of(&self, order: &Order) -> Vec<Refund> {
        self.lock().refunds.of(order)
    }

    /// Ends a refund that waits.
    pub(crate) fn finish_refund(&self, key: &str, now: OffsetDateTime) -> Option<Refund> {
        self.lock().refunds.finish(key, now)
    }

    /// Ends a refund as a person says.
    pub(crate) fn set_refund(&self, name: &str, status: RefundStatus, now: OffsetDateTime) -> Option<Refund> {
        self.lock().refunds.set(name, status, now)
    }

    /// The order, for the pay page and for control calls.
    pub(crate) fn find(&self, name: &str, now: OffsetDateTime) -> Option<Order> {
        let mut inner = self.lock();
        let order = inner.order(name)?;
        order.expire(now);
        Some(order.clone())
    }

    /// The account's orders, newest first.
    pub(crate) fn newest(&self, owner: &Owner, now: OffsetDateTime) -> Vec<Order> {
        let inner = &mut *self.lock();
        for order in inner.orders.values_mut() {
            order.expire(now);
        }
        let orders = inner.sequence.iter().rev().filter_map(|key| inner.orders.get(key));
        orders.filter(|order| order.owner == *owner).cloned().collect()
    }

    /// Counts copies of a notice about an order, and how many of them were answered 2xx.
    pub(crate) fn sent(&self, pay_no: &str, kind: Kind, copies: u64, acked: u64) {
        let mut inner = self.lock();
        match kind {
            Kind::Genuine => {
                inner.totals.notices_sent = inner.totals.notices_sent.saturating_add(copies);
                inner.totals.notices_acked = inner.totals.notices_acked.saturating_add(acked);
                if let Some(order) = inner.order(pay_no) {
                    order.counts.notices_sent = order.counts.notices_sent.saturating_add(copies);
                    order.counts.notices_acked = order.counts.notices_acked.saturating_add(acked);
                }
            }
            Kind::ClosedAfterPaid => {
                inner.totals.closed_after_paid_sent =
                    inner.totals.closed_after_paid_sent.saturating_add(copies);
            }
            Kind::Refund => {
                inner.totals.refund_notices_sent = inner.totals.refund_notices_sent.saturating_add(copies);
            }
            Kind::Lie(_) => {}
        }
    }

    /// Counts a lie that is going to be told.
    pub(crate) fn lied(&self, lie: Lie) {
        let mut inner = self.lock();
        let lies = &mut inner.totals.lies;
        let count = match lie {
            Lie::WrongAmount => &mut lies.wrong_amount,
            Lie::UnknownPayNo => &mut lies.unknown_pay_no,
            Lie::BadSignature => &mut lies.bad_signature,
            Lie::StaleTimestamp => &mut lies.stale_timestamp,
            Lie::ForeignAccount => &mut lies.foreign_account,
            Lie::ProbeSignature => &mut lies.probe_signature,
        };
        *count = count.saturating_add(1);
    }

    /// Changes the other totals.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.lock().totals);
    }

    /// The book for control calls; `with_orders` false gives totals only. `pending` is the queue's to fill in.
    pub(crate) fn view(&self, with_orders: bool, now: OffsetDateTime) -> BookView {
        let mut inner = self.lock();
        let mut totals = inner.totals.clone();
        for order in inner.orders.values_mut() {
            order.expire(now);
            add(&mut totals, order);
        }
        inner.refunds.add_to(&mut totals);
        let refunds = inner.refunds.views();
        if !with_orders {
            return BookView { totals, orders: Vec::new(), refunds: Vec::new() };
        }
        let mut of_order: HashMap<&str, (u64, i64)> = HashMap::new();
        for refund in refunds.iter().filter(|refund| refund.status != RefundStatus::Failed) {
            let (count, amount) = of_order.entry(&refund.pay_no).or_default();
            *count = count.saturating_add(1);
            *amount = amount.saturating_add(refund.amount);
        }
        let orders = inner.sequence.iter().filter_map(|pay_no| inner.orders.get(pay_no));
        let orders: Vec<OrderView> = orders
            .map(|order| {
                let (refunds, refunded) =
                    of_order.get(order.terms.pay_no.as_str()).copied().unwrap_or_default();
                OrderView { refunds, refunded, ..order.view() }
            })
            .collect();
        BookView { totals, orders, refunds }
    }
}

fn add(totals: &mut Totals, order: &Order) {
    totals.orders = totals.orders.saturating_add(1);
    let count = match order.status {
        Status::Created => &mut totals.orders_created,
        Status::Paid => &mut totals.orders_paid,
        Status::Closed => &mut totals.orders_closed,
        Status::Failed => &mut totals.orders_failed,
    };
    *count = count.saturating_add(1);
    let charges = u64::try_from(order.charges.len()).unwrap_or(u64::MAX);
    totals.charges = totals.charges.saturating_add(charges);
    if charges > 0 {
        let taken = order.terms.amount.saturating_mul(i64::try_from(charges).unwrap_or(i64::MAX));
        let sum = totals.charged.entry(order.terms.currency.clone()).or_default();
        *sum = sum.saturating_add(taken);
    }
}

#[cfg(test)]
mod tests {
    use pay_types::ChannelCode;
    use time::Duration;

    use crate::order::Terms;

    use super::*;

    fn owner(account: &str) -> Owner {
        Owner::new(ChannelCode::Generic, account)
    }

    fn asked(account: &str, terms: Terms) -> NewOrder {
        NewOrder { owner: owner(account), key: terms.pay_no.clone(), form: Form::Generic, terms }
    }

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_767_240_006).unwrap()
    }

    fn terms(pay_no: &str, amount: i64) -> Terms {
        Terms {
            merchant_id: "M1".to_owned(),
            pay_no: pay_no.to_owned(),
            amount,
            currency: "CNY".to_owned(),
            subject: "tea".to_owned(),
            expire_at: now().saturating_add(Duration::hours(1)),
            notify_url: "http://h/n".to_owned(),
        }
    }

    #[test]
    fn one_number_on_the_same_terms_is_one_order_whoever_repeats_it() {
        let book = Book::new(now());
        assert!(matches!(book.make(asked("main", terms("P1", 1)), now()), Made::New(_)));
        assert!(matches!(book.make(asked("main", terms("P1", 1)), now()), Made::Same(_)));
        assert!(matches!(book.make(asked("main", terms("P1", 2)), now()), Made::TermsDiffer));
        assert!(matches!(book.make(asked("second", terms("P1", 1)), now()), Made::TermsDiffer));
        let view = book.view(true, now());
        assert_eq!((view.totals.orders, view.totals.create_calls), (1, 4));
        assert_eq!(view.orders[0].create_calls, 4);
    }

    #[test]
    fn an_order_is_paid_once_and_a_second_transaction_is_counted() {
        let book = Book::new(now());
        let _ = book.make(asked("main", terms("P1", 500)), now());
        let (order, first) = book.charge("P1", now()).unwrap();
        assert!(first);
        let (again, second) = book.charge("P1", now()).unwrap();
        assert!(!second);
        assert_eq!(order.charges, again.charges);
        let (_, charge) = book.charge_again("P1", now()).unwrap();
        assert_ne!(charge.channel_txn_id, order.charges[0].channel_txn_id);
        let totals = book.view(false, now()).totals;
        assert_eq!((totals.charges, totals.charged["CNY"], totals.orders_paid), (2, 1000, 1));
        assert_eq!(book.charge("P9", now()).unwrap_err(), Refused::NoSuchOrder);
    }

    #[test]
    fn a_closed_or_expired_order_cannot_be_paid() {
        let book = Book::new(now());
        for pay_no in ["P1", "P2"] {
            let _ = book.make(asked("main", terms(pay_no, 500)), now());
        }
        let closed = book.call(&owner("main"), "P1", Call::Close, now()).unwrap();
        assert_eq!(closed.status, Status::Closed);
        assert_eq!(book.charge("P1", now()).unwrap_err(), Refused::NotIn(Status::Closed));
        let later = now() + Duration::hours(1);
        assert_eq!(book.charge("P2", later).unwrap_err(), Refused::NotIn(Status::Closed));
        assert!(matches!(book.make(asked("main", terms("P3", 1)), later), Made::Expired));
        assert!(
            book.call(&owner("second"), "P1", Call::Query, now()).is_none(),
            "another account's order is not shown"
        );
    }

    #[test]
    fn a_close_after_the_payment_leaves_it_paid() {
        let book = Book::new(now());
        let _ = book.make(asked("main", terms("P1", 500)), now());
        book.charge("P1", now()).unwrap();
        assert_eq!(book.call(&owner("main"), "P1", Call::Close, now()).unwrap().status, Status::Paid);
        assert_eq!(book.end("P1", Status::Failed, now()).unwrap_err(), Refused::NotIn(Status::Paid));
    }

    #[test]
    fn a_failure_before_the_commit_leaves_nothing() {
        let book = Book::new(now());
        book.set_plan(serde_json::from_str(r#"{"create":{"error_before_commit_percent":100}}"#).unwrap());
        assert!(matches!(book.make(asked("main", terms("P1", 1)), now()), Made::FailedBeforeCommit));
        book.set_plan(Plan::default());
        assert!(matches!(book.make(asked("main", terms("P1", 1)), now()), Made::New(_)));
    }
}
