//! An unwanted receipt is being sent back: it is no more in suspense, and not yet out of the channel.

use ledger::{Account, BalancedEntry};

use crate::fact::Fact;

/// Debit suspense, credit refunds in transit.
///
/// # Panics
/// Never: both accounts are in the amount's currency.
#[must_use]
pub fn entry(fact: &Fact) -> BalancedEntry {
    let currency = fact.amount.currency();
    let debit = Account::suspense(fact.channel, &fact.channel_account, currency);
    let credit = Account::transit(fact.channel, &fact.channel_account, currency);
    BalancedEntry::transfer(debit, credit, fact.amount).expect("both accounts are in the amount's currency")
}
