//! Refunds: money that goes back to a payer, once and never more than was paid. Gate G10.

pub(crate) mod create;
#[cfg(test)]
mod create_test;
pub(crate) mod decide;
pub(crate) mod find;
#[expect(clippy::module_inception, reason = "the noun of this folder")]
pub(crate) mod refund;
pub(crate) mod send;
pub(crate) mod settle;
#[cfg(test)]
mod settle_test;

pub(crate) use refund::{Approval, NewRefund, Refund, RefundKind, RefundRow};
