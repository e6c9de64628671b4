//! Which shard of the store an order belongs to.
//!
//! Every row that belongs to an order carries its bucket, so that a distributed engine can keep the order on one node.
//! The definition is fixed for ever: changing it would orphan stored rows and printed payment numbers.

use sha2::{Digest, Sha256};

use crate::{MerchantId, OrderNo, crockford};

/// Number of buckets; ten bits, two Crockford characters.
pub const BUCKETS: u16 = 1024;

/// A bucket number, `0..1024`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u16);

impl Bucket {
    /// The bucket of an order: the first ten bits, big-endian, of SHA-256 over merchant, the byte 0x1F, order number.
    #[must_use]
    pub fn of(merchant_id: &MerchantId, order_no: &OrderNo) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(merchant_id.as_str().as_bytes());
        hasher.update([0x1f]);
        hasher.update(order_no.as_str().as_bytes());
        let [high, low, ..]: [u8; 32] = hasher.finalize().into();
        Self(u16::from_be_bytes([high, low]) >> 6)
    }

    /// Reads a stored bucket; `None` outside `0..1024`.
    #[must_use]
    pub fn from_i16(value: i16) -> Option<Self> {
        u16::try_from(value).ok().filter(|v| *v < BUCKETS).map(Self)
    }

    /// The value as PostgreSQL `SMALLINT` holds it.
    #[must_use]
    pub fn as_i16(self) -> i16 {
        i16::try_from(self.0).expect("a bucket is below 1024")
    }

    pub(crate) fn to_crockford(self) -> [char; 2] {
        [crockford::digit(u128::from(self.0 >> 5)), crockford::digit(u128::from(self.0))]
    }

    pub(crate) fn from_crockford(text: &str) -> Option<Self> {
        let value = crockford::decode(text)?;
        u16::try_from(value).ok().filter(|v| *v < BUCKETS).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_is_the_documented_hash_prefix() {
        // sha256("M1" 0x1f "O1") computed apart from this code.
        let bucket = Bucket::of(&"M1".parse().unwrap(), &"O1".parse().unwrap());
        assert_eq!(bucket.as_i16(), 566);
        assert_eq!(Bucket::from_i16(1024), None);
        assert_eq!(Bucket::from_i16(-1), None);
    }
}
