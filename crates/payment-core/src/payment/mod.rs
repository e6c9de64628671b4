//! The use cases: they decide, and let `store` speak SQL.

#[cfg(test)]
mod conflict_test;
pub(crate) mod create;
#[cfg(test)]
mod create_test;
pub(crate) mod dispatch;
pub(crate) mod event;
pub(crate) mod evidence;
pub(crate) mod find;
pub(crate) mod gather;
pub(crate) mod judge;
#[expect(clippy::module_inception, reason = "the noun of this folder")]
pub(crate) mod payment;
pub(crate) mod query;
pub(crate) mod settle;
pub(crate) mod settle_effects;
#[cfg(test)]
pub(crate) mod settle_test;
pub(crate) mod sweep;
pub(crate) mod transaction;
pub(crate) mod waves;

pub(crate) use payment::{NewPayment, Payment, PaymentRow};
