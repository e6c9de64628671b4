//! Stripe's own minor units, which are not always those of ISO 4217.

use pay_types::{Currency, Money};

/// Currencies that Stripe counts in whole units. MGA has a minor unit by ISO 4217, and not here; UGX and ISK have none there
/// and two digits here, both of them zero.
const WHOLE: [&str; 15] =
    ["BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF"];
/// Currencies of three digits.
const THREE: [&str; 5] = ["BHD", "JOD", "KWD", "OMR", "TND"];

fn exponent(code: &str) -> u32 {
    if WHOLE.contains(&code) {
        0
    } else if THREE.contains(&code) {
        3
    } else {
        2
    }
}

fn scaled(amount: i64, from: u32, to: u32) -> Option<i64> {
    let up = amount.checked_mul(10_i64.checked_pow(to.saturating_sub(from))?)?;
    let down = 10_i64.checked_pow(from.saturating_sub(to))?;
    (up.checked_rem(down)? == 0).then(|| up.checked_div(down)).flatten()
}

/// What Stripe's amount in a lower-case currency is in ISO 4217's minor units, with the upper-case code. `None`: Stripe would
/// not take it.
pub(super) fn from_stripe(amount: i64, currency: &str) -> Option<(i64, String)> {
    if currency.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let currency = Currency::from_code(&currency.to_ascii_uppercase()).ok()?;
    let three = exponent(currency.code()) == 3;
    // Card networks carry two digits only.
    if three && amount.checked_rem(10) != Some(0) {
        return None;
    }
    let minor = scaled(amount, exponent(currency.code()), u32::from(currency.exponent()))?;
    Money::try_new(minor, currency).ok().map(|money| (money.minor(), currency.code().to_owned()))
}

/// ISO 4217's minor units as Stripe states them.
pub(super) fn to_stripe(minor: i64, currency: &str) -> i64 {
    let iso = Currency::from_code(currency).map_or(2, |currency| u32::from(currency.exponent()));
    // A wrong amount of a lie may have a digit that Stripe has no place for; it stays a wrong amount.
    scaled(minor, iso, exponent(currency)).unwrap_or(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_in_stripes_exponents() {
        for (stripe, currency, minor) in [
            (1234, "cny", Some(1234)),
            (500, "jpy", Some(500)),
            (5, "mga", Some(500)),
            (500, "ugx", Some(5)),
            (550, "ugx", None),
            (1200, "isk", Some(12)),
            (18_600, "kwd", Some(18_600)),
            (18_601, "kwd", None),
            (0, "usd", None),
            (1, "USD", None),
            (1, "xxx", None),
        ] {
            let read = from_stripe(stripe, currency);
            assert_eq!(read.as_ref().map(|(minor, _)| *minor), minor, "{stripe} {currency}");
            if let Some((minor, code)) = read {
                assert_eq!(to_stripe(minor, &code), stripe, "{currency}");
            }
        }
    }
}
