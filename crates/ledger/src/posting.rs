//! Double entry as a type: a [`BalancedEntry`] cannot be built unless debits equal credits in each currency.
//!
//! The database holds the same rule by a trigger, for whoever does not come through here.

use pay_types::{Currency, Money, MoneyError};

use crate::{Account, Side};

/// Most postings of one entry. The widest fact of the design has two; a split among parties would have dozens.
pub const LINES_MAX: usize = 100;

/// Why postings are no entry. All of these are faults of the rule that made them, and trying again cannot help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("an entry needs 2 to {LINES_MAX} postings, not {0}")]
    Lines(usize),
    #[error("account {account} holds no {currency}")]
    OtherCurrency { account: String, currency: Currency },
    #[error("debits are {debit} and credits {credit} minor units of {currency}")]
    Unbalanced { currency: Currency, debit: i64, credit: i64 },
    #[error("a sum of postings does not fit")]
    Sum(#[from] MoneyError),
}

/// One line of an entry. The amount is positive: [`Money`] cannot be otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    pub account: Account,
    pub side: Side,
    pub amount: Money,
}

/// Postings whose debits equal their credits, per currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalancedEntry(Vec<Posting>);

impl BalancedEntry {
    /// Takes postings that balance.
    ///
    /// # Errors
    /// [`Error`] telling what is wrong with them.
    pub fn try_new(postings: Vec<Posting>) -> Result<Self, Error> {
        if !(2..=LINES_MAX).contains(&postings.len()) {
            return Err(Error::Lines(postings.len()));
        }
        // A handful of currencies at most: a list keeps their order and needs no hash.
        let mut sums: Vec<(Currency, Option<Money>, Option<Money>)> = Vec::new();
        for Posting { account, side, amount } in &postings {
            let currency = amount.currency();
            if account.currency() != currency {
                return Err(Error::OtherCurrency { account: account.code().to_string(), currency });
            }
            let place = sums.iter().position(|(known, _, _)| *known == currency).unwrap_or_else(|| {
                sums.push((currency, None, None));
                sums.len().saturating_sub(1)
            });
            let Some((_, debit, credit)) = sums.get_mut(place) else { continue };
            let sum = match side {
                Side::Debit => debit,
                Side::Credit => credit,
            };
            *sum = Some(match *sum {
                Some(sum) => sum.checked_add(*amount)?,
                None => *amount,
            });
        }
        for (currency, debit, credit) in sums {
            if debit != credit {
                let minor = |sum: Option<Money>| sum.map_or(0, Money::minor);
                return Err(Error::Unbalanced { currency, debit: minor(debit), credit: minor(credit) });
            }
        }
        Ok(Self(postings))
    }

    /// The commonest entry: one amount moves from `credit` to `debit`.
    ///
    /// # Errors
    /// [`Error::OtherCurrency`] when one of the accounts is not in the amount's currency.
    pub fn transfer(debit: Account, credit: Account, amount: Money) -> Result<Self, Error> {
        Self::try_new(vec![
            Posting { account: debit, side: Side::Debit, amount },
            Posting { account: credit, side: Side::Credit, amount },
        ])
    }

    /// The postings; line numbers are their places, from 1.
    #[must_use]
    pub fn postings(&self) -> &[Posting] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use pay_types::{AMOUNT_MAX, ChannelCode};
    use proptest::prelude::*;

    use super::*;

    fn currency(code: &str) -> Currency {
        Currency::from_code(code).unwrap()
    }

    fn money(minor: i64, code: &str) -> Money {
        Money::try_new(minor, currency(code)).unwrap()
    }

    fn clearing(code: &str) -> Account {
        Account::clearing(ChannelCode::Generic, &"main".parse().unwrap(), currency(code))
    }

    fn payable(code: &str) -> Account {
        Account::payable(&"M1".parse().unwrap(), currency(code))
    }

    fn line(side: Side, minor: i64, code: &str) -> Posting {
        let account = if side == Side::Debit { clearing(code) } else { payable(code) };
        Posting { account, side, amount: money(minor, code) }
    }

    #[test]
    fn an_unbalanced_entry_cannot_be_built() {
        let lines = vec![line(Side::Debit, 100, "CNY"), line(Side::Credit, 99, "CNY")];
        let wanted = Error::Unbalanced { currency: currency("CNY"), debit: 100, credit: 99 };
        assert_eq!(BalancedEntry::try_new(lines), Err(wanted));
    }

    #[test]
    fn currencies_balance_each_for_itself() {
        let crossed = vec![line(Side::Debit, 100, "CNY"), line(Side::Credit, 100, "JPY")];
        assert!(matches!(BalancedEntry::try_new(crossed), Err(Error::Unbalanced { .. })));
        let both = vec![
            line(Side::Debit, 100, "CNY"),
            line(Side::Debit, 7, "JPY"),
            line(Side::Credit, 100, "CNY"),
            line(Side::Credit, 7, "JPY"),
        ];
        assert!(BalancedEntry::try_new(both).is_ok());
    }

    #[test]
    fn an_account_refuses_another_currency() {
        let refused = BalancedEntry::transfer(clearing("CNY"), payable("JPY"), money(1, "CNY"));
        assert!(matches!(refused, Err(Error::OtherCurrency { .. })));
    }

    #[test]
    fn one_posting_is_no_entry_and_too_many_are_refused() {
        assert_eq!(BalancedEntry::try_new(vec![]), Err(Error::Lines(0)));
        assert_eq!(BalancedEntry::try_new(vec![line(Side::Debit, 1, "CNY")]), Err(Error::Lines(1)));
        let many = vec![line(Side::Debit, AMOUNT_MAX, "CNY"); LINES_MAX + 1];
        assert_eq!(BalancedEntry::try_new(many), Err(Error::Lines(LINES_MAX + 1)));
    }

    proptest! {
        /// Whatever the lines are, an entry exists exactly when its sums agree, by a sum that cannot overflow.
        #[test]
        fn an_entry_exists_exactly_when_it_balances(
            lines in prop::collection::vec((any::<bool>(), 1_i64..50, any::<bool>()), 2..8)
        ) {
            let postings: Vec<_> = lines
                .iter()
                .map(|(debit, minor, yuan)| {
                    line(if *debit { Side::Debit } else { Side::Credit }, *minor, if *yuan { "CNY" } else { "JPY" })
                })
                .collect();
            let sum = |debit: bool, yuan: bool| -> i64 {
                lines.iter().filter(|line| line.0 == debit && line.2 == yuan).map(|line| line.1).sum()
            };
            let balanced = [true, false].into_iter().all(|yuan| sum(true, yuan) == sum(false, yuan));
            prop_assert_eq!(BalancedEntry::try_new(postings).is_ok(), balanced);
        }
    }
}
