//! Money came that no payment wanted: the channel holds it for us, and until it is given back or claimed it is nobody's.
//! The reason why it was unexpected does not matter here: genuine money is booked, whatever it is called.

use ledger::{Account, BalancedEntry};

use crate::fact::Fact;

/// Debit channel clearing, credit suspense.
///
/// # Panics
/// Never: both accounts are in the amount's currency.
#[must_use]
pub fn entry(fact: &Fact) -> BalancedEntry {
    let currency = fact.amount.currency();
    let debit = Account::clearing(fact.channel, &fact.channel_account, currency);
    let credit = Account::suspense(fact.channel, &fact.channel_account, currency);
    BalancedEntry::transfer(debit, credit, fact.amount).expect("both accounts are in the amount's currency")
}
