//! Ids in each channel's form that never repeat, not even after a restart.

use std::sync::atomic::{AtomicU64, Ordering};

use pay_types::ChannelCode;
use time::{OffsetDateTime, UtcOffset};

use crate::order::{Form, Order};
use crate::refund::NewRefund;

/// Where Alipay and WeChat Pay are: their days begin eight hours before those of UTC.
const CHINA: UtcOffset = match UtcOffset::from_hms(8, 0, 0) {
    Ok(offset) => offset,
    Err(_) => UtcOffset::UTC,
};

/// What a time is in China.
pub(crate) fn in_china(at: OffsetDateTime) -> OffsetDateTime {
    at.to_offset(CHINA)
}

/// A source of ids.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Goes into every id, so that a restarted simulator never repeats one that our database has seen.
    instance: String,
    /// The same in eight digits, for channels whose ids are numbers.
    digits: u32,
    last: AtomicU64,
}

impl Ids {
    pub(crate) fn new(now: OffsetDateTime) -> Self {
        Self {
            instance: format!("{:x}{:04x}", now.unix_timestamp(), rand::random::<u16>()),
            digits: rand::random_range(0..100_000_000),
            last: AtomicU64::new(0),
        }
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// A new id that begins with this text.
    pub(crate) fn id(&self, prefix: &str) -> String {
        format!("{prefix}{}{:06}", self.instance, self.next())
    }

    /// A new id of the form of a UUID without hyphens, as WeChat Pay and Alipay name their notices.
    pub(crate) fn hex32(&self) -> String {
        format!("{:016x}{:016x}", rand::random::<u64>(), self.next())
    }

    /// The id of a transaction that takes the money of this order.
    pub(crate) fn transaction(&self, order: &Order, now: OffsetDateTime) -> String {
        let day = day(now);
        match &order.form {
            Form::Generic => self.id("T"),
            Form::Alipay(_) => format!("{day}22{:08}{:010}", self.digits, self.next()),
            Form::WechatPay(_) => format!("42000{:08}{day}{:07}", self.digits, self.next()),
            Form::Stripe(object) => match object.intent_id() {
                Some(id) if order.charges.is_empty() => id.to_owned(),
                Some(_) | None => self.id("pi_3"),
            },
        }
    }

    /// The id of a transaction that never was; it says so by its `X`.
    pub(crate) fn no_transaction(&self, channel: ChannelCode) -> String {
        match channel {
            ChannelCode::Stripe => self.id("pi_X"),
            ChannelCode::Generic | ChannelCode::Alipay | ChannelCode::WechatPay => self.id("X"),
        }
    }

    /// The channel's own number of a refund.
    pub(crate) fn refund(&self, asked: &NewRefund, now: OffsetDateTime) -> String {
        match asked.owner.channel {
            ChannelCode::Generic | ChannelCode::Alipay => self.id("C"),
            ChannelCode::WechatPay => format!("503{:08}{}{:09}", self.digits, day(now), self.next()),
            ChannelCode::Stripe => asked.key.clone(),
        }
    }
}

fn day(now: OffsetDateTime) -> String {
    let date = in_china(now).date();
    format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day())
}
