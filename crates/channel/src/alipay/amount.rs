//! Yuan as the channel writes them, `88.88`, and the fen that we count in. Text is read as text: no float comes near money.

use pay_types::AMOUNT_MAX;

/// Fen of one yuan.
const FEN: i64 = 100;

/// Fen of a text in yuan. `None` for anything but plain digits with at most two behind one point.
pub(super) fn fen(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').map_or((text, None), |(whole, part)| (whole, Some(part)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || whole.len() > 15 || part.is_some_and(|part| !digits(part) || part.len() > 2) {
        return None;
    }
    let part = match part {
        None => 0,
        Some(part) if part.len() == 1 => part.parse::<i64>().ok()?.checked_mul(10)?,
        Some(part) => part.parse::<i64>().ok()?,
    };
    let fen = whole.parse::<i64>().ok()?.checked_mul(FEN)?.checked_add(part)?;
    (fen <= AMOUNT_MAX).then_some(fen)
}

/// A text in yuan, with two digits behind the point.
pub(super) fn yuan(fen: i64) -> String {
    let (whole, part) = (fen.checked_div(FEN).unwrap_or(0), fen.checked_rem(FEN).unwrap_or(0));
    format!("{whole}.{part:02}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_plain_yuan_are_money() {
        for (text, value) in
            [("100", 10_000), ("100.0", 10_000), ("100.00", 10_000), ("0.01", 1), ("8.20", 820)]
        {
            assert_eq!(fen(text), Some(value), "{text}");
        }
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "1E+2",
            "100.001",
            "-100.00",
            "+1",
            "NaN",
            "１００",
            "100,00",
            " 100.00",
            "100.00 ",
            "1.2.3",
            "0x10",
            "99999999999999999999",
            "9999999999999.99",
        ] {
            assert_eq!(fen(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_comes_back_as_it_went(value in 0..=AMOUNT_MAX) {
            prop_assert_eq!(fen(&yuan(value)), Some(value));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = fen(&text);
        }
    }
}
