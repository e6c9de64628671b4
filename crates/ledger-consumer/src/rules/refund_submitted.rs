//! Money is being sent back: the merchant is owed it no more, or it is no more in suspense; and it is not yet out of the
//! channel.

use ledger::{Account, BalancedEntry};

use crate::fact::Fact;
use crate::rules::source;

/// Debit merchant payable, or suspense for a receipt that no payment wanted; credit refunds in transit.
///
/// # Panics
/// Never for a fact about a refund: both accounts are in the amount's currency.
#[must_use]
pub fn entry(fact: &Fact) -> BalancedEntry {
    let debit = source(fact);
    let credit = Account::transit(fact.channel, &fact.channel_account, fact.amount.currency());
    BalancedEntry::transfer(debit, credit, fact.amount).expect("both accounts are in the amount's currency")
}
