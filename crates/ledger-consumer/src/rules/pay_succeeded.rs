//! A payment was paid: the channel holds the money for us, and we owe it to the merchant.

use ledger::{Account, BalancedEntry};

use crate::fact::Fact;

/// Debit channel clearing, credit merchant payable.
///
/// # Panics
/// Never: both accounts are in the amount's currency.
#[must_use]
pub fn entry(fact: &Fact) -> BalancedEntry {
    let currency = fact.amount.currency();
    let debit = Account::clearing(fact.channel, &fact.channel_account, currency);
    let credit = Account::payable(&fact.merchant_id, currency);
    BalancedEntry::transfer(debit, credit, fact.amount).expect("both accounts are in the amount's currency")
}
