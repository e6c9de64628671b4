//! What payers and the channel do to an order, and which notices follow from it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pay_types::{Bucket, PayNo};

use crate::app::Simulator;
use crate::book::{Kind, Refused};
use crate::control_types::PayOptions;
use crate::deliver::{Parcel, Work};
use crate::message::{Fact, text};
use crate::order::{Charge, Order, Status};
use crate::plan::{Lie, REPEATS_MAX};
use crate::refund::{Refund, RefundStatus};

impl Simulator {
    /// Pays an order: takes the money once and tells of it as the plan and the options say.
    pub(crate) fn pay(&self, pay_no: &str, options: &PayOptions) -> Result<Order, Refused> {
        let (order, taken_now) = self.book.charge(pay_no, self.clock.now())?;
        if let Some(charge) = order.charges.first().filter(|_| taken_now && !options.silent) {
            self.tell_paid(&order, charge, options);
            for (lie, wait_ms) in &order.fate.lies {
                self.tell_lie(&order, charge, *lie, Duration::from_millis(*wait_ms));
            }
        }
        Ok(order)
    }

    /// Takes the money a second time, under another transaction.
    pub(crate) fn pay_again(&self, pay_no: &str, options: &PayOptions) -> Result<Order, Refused> {
        let (order, charge) = self.book.charge_again(pay_no, self.clock.now())?;
        if !options.silent {
            self.tell_paid(&order, &charge, options);
        }
        Ok(order)
    }

    /// Ends an unpaid order from the channel's side and tells of it.
    pub(crate) fn end(&self, pay_no: &str, status: Status, options: &PayOptions) -> Result<Order, Refused> {
        let order = self.book.end(pay_no, status, self.clock.now())?;
        let event = if status == Status::Failed { "payment.failed" } else { "payment.closed" };
        let body = Fact::about(&order, event, &self.book.id('N')).body();
        if let Some(parcel) = self.parcel(&order, body, Kind::Genuine).filter(|_| !options.silent) {
            self.schedule(&order, parcel, options);
        }
        Ok(order)
    }

    fn tell_paid(&self, order: &Order, charge: &Charge, options: &PayOptions) {
        let (notify_id, closed_id) = (self.book.id('N'), self.book.id('N'));
        let fact = Fact {
            channel_txn_id: &charge.channel_txn_id,
            occurred_at: text(charge.at),
            ..Fact::about(order, "payment.succeeded", &notify_id)
        };
        let Some(mut parcel) = self.parcel(order, fact.body(), Kind::Genuine) else { return };
        if order.fate.told_closed_after {
            // An older message that was overtaken: it says what was true before the payment.
            let closed = Fact {
                occurred_at: text(order.created_at),
                ..Fact::about(order, "payment.closed", &closed_id)
            };
            parcel.then = self.parcel(order, closed.body(), Kind::ClosedAfterPaid).map(Box::new);
        }
        self.schedule(order, parcel, options);
    }

    fn tell_lie(&self, order: &Order, charge: &Charge, lie: Lie, wait: Duration) {
        self.book.lied(lie);
        let (notify_id, own_txn_id, no_order) = (self.book.id('N'), self.book.id('X'), self.no_order());
        let mut fact = Fact {
            channel_txn_id: &charge.channel_txn_id,
            occurred_at: text(charge.at),
            ..Fact::about(order, "payment.succeeded", &notify_id)
        };
        match lie {
            Lie::WrongAmount => {
                fact.amount = fact.amount.saturating_add(1);
                fact.channel_txn_id = &own_txn_id;
            }
            Lie::UnknownPayNo => {
                fact.pay_no = &no_order;
                fact.channel_txn_id = &own_txn_id;
            }
            Lie::BadSignature | Lie::StaleTimestamp => {}
        }
        if let Some(parcel) = self.parcel(order, fact.body(), Kind::Lie(lie)) {
            self.put(wait, Work::Send(Box::new(parcel)));
        }
    }

    /// A new refund: done at once and told, or done later.
    pub(crate) fn refunded(&self, refund: &Refund) {
        if refund.status == RefundStatus::Accepted {
            let work = Work::Refund { refund_no: refund.terms.refund_no.clone() };
            self.put(Duration::from_millis(refund.fate.done_ms), work);
        } else {
            self.tell_refund(refund);
        }
    }

    pub(crate) fn finish_refund(&self, refund_no: &str) {
        if let Some(refund) = self.book.finish_refund(refund_no, self.clock.now()) {
            self.tell_refund(&refund);
        }
    }

    fn tell_refund(&self, refund: &Refund) {
        if refund.fate.silent {
            return;
        }
        let Some(order) = self.book.find(&refund.terms.pay_no, self.clock.now()) else { return };
        let event = match refund.status {
            RefundStatus::Accepted => return,
            RefundStatus::Succeeded => "refund.succeeded",
            RefundStatus::Failed => "refund.failed",
        };
        let notify_id = self.book.id('N');
        let fact = Fact {
            channel_txn_id: &refund.terms.channel_txn_id,
            amount: refund.terms.amount,
            occurred_at: text(refund.changed_at),
            refund: Some((&refund.terms.refund_no, &refund.channel_refund_no)),
            ..Fact::about(&order, event, &notify_id)
        };
        let Some(mut parcel) = self.parcel(&order, fact.body(), Kind::Refund) else { return };
        if let Ok(url) = reqwest::Url::parse(&refund.terms.notify_url) {
            parcel.url = url;
        }
        parcel.copies = refund.fate.notice_repeats.clamp(1, REPEATS_MAX);
        if refund.fate.lost_first {
            parcel.tries = 1;
            self.book.count(|totals| totals.notices_lost_first = totals.notices_lost_first.saturating_add(1));
            self.again(parcel);
        } else {
            self.put(Duration::from_millis(refund.fate.notice_ms), Work::Send(Box::new(parcel)));
        }
    }

    /// A number of the right form that no order has.
    fn no_order(&self) -> String {
        let bucket = Bucket::from_i16(rand::random_range(0..1024)).expect("a bucket is below 1024");
        PayNo::new(self.clock.now_ms(), rand::random(), bucket).to_string()
    }

    /// A notice to the order's address; `None` when that address is none.
    fn parcel(&self, order: &Order, body: Bytes, kind: Kind) -> Option<Parcel> {
        let url = reqwest::Url::parse(&order.terms.notify_url).ok()?;
        let account = self.account(&order.account)?;
        Some(Parcel {
            account: Arc::clone(account),
            url,
            body,
            kind,
            pay_no: order.terms.pay_no.clone(),
            copies: 1,
            tries: 0,
            then: None,
        })
    }

    /// Puts a genuine notice in, by its options and else by the order's fate.
    fn schedule(&self, order: &Order, mut parcel: Parcel, options: &PayOptions) {
        parcel.copies = options.repeats.unwrap_or(order.fate.notice_repeats).clamp(1, REPEATS_MAX);
        if let Some(then) = &mut parcel.then {
            then.copies = parcel.copies;
        }
        if options.lose.unwrap_or(order.fate.lost_first) {
            // The first try happens on paper only; the schedule of repeats goes on from there.
            parcel.tries = 1;
            self.book.count(|totals| totals.notices_lost_first = totals.notices_lost_first.saturating_add(1));
            self.again(parcel);
        } else {
            let wait = options.notice_delay_ms.unwrap_or(order.fate.notice_ms);
            self.put(Duration::from_millis(wait), Work::Send(Box::new(parcel)));
        }
    }
}
