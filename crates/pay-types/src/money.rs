//! Money: integer minor units with an ISO 4217 currency. Checked arithmetic, no floats, no conversion between currencies.

use std::fmt;

use crate::Invalid;

/// Largest amount of one payment, in minor units. Running totals are 64 bits wide: nine million payments of this size
/// fit into one account's shard before a total could overflow, and the sum is checked all the same.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000;

/// An ISO 4217 currency that has a minor unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency(iso_currency::Currency);

impl Currency {
    /// Reads an upper-case alphabetic code.
    ///
    /// # Errors
    /// [`Invalid`] when the code is not ISO 4217 or names no money that can be paid with (XAU, XXX …).
    pub fn from_code(code: &str) -> Result<Self, Invalid> {
        iso_currency::Currency::from_code(code)
            .filter(|c| c.exponent().is_some())
            .map(Self)
            .ok_or(Invalid::new("currency", "must be an ISO 4217 code in upper case, for example CNY"))
    }

    #[must_use]
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    /// Digits after the decimal point, by ISO 4217.
    #[must_use]
    pub fn exponent(self) -> u16 {
        self.0.exponent().expect("checked by the constructor")
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// What can go wrong with two amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("amounts are in different currencies, {0} and {1}")]
    CurrencyDiffers(Currency, Currency),
    #[error("the sum does not fit 64 bits")]
    Overflow,
}

/// A positive amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Money {
    minor: i64,
    currency: Currency,
}

impl Money {
    /// An amount of `minor` units.
    ///
    /// # Errors
    /// [`Invalid`] unless `1 <= minor <= AMOUNT_MAX`.
    pub fn try_new(minor: i64, currency: Currency) -> Result<Self, Invalid> {
        if (1..=AMOUNT_MAX).contains(&minor) {
            Ok(Self { minor, currency })
        } else {
            Err(Invalid::new("amount", "must be 1 to 1000000000000 minor units"))
        }
    }

    /// Minor units: fen, cent, yen.
    #[must_use]
    pub fn minor(self) -> i64 {
        self.minor
    }

    #[must_use]
    pub fn currency(self) -> Currency {
        self.currency
    }

    /// The sum of two amounts of one currency.
    ///
    /// # Errors
    /// [`MoneyError`] for two currencies or a sum over 64 bits.
    pub fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        if self.currency != other.currency {
            return Err(MoneyError::CurrencyDiffers(self.currency, other.currency));
        }
        let minor = self.minor.checked_add(other.minor).ok_or(MoneyError::Overflow)?;
        Ok(Self { minor, currency: self.currency })
    }
}

impl fmt::Display for Money {
    /// Major units with the currency's own number of digits: `12.34 CNY`, `500 JPY`, `18.600 KWD`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exponent = self.currency.exponent();
        let scale = 10_i64.checked_pow(u32::from(exponent)).unwrap_or(1);
        let (major, rest) = (self.minor.checked_div(scale), self.minor.checked_rem(scale));
        match (major, rest) {
            (Some(major), Some(rest)) if exponent > 0 => {
                write!(f, "{major}.{rest:0width$} {}", self.currency, width = usize::from(exponent))
            }
            _ => write!(f, "{} {}", self.minor, self.currency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_outside_the_limits_are_refused() {
        let cny = Currency::from_code("CNY").unwrap();
        for bad in [i64::MIN, -1, 0, AMOUNT_MAX + 1, i64::MAX] {
            assert_eq!(Money::try_new(bad, cny).unwrap_err().field, "amount");
        }
        assert!(Money::try_new(AMOUNT_MAX, cny).is_ok());
    }

    #[test]
    fn only_currencies_of_iso_4217_exist() {
        for bad in ["", "cny", "CNYY", "ABC", "XXX", "¥"] {
            assert!(Currency::from_code(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn text_uses_the_currencys_own_digits() {
        let text =
            |minor, code| Money::try_new(minor, Currency::from_code(code).unwrap()).unwrap().to_string();
        assert_eq!(text(1234, "CNY"), "12.34 CNY");
        assert_eq!(text(5, "CNY"), "0.05 CNY");
        assert_eq!(text(500, "JPY"), "500 JPY");
        assert_eq!(text(18_600, "KWD"), "18.600 KWD");
    }

    #[test]
    fn two_currencies_never_add() {
        let one = Money::try_new(1, Currency::from_code("CNY").unwrap()).unwrap();
        let other = Money::try_new(1, Currency::from_code("USD").unwrap()).unwrap();
        assert!(matches!(one.checked_add(other), Err(MoneyError::CurrencyDiffers(..))));
    }
}
