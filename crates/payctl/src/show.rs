//! How values are written for people.

use pay_types::{Currency, Money};
use time::OffsetDateTime;
use time::macros::format_description;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

pub(crate) fn at(time: OffsetDateTime) -> String {
    let form = format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]");
    time.format(form).unwrap_or_default()
}

pub(crate) fn at_opt(time: Option<OffsetDateTime>) -> String {
    time.map_or_else(|| "-".to_owned(), at)
}

/// An amount as people read it; one that is none as it is stored.
pub(crate) fn money(minor: i64, currency: &str) -> String {
    Currency::from_code(currency)
        .and_then(|currency| Money::try_new(minor, currency))
        .map_or_else(|_| format!("{minor} {currency} (minor units)"), |money| money.to_string())
}

/// How long, in the two largest units.
pub(crate) fn age(seconds: i64) -> String {
    let part = |of: i64, unit: i64| of.checked_div(unit).unwrap_or_default();
    let rest = |unit: i64| seconds.checked_rem(unit).unwrap_or_default();
    match seconds {
        DAY.. => format!("{}d{:02}h", part(seconds, DAY), part(rest(DAY), HOUR)),
        HOUR.. => format!("{}h{:02}m", part(seconds, HOUR), part(rest(HOUR), MINUTE)),
        MINUTE.. => format!("{}m{:02}s", part(seconds, MINUTE), rest(MINUTE)),
        _ => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_its_two_largest_units() {
        let told =
            [(0, "0s"), (59, "59s"), (60, "1m00s"), (3599, "59m59s"), (3600, "1h00m"), (86_399, "23h59m")];
        for (seconds, text) in told.into_iter().chain([(86_400, "1d00h"), (1_000_000, "11d13h")]) {
            assert_eq!(age(seconds), text);
        }
    }

    #[test]
    fn an_amount_that_is_none_is_told_as_stored() {
        assert_eq!(money(0, "CNY"), "0 CNY (minor units)");
        assert_eq!(money(-5, "XX"), "-5 XX (minor units)");
    }
}
