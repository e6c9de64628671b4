//! Values between the wire and `pay-types`.

use pay_types::{Money, PaymentState};
use prost_types::Timestamp;
use time::OffsetDateTime;

use crate::{common, order};

/// A time on the wire.
#[must_use]
pub fn timestamp(time: OffsetDateTime) -> Timestamp {
    Timestamp { seconds: time.unix_timestamp(), nanos: i32::try_from(time.nanosecond()).unwrap_or(0) }
}

/// An optional time on the wire.
#[must_use]
pub fn timestamp_opt(time: Option<OffsetDateTime>) -> Option<Timestamp> {
    time.map(timestamp)
}

/// A time from the wire; `None` when it is out of range.
#[must_use]
pub fn to_offset_date_time(timestamp: &Timestamp) -> Option<OffsetDateTime> {
    let whole = OffsetDateTime::from_unix_timestamp(timestamp.seconds).ok()?;
    let nanos = u32::try_from(timestamp.nanos).ok()?;
    whole.replace_nanosecond(nanos).ok()
}

impl From<Money> for common::Money {
    fn from(money: Money) -> Self {
        Self { amount: money.minor(), currency: money.currency().code().to_owned() }
    }
}

impl From<PaymentState> for order::PaymentState {
    fn from(state: PaymentState) -> Self {
        match state {
            PaymentState::Processing => Self::Processing,
            PaymentState::Success => Self::Success,
            PaymentState::Fail => Self::Fail,
            PaymentState::Closed => Self::Closed,
        }
    }
}
