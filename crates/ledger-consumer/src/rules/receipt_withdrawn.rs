//! A receipt was booked for a wrong amount, and the channel has told the right one: the wrong amount is taken back. The
//! right one comes as a fact of its own. Books are corrected by a new entry, so the first one stays.

use ledger::{Account, BalancedEntry};

use crate::fact::Fact;

/// Debit suspense, credit channel clearing: the reverse of an unexpected receipt.
///
/// # Panics
/// Never: both accounts are in the amount's currency.
#[must_use]
pub fn entry(fact: &Fact) -> BalancedEntry {
    let currency = fact.amount.currency();
    let debit = Account::suspense(fact.channel, &fact.channel_account, currency);
    let credit = Account::clearing(fact.channel, &fact.channel_account, currency);
    BalancedEntry::transfer(debit, credit, fact.amount).expect("both accounts are in the amount's currency")
}
