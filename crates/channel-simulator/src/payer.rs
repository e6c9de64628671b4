//! What payers and the channel do to an order, and which notices follow from it.

use std::collections::BTreeMap;
use std::time::Duration;

use pay_types::{Bucket, ChannelCode, PayNo};

use crate::app::Simulator;
use crate::book::{Kind, Refused};
use crate::control_types::{PayOptions, RefundOptions};
use crate::deliver::{Parcel, Work};
use crate::fate::Lie;
use crate::letter::{Event, Letter, letters};
use crate::order::{Charge, Order, Status};
use crate::plan::REPEATS_MAX;
use crate::refund::{MadeRefund, NewRefund, Refund, RefundStatus, RefundTerms};

impl Simulator {
    /// A new order: it pays itself if its fate says so.
    pub(crate) fn made(&self, order: &Order) {
        if let Some(wait) = order.fate.auto_pay_ms {
            self.put(Duration::from_millis(wait), Work::Pay { key: order.key.clone() });
        }
    }

    /// Pays an order: takes the money once and tells of it as the plan and the options say.
    pub(crate) fn pay(&self, name: &str, options: &PayOptions) -> Result<Order, Refused> {
        let (order, taken_now) = self.book.charge(name, self.clock.now())?;
        if let Some(charge) = order.charges.first().filter(|_| taken_now && !options.silent) {
            self.tell_paid(&order, charge, options);
            for (lie, wait_ms) in &order.fate.lies {
                self.tell_lie(&order, charge, *lie, Duration::from_millis(*wait_ms));
            }
        }
        Ok(order)
    }

    /// Takes the money a second time, under another transaction.
    pub(crate) fn pay_again(&self, name: &str, options: &PayOptions) -> Result<Order, Refused> {
        let (order, charge) = self.book.charge_again(name, self.clock.now())?;
        if !options.silent {
            self.tell_paid(&order, &charge, options);
        }
        Ok(order)
    }

    /// Ends an unpaid order from the channel's side and tells of it.
    pub(crate) fn end(&self, name: &str, status: Status, options: &PayOptions) -> Result<Order, Refused> {
        let order = self.book.end(name, status, self.clock.now())?;
        let event = if status == Status::Failed { Event::Failed } else { Event::Closed };
        self.tell(&order, event, options);
        Ok(order)
    }

    /// One try of the payer is declined; the order stays open. Told where the channel has a word for it.
    pub(crate) fn decline(&self, name: &str, options: &PayOptions) -> Result<Order, Refused> {
        let order = self.book.find(name, self.clock.now()).ok_or(Refused::NoSuchOrder)?;
        if order.status != Status::Created {
            return Err(Refused::NotIn(order.status));
        }
        self.tell(&order, Event::Declined, options);
        Ok(order)
    }

    /// Tells of an event, unless the options silence it.
    pub(crate) fn tell(&self, order: &Order, event: Event<'_>, options: &PayOptions) {
        for letter in letters(self, order, event, None) {
            if let Some(parcel) = parcel_to(order, letter, Kind::Genuine).filter(|_| !options.silent) {
                self.schedule(order, parcel, options);
            }
        }
    }

    fn tell_paid(&self, order: &Order, charge: &Charge, options: &PayOptions) {
        let mut late: Vec<Letter> = Vec::new();
        if order.fate.told_closed_after {
            // An older message that was overtaken: it says what was true before the payment.
            late = letters(self, order, Event::Closed, None);
        }
        for letter in letters(self, order, Event::Paid(charge), None) {
            let Some(mut parcel) = parcel_to(order, letter, Kind::Genuine) else { continue };
            parcel.then =
                late.pop().and_then(|late| parcel_to(order, late, Kind::ClosedAfterPaid)).map(Box::new);
            self.schedule(order, parcel, options);
        }
    }

    fn tell_lie(&self, order: &Order, charge: &Charge, lie: Lie, wait: Duration) {
        let channel = order.owner.channel;
        let can_be_told = match lie {
            Lie::WrongAmount | Lie::UnknownPayNo | Lie::BadSignature => true,
            Lie::StaleTimestamp => channel != ChannelCode::Alipay,
            Lie::ForeignAccount => channel != ChannelCode::Generic,
            Lie::ProbeSignature => channel == ChannelCode::WechatPay,
        };
        if !can_be_told {
            return;
        }
        self.book.lied(lie);
        let (mut told, mut charge) = (order.clone(), charge.clone());
        match lie {
            Lie::WrongAmount => {
                told.terms.amount = told.terms.amount.saturating_add(1);
                charge.channel_txn_id = self.book.ids().no_transaction(channel);
            }
            Lie::UnknownPayNo => {
                told.terms.pay_no = self.no_order();
                charge.channel_txn_id = self.book.ids().no_transaction(channel);
            }
            Lie::BadSignature | Lie::StaleTimestamp | Lie::ForeignAccount | Lie::ProbeSignature => {}
        }
        let letter = letters(self, &told, Event::Paid(&charge), Some(lie)).into_iter().next();
        if let Some(parcel) = letter.and_then(|letter| parcel_to(order, letter, Kind::Lie(lie))) {
            self.put(wait, Work::Send(Box::new(parcel)));
        }
    }

    /// A new refund: done at once and told, or done later.
    pub(crate) fn refunded(&self, refund: &Refund) {
        if refund.status == RefundStatus::Accepted {
            if !refund.fate.stuck {
                let work = Work::Refund { key: refund.key.clone() };
                self.put(Duration::from_millis(refund.fate.done_ms), work);
            }
        } else {
            self.refund_ended(refund);
        }
    }

    pub(crate) fn finish_refund(&self, key: &str) {
        if let Some(refund) = self.book.finish_refund(key, self.clock.now()) {
            self.refund_ended(&refund);
        }
    }

    fn refund_ended(&self, refund: &Refund) {
        self.tell_refund(refund, false);
        if let Some(wait) = refund.fate.returned_ms.filter(|_| refund.status == RefundStatus::Succeeded) {
            self.put(Duration::from_millis(wait), Work::Return { key: refund.key.clone() });
        }
    }

    /// A refund that had succeeded fails after all.
    pub(crate) fn return_refund(&self, key: &str) {
        if let Some(refund) = self.book.set_refund(key, RefundStatus::Failed, self.clock.now()) {
            self.tell_refund(&refund, true);
        }
    }

    /// Ends a refund as a person says, and tells of it; a success that becomes a failure is money that came back.
    pub(crate) fn set_refund(&self, name: &str, status: RefundStatus) -> Option<Refund> {
        let before = self.book.find_refund(name)?;
        let refund = self.book.set_refund(name, status, self.clock.now())?;
        let returned = before.status == RefundStatus::Succeeded && status == RefundStatus::Failed;
        self.tell_refund(&refund, returned);
        Some(refund)
    }

    /// A refund made at the channel itself: in its own back office, not by a call of ours.
    pub(crate) fn refund_here(&self, name: &str, options: &RefundOptions) -> Result<MadeRefund, Refused> {
        let now = self.clock.now();
        let order = self.book.find(name, now).ok_or(Refused::NoSuchOrder)?;
        let first = order.charges.first().map(|charge| charge.channel_txn_id.clone());
        let channel_txn_id = options.channel_txn_id.clone().or(first).ok_or(Refused::NotIn(order.status))?;
        let key = match order.owner.channel {
            ChannelCode::Stripe => self.book.ids().id("re_3"),
            ChannelCode::Generic | ChannelCode::Alipay | ChannelCode::WechatPay => self.book.ids().id("B"),
        };
        let terms = RefundTerms {
            refund_no: key.clone(),
            pay_no: order.terms.pay_no.clone(),
            channel_txn_id,
            amount: options.amount.unwrap_or(order.terms.amount),
            currency: order.terms.currency.clone(),
            reason: String::new(),
            notify_url: order.terms.notify_url.clone(),
            metadata: BTreeMap::new(),
        };
        let made = self.book.refund(NewRefund { owner: order.owner, key, terms }, now);
        if let MadeRefund::New(refund) = &made {
            self.refunded(refund);
        }
        Ok(made)
    }

    fn tell_refund(&self, refund: &Refund, returned: bool) {
        if refund.fate.silent {
            return;
        }
        let Some(order) = self.book.find(&refund.terms.channel_txn_id, self.clock.now()) else { return };
        let total = self.refunded_of(&order);
        for letter in letters(self, &order, Event::Refund { refund, total, returned }, None) {
            let Some(mut parcel) = parcel_to(&order, letter, Kind::Refund) else { continue };
            if let Ok(url) = reqwest::Url::parse(&refund.terms.notify_url) {
                parcel.url = url;
            }
            parcel.copies = refund.fate.notice_repeats.clamp(1, REPEATS_MAX);
            if refund.fate.lost_first {
                self.lose(parcel);
            } else {
                self.put(Duration::from_millis(refund.fate.notice_ms), Work::Send(Box::new(parcel)));
            }
        }
    }

    /// Minor units of an order that went back.
    pub(crate) fn refunded_of(&self, order: &Order) -> i64 {
        let refunds = self.book.refunds_of(order);
        let done = refunds.iter().filter(|refund| refund.status == RefundStatus::Succeeded);
        done.fold(0, |sum, refund| sum.saturating_add(refund.terms.amount))
    }

    /// Minor units of a transaction that went back or may still go.
    pub(crate) fn refunding_of(&self, order: &Order, channel_txn_id: &str) -> i64 {
        let refunds = self.book.refunds_of(order);
        let live = refunds.iter().filter(|refund| refund.status != RefundStatus::Failed);
        let of_it = live.filter(|refund| refund.terms.channel_txn_id == channel_txn_id);
        of_it.fold(0, |sum, refund| sum.saturating_add(refund.terms.amount))
    }

    /// A number of the right form that no order has.
    fn no_order(&self) -> String {
        let bucket = Bucket::from_i16(rand::random_range(0..1024)).expect("a bucket is below 1024");
        PayNo::new(self.clock.now_ms(), rand::random(), bucket).to_string()
    }

    /// Puts a genuine notice in, by its options and else by the order's fate.
    fn schedule(&self, order: &Order, mut parcel: Parcel, options: &PayOptions) {
        parcel.copies = options.repeats.unwrap_or(order.fate.notice_repeats).clamp(1, REPEATS_MAX);
        if let Some(then) = &mut parcel.then {
            then.copies = parcel.copies;
        }
        if options.lose.unwrap_or(order.fate.lost_first) {
            self.lose(parcel);
        } else {
            let wait = options.notice_delay_ms.unwrap_or(order.fate.notice_ms);
            self.put(Duration::from_millis(wait), Work::Send(Box::new(parcel)));
        }
    }

    /// The first try happens on paper only; the schedule of repeats goes on from there.
    fn lose(&self, mut parcel: Parcel) {
        parcel.tries = 1;
        self.book.count(|totals| totals.notices_lost_first = totals.notices_lost_first.saturating_add(1));
        self.again(parcel);
    }
}

/// A notice to the order's address; `None` when that address is none.
fn parcel_to(order: &Order, letter: Letter, kind: Kind) -> Option<Parcel> {
    let url = reqwest::Url::parse(&order.terms.notify_url).ok()?;
    Some(Parcel { letter, url, kind, key: order.key.clone(), copies: 1, tries: 0, then: None })
}
