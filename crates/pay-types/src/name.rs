//! Names and keys that come from outside. Each is checked once, at the border, and typed from there on.

use std::fmt;
use std::str::FromStr;

/// A value that was refused: which field, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {rule}")]
pub struct Invalid {
    /// Field name as on the wire.
    pub field: &'static str,
    /// What the value must be, in words for the caller.
    pub rule: &'static str,
}

impl Invalid {
    #[must_use]
    pub const fn new(field: &'static str, rule: &'static str) -> Self {
        Self { field, rule }
    }
}

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $field:literal, $check:expr, $rule:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Field name as on the wire.
            pub const FIELD: &'static str = $field;

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.to_owned())) } else { Err(Invalid::new($field, $rule)) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Letters, digits, `_`, `-`, `.`: nothing that means something inside a key, a path or a topic.
fn is_plain(text: &str, len_max: usize) -> bool {
    !text.is_empty()
        && text.len() <= len_max
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

text_type!(
    /// The tenant: who is paid.
    MerchantId,
    "merchant_id",
    |t| is_plain(t, 64),
    "must be 1 to 64 letters, digits, '_', '-' or '.'"
);
text_type!(
    /// The merchant's number of the order that is paid.
    OrderNo,
    "order_no",
    |t| is_plain(t, 64),
    "must be 1 to 64 letters, digits, '_', '-' or '.'"
);
text_type!(
    /// Our account at a channel; chooses keys and addresses.
    ChannelAccount,
    "channel_account",
    |t| is_plain(t, 64),
    "must be 1 to 64 letters, digits, '_', '-' or '.'"
);
text_type!(
    /// The channel's number of the transaction.
    ChannelTxnId,
    "channel_txn_id",
    |t| !t.is_empty() && t.len() <= 128 && t.bytes().all(|b| b.is_ascii_graphic()),
    "must be 1 to 128 printable ASCII characters without blanks"
);
text_type!(
    /// The client's key of one request. Compared byte by byte: nothing is trimmed, folded or normalised.
    IdempotencyKey,
    "idempotency_key",
    |t| t.len() <= 128 && t.bytes().all(|b| (b' '..=b'~').contains(&b)) && t.bytes().any(|b| b != b' '),
    "must be 1 to 128 printable ASCII characters, not all blank; make it once, store it, resend it unchanged"
);
text_type!(
    /// The merchant's number of one request to refund. Within a payment it is one refund.
    RefundRequestNo,
    "refund_request_no",
    |t| is_plain(t, 64),
    "must be 1 to 64 letters, digits, '_', '-' or '.'"
);
text_type!(
    /// Why money goes back; for people, kept with the refund.
    RefundReason,
    "reason",
    |t| !t.trim().is_empty() && t.chars().count() <= 200 && !t.chars().any(char::is_control),
    "must be 1 to 200 characters without control characters: say why the money goes back"
);
text_type!(
    /// A person, or a service, that asks for something or approves it.
    Actor,
    "requested_by",
    |t| is_plain(t, 64),
    "must be 1 to 64 letters, digits, '_', '-' or '.'"
);
text_type!(
    /// What is paid for, as the payer sees it.
    Subject,
    "subject",
    |t| !t.trim().is_empty() && t.chars().count() <= 128 && !t.chars().any(char::is_control),
    "must be 1 to 128 characters without control characters"
);

/// Number of the attempt to pay an order, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptNo(u16);

impl AttemptNo {
    /// Most attempts for one order; beyond it a person should look.
    pub const MAX: u16 = 999;

    /// Reads an attempt number.
    ///
    /// # Errors
    /// [`Invalid`] outside `1..=999`.
    pub fn try_new(value: i64) -> Result<Self, Invalid> {
        u16::try_from(value)
            .ok()
            .filter(|v| (1..=Self::MAX).contains(v))
            .map(Self)
            .ok_or(Invalid::new("attempt_no", "must be 1 to 999; the first attempt is 1"))
    }

    #[must_use]
    pub fn get(self) -> u16 {
        self.0
    }

    /// The value as PostgreSQL `SMALLINT` holds it.
    #[must_use]
    pub fn as_i16(self) -> i16 {
        i16::try_from(self.0).expect("at most 999")
    }
}

impl fmt::Display for AttemptNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The payment channels that Oncepay speaks with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelCode {
    Alipay,
    WechatPay,
    Stripe,
    /// Our own HMAC-SHA256 protocol, for partners in house.
    Generic,
}

impl ChannelCode {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alipay => "alipay",
            Self::WechatPay => "wechatpay",
            Self::Stripe => "stripe",
            Self::Generic => "generic",
        }
    }
}

impl FromStr for ChannelCode {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "alipay" => Ok(Self::Alipay),
            "wechatpay" => Ok(Self::WechatPay),
            "stripe" => Ok(Self::Stripe),
            "generic" => Ok(Self::Generic),
            _ => Err(Invalid::new("channel", "must be one of alipay, wechatpay, stripe, generic")),
        }
    }
}

impl fmt::Display for ChannelCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weak_key_is_refused_and_no_key_is_changed() {
        for bad in ["", " ", "   ", "\u{a0}", "k\0", "k\n", "\u{ff4b}1", &"x".repeat(129)] {
            assert!(bad.parse::<IdempotencyKey>().is_err(), "{bad:?} must be refused");
        }
        for good in ["k1", "k1 ", "K1", " k", &"x".repeat(128)] {
            assert_eq!(good.parse::<IdempotencyKey>().unwrap().as_str(), good);
        }
        assert_ne!("k1".parse::<IdempotencyKey>().unwrap(), "K1".parse().unwrap());
    }

    #[test]
    fn separators_cannot_enter_a_name() {
        for bad in ["a:b", "a/b", "a b", "", "ä", "a\u{1f}b"] {
            assert!(bad.parse::<MerchantId>().is_err());
            assert!(bad.parse::<OrderNo>().is_err());
        }
    }

    #[test]
    fn attempts_start_at_one() {
        for bad in [-1, 0, 1000, i64::MAX] {
            assert!(AttemptNo::try_new(bad).is_err());
        }
        assert_eq!(AttemptNo::try_new(1).unwrap().get(), 1);
    }
}
