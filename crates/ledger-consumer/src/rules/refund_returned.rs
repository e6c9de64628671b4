//! Money that had gone back came home: the channel holds it again, and it is owed to the merchant again, or in suspense
//! until a person decides. The refund stays a success; this is a fact beside it.

use ledger::{Account, BalancedEntry};

use crate::fact::Fact;
use crate::rules::source;

/// Debit channel clearing, credit merchant payable or suspense: the reverse of submission and success together.
///
/// # Panics
/// Never for a fact about a refund: both accounts are in the amount's currency.
#[must_use]
pub fn entry(fact: &Fact) -> BalancedEntry {
    let debit = Account::clearing(fact.channel, &fact.channel_account, fact.amount.currency());
    let credit = source(fact);
    BalancedEntry::transfer(debit, credit, fact.amount).expect("both accounts are in the amount's currency")
}
