//! Every SQL statement of this crate, one file a table. Functions take slices and the caller's transaction; they decide
//! nothing.

pub(crate) mod anomaly;
pub(crate) mod callback_log;
pub(crate) mod constraint;
pub(crate) mod event;
pub(crate) mod nonce;
pub(crate) mod orphan;
pub(crate) mod payment;
pub(crate) mod receipt;
pub(crate) mod refund;
