//! The channel has given the money back: it is neither on its way nor at the channel any more.

use ledger::{Account, BalancedEntry};

use crate::fact::Fact;

/// Debit refunds in transit, credit channel clearing.
///
/// # Panics
/// Never: both accounts are in the amount's currency.
#[must_use]
pub fn entry(fact: &Fact) -> BalancedEntry {
    let currency = fact.amount.currency();
    let debit = Account::transit(fact.channel, &fact.channel_account, currency);
    let credit = Account::clearing(fact.channel, &fact.channel_account, currency);
    BalancedEntry::transfer(debit, credit, fact.amount).expect("both accounts are in the amount's currency")
}
