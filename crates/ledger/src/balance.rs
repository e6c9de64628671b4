//! What a batch of entries adds to each account: one change an account, so that a batch updates each row once.

use std::collections::BTreeMap;

use crate::{AccountCode, BalancedEntry, Side};

/// What a batch adds to one account, minor units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceChange {
    pub code: AccountCode,
    pub debit: i64,
    pub credit: i64,
}

/// The changes of a batch, in the order of their codes; `None` when a sum does not fit 64 bits.
#[must_use]
pub(crate) fn changes<'a>(entries: impl Iterator<Item = &'a BalancedEntry>) -> Option<Vec<BalanceChange>> {
    let mut sums: BTreeMap<&AccountCode, (i64, i64)> = BTreeMap::new();
    for posting in entries.flat_map(BalancedEntry::postings) {
        let (debit, credit) = sums.entry(posting.account.code()).or_default();
        let sum = match posting.side {
            Side::Debit => debit,
            Side::Credit => credit,
        };
        *sum = sum.checked_add(posting.amount.minor())?;
    }
    Some(
        sums.into_iter()
            .map(|(code, (debit, credit))| BalanceChange { code: code.clone(), debit, credit })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use pay_types::{ChannelCode, Currency, Money};

    use super::*;
    use crate::Account;

    #[test]
    fn a_batch_changes_each_account_once_in_the_order_of_codes() {
        let cny = Currency::from_code("CNY").unwrap();
        let clearing = Account::clearing(ChannelCode::Generic, &"main".parse().unwrap(), cny);
        let payable = |merchant: &str| Account::payable(&merchant.parse().unwrap(), cny);
        let entry = |merchant, minor| {
            let amount = Money::try_new(minor, cny).unwrap();
            BalancedEntry::transfer(clearing.clone(), payable(merchant), amount).unwrap()
        };
        let entries = [entry("B", 10), entry("A", 5), entry("B", 1)];
        let changes: Vec<_> = changes(entries.iter())
            .unwrap()
            .into_iter()
            .map(|change| (change.code.to_string(), change.debit, change.credit))
            .collect();
        let wanted = [
            ("clearing:generic:main:CNY".to_owned(), 16, 0),
            ("payable:A:CNY".to_owned(), 0, 5),
            ("payable:B:CNY".to_owned(), 0, 11),
        ];
        assert_eq!(changes, wanted);
    }
}
