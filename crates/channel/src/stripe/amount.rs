//! Money at the border. Ours is in the minor units of ISO 4217; the channel's units are its own for some currencies. What
//! cannot be said in the other's units is refused: nothing is rounded, and nothing passes a float.

use pay_types::{Currency, Money};

use crate::port::StatedAmount;

/// How the channel writes amounts of a currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unit {
    /// Digits after the decimal point.
    digits: u32,
    /// What we send must be a multiple of this.
    step: i64,
}

/// Without a minor unit there. MGA has one by ISO 4217, of which nobody has seen a coin.
const WHOLE: [&str; 15] =
    ["BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF"];
/// Three digits, the last of which must be 0: the card networks have room for two.
const THOUSANDTHS: [&str; 5] = ["BHD", "JOD", "KWD", "OMR", "TND"];
/// No minor unit in the world, but two digits there, both 0, for old callers' sake.
const WHOLE_IN_HUNDREDTHS: [&str; 2] = ["ISK", "UGX"];

const ISO_DIGITS_USUAL: u32 = 2;

/// `None` for a currency that the channel has not told us how it writes: IQD, with three digits by ISO 4217, for one.
fn unit(currency: Currency) -> Option<Unit> {
    let code = currency.code();
    if WHOLE.contains(&code) {
        Some(Unit { digits: 0, step: 1 })
    } else if THOUSANDTHS.contains(&code) {
        Some(Unit { digits: 3, step: 10 })
    } else if WHOLE_IN_HUNDREDTHS.contains(&code) {
        Some(Unit { digits: 2, step: 100 })
    } else {
        (iso_digits(currency) == ISO_DIGITS_USUAL).then_some(Unit { digits: 2, step: 1 })
    }
}

fn iso_digits(currency: Currency) -> u32 {
    u32::from(currency.exponent())
}

/// `amount` with `from` digits, written with `to`; `None` when a digit that is not 0 would get lost.
fn rescaled(amount: i64, from: u32, to: u32) -> Option<i64> {
    let up = amount.checked_mul(10_i64.checked_pow(to.saturating_sub(from))?)?;
    let down = 10_i64.checked_pow(from.saturating_sub(to))?;
    if up.checked_rem(down)? == 0 { up.checked_div(down) } else { None }
}

/// The amount as the channel wants it; `None` when it cannot be asked for.
pub(super) fn to_stripe(money: Money) -> Option<i64> {
    let unit = unit(money.currency())?;
    let amount = rescaled(money.minor(), iso_digits(money.currency()), unit.digits)?;
    (amount.checked_rem(unit.step)? == 0).then_some(amount)
}

/// The currency as the channel writes it.
pub(super) fn currency_to_stripe(currency: Currency) -> String {
    currency.code().to_ascii_lowercase()
}

/// An amount that the channel states, in our units; `None` when it is none. An amount in a currency that does not exist
/// stays as it is: it is compared with ours, and no currency of ours is that one.
pub(super) fn from_stripe(amount: i64, currency: &str) -> Option<StatedAmount> {
    if currency.len() != 3 || !currency.bytes().all(|b| b.is_ascii_lowercase()) {
        return None;
    }
    let code = currency.to_ascii_uppercase();
    let minor = match Currency::from_code(&code) {
        Ok(currency) => rescaled(amount, unit(currency)?.digits, iso_digits(currency))?,
        Err(_) => amount,
    };
    Some(StatedAmount { minor, currency: code })
}

#[cfg(test)]
mod tests {
    use pay_types::AMOUNT_MAX;
    use proptest::prelude::*;

    use super::*;

    fn sent(minor: i64, code: &str) -> Option<i64> {
        to_stripe(Money::try_new(minor, Currency::from_code(code).unwrap()).unwrap())
    }

    fn told(amount: i64, code: &str) -> Option<i64> {
        from_stripe(amount, code).map(|stated| stated.minor)
    }

    /// Each as the channel's own definition has it, not as a round trip would: two mistakes that undo each other are two
    /// mistakes.
    #[test]
    fn amounts_are_sent_in_the_channels_own_units() {
        for (minor, code, amount) in [
            (1999, "USD", Some(1999)),
            (1, "CNY", Some(1)),
            (500, "JPY", Some(500)),
            (18_600, "KWD", Some(18_600)),
            (18_605, "KWD", None),
            (5, "UGX", Some(500)),
            (2000, "ISK", Some(200_000)),
            // 12.00 and 12.50 ariary.
            (1200, "MGA", Some(12)),
            (1250, "MGA", None),
            (1000, "IQD", None),
            (1000, "CLF", None),
            (AMOUNT_MAX, "UGX", Some(AMOUNT_MAX * 100)),
        ] {
            assert_eq!(sent(minor, code), amount, "{minor} {code}");
        }
        for code in WHOLE.iter().filter(|code| **code != "MGA") {
            assert_eq!(sent(7, code), Some(7), "{code}");
        }
        for code in THOUSANDTHS {
            assert_eq!((sent(1230, code), sent(1234, code)), (Some(1230), None), "{code}");
        }
    }

    #[test]
    fn what_is_told_is_read_in_our_units() {
        for (amount, code, minor) in [
            (1999, "usd", Some(1999)),
            (500, "jpy", Some(500)),
            (18_600, "kwd", Some(18_600)),
            // Never sent, and yet an amount.
            (18_605, "kwd", Some(18_605)),
            (500, "ugx", Some(5)),
            (550, "ugx", None),
            (200_000, "isk", Some(2000)),
            (12, "mga", Some(1200)),
            (0, "usd", Some(0)),
            (-1, "usd", Some(-1)),
            (i64::MAX, "mga", None),
            (1, "iqd", None),
            (1, "zzz", Some(1)),
            (1, "USD", None),
            (1, "us", None),
            (1, "usdd", None),
            (1, "", None),
            (1, "元", None),
        ] {
            assert_eq!(told(amount, code), minor, "{amount} {code}");
        }
        assert_eq!(from_stripe(1, "usd").unwrap().currency, "USD");
    }

    proptest! {
        #[test]
        fn what_was_sent_is_told_back_as_it_was(minor in 1..=AMOUNT_MAX, code in "CNY|USD|JPY|KWD|UGX|ISK|MGA|BHD|KRW|HUF|TWD") {
            let money = Money::try_new(minor, Currency::from_code(&code).unwrap()).unwrap();
            if let Some(amount) = to_stripe(money) {
                let stated = from_stripe(amount, &currency_to_stripe(money.currency()));
                prop_assert_eq!(stated, Some(StatedAmount { minor, currency: code }));
            }
        }

        #[test]
        fn any_amount_is_read_or_refused_without_panic(amount: i64, currency in "[a-z]{3}|.{0,6}") {
            let _ = from_stripe(amount, &currency);
        }
    }
}
