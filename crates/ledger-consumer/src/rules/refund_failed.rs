//! The channel will not give the money back: it is still there, and owed to the merchant again, or in suspense until a
//! person decides.

use ledger::{Account, BalancedEntry};

use crate::fact::Fact;
use crate::rules::source;

/// Debit refunds in transit, credit merchant payable or suspense: the reverse of its submission.
///
/// # Panics
/// Never for a fact about a refund: both accounts are in the amount's currency.
#[must_use]
pub fn entry(fact: &Fact) -> BalancedEntry {
    let debit = Account::transit(fact.channel, &fact.channel_account, fact.amount.currency());
    let credit = source(fact);
    BalancedEntry::transfer(debit, credit, fact.amount).expect("both accounts are in the amount's currency")
}
