#![doc = include_str!("../README.md")]

mod bucket;
mod crockford;
mod fingerprint;
mod gate;
mod money;
mod name;
mod number;
mod payment_state;
mod refund_state;

pub use bucket::{BUCKETS, Bucket};
pub use fingerprint::{Fingerprint, FingerprintMatch, PaymentTerms, RefundTerms};
pub use gate::Gate;
pub use money::{AMOUNT_MAX, Currency, Money, MoneyError};
pub use name::{
    Actor, AttemptNo, ChannelAccount, ChannelCode, ChannelTxnId, IdempotencyKey, Invalid, MerchantId,
    OrderNo, RefundReason, RefundRequestNo, Subject,
};
pub use number::{Entropy, PayNo, RefundNo};
pub use payment_state::{Advance, ChannelWord, PaymentState};
pub use refund_state::{RefundAdvance, RefundState, RefundWord};
