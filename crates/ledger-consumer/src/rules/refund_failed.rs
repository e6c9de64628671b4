//! The channel will not give the money back: it is still there, and in suspense again until a person decides.

use ledger::{Account, BalancedEntry};

use crate::fact::Fact;

/// Debit refunds in transit, credit suspense: the reverse of its submission.
///
/// # Panics
/// Never: both accounts are in the amount's currency.
#[must_use]
pub fn entry(fact: &Fact) -> BalancedEntry {
    let currency = fact.amount.currency();
    let debit = Account::transit(fact.channel, &fact.channel_account, currency);
    let credit = Account::suspense(fact.channel, &fact.channel_account, currency);
    BalancedEntry::transfer(debit, credit, fact.amount).expect("both accounts are in the amount's currency")
}
