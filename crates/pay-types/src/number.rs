//! Numbers that we make and that cross to channels: upper-case letters and digits only, 29 characters, within the
//! strictest channel limit (32).
//!
//! Form: one letter for the kind, a ULID (48 bits of milliseconds, 80 bits of entropy), the order's bucket in two
//! Crockford characters. A notice that knows only the number still goes to one shard.

use std::fmt;
use std::str::FromStr;

use crate::{Bucket, Invalid, crockford};

/// Eighty random bits, drawn by the caller: this crate has no source of randomness.
pub type Entropy = [u8; 10];

fn ulid(now_ms: u64, entropy: Entropy) -> String {
    let random = entropy.iter().fold(0_u128, |acc, byte| (acc << 8) | u128::from(*byte));
    let time = u128::from(now_ms & 0xffff_ffff_ffff);
    crockford::encode((time << 80) | random, 26)
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $letter:literal, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Makes a new number at `now_ms` (Unix milliseconds) for an order in `bucket`.
            #[must_use]
            pub fn new(now_ms: u64, entropy: Entropy, bucket: Bucket) -> Self {
                let mut text = String::with_capacity(29);
                text.push($letter);
                text.push_str(&ulid(now_ms, entropy));
                text.extend(bucket.to_crockford());
                Self(text)
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The bucket that the number ends with.
            #[must_use]
            pub fn bucket(&self) -> Bucket {
                self.0.get(27..).and_then(Bucket::from_crockford).expect("checked by the constructor")
            }

            /// When the number was made, Unix milliseconds.
            #[must_use]
            pub fn made_at_ms(&self) -> u64 {
                let ulid = self.0.get(1..27).and_then(crockford::decode).expect("checked by the constructor");
                u64::try_from(ulid >> 80).expect("at most 48 bits are left")
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                let invalid = || Invalid::new($field, concat!("must be ", $letter, " and 28 Crockford base-32 characters"));
                let rest = text.strip_prefix($letter).filter(|r| r.len() == 28 && r.is_ascii()).ok_or_else(invalid)?;
                let (ulid, bucket) = rest.split_at(26);
                crockford::decode(ulid).ok_or_else(invalid)?;
                Bucket::from_crockford(bucket).ok_or_else(invalid)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

number!(
    /// Number of one payment (one attempt to pay one order); also the merchant's number at the channel.
    PayNo,
    'P',
    "pay_no"
);
number!(
    /// Number of one refund; also the refund's number at the channel.
    RefundNo,
    'R',
    "refund_no"
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_reads_back_with_its_bucket(ms in 0_u64..(1 << 48), entropy: [u8; 10], bucket in 0_i16..1024) {
            let bucket = Bucket::from_i16(bucket).unwrap();
            let number = PayNo::new(ms, entropy, bucket);
            prop_assert_eq!(number.as_str().len(), 29);
            prop_assert!(number.as_str().bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()));
            let back: PayNo = number.as_str().parse().unwrap();
            prop_assert_eq!(back.bucket(), bucket);
            prop_assert_eq!(back.made_at_ms(), ms);
            prop_assert_eq!(back, number);
        }

        #[test]
        fn any_text_is_read_or_refused_without_panic(text in ".{0,40}") {
            if let Ok(number) = text.parse::<PayNo>() {
                prop_assert_eq!(number.as_str(), text.as_str());
            }
        }

        #[test]
        fn later_numbers_sort_later(ms in 0_u64..(1 << 40), gap in 1_u64..1000, a: [u8; 10], b: [u8; 10]) {
            let bucket = Bucket::from_i16(0).unwrap();
            prop_assert!(PayNo::new(ms, a, bucket) < PayNo::new(ms.saturating_add(gap), b, bucket));
        }
    }
}
