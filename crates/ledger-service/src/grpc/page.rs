//! Pages: sizes, and tokens that name the last row of the page before.

use contract::reason::Refusal;
use contract::validate;
use pay_types::Invalid;

/// Rows a page when the caller names no number.
const SIZE_DEFAULT: usize = 100;
/// Most rows a page: under a megabyte on the wire.
const SIZE_MAX: usize = 500;

/// Rows that a page holds.
pub(super) fn size(asked: i32) -> Result<usize, Refusal> {
    match usize::try_from(asked) {
        Ok(0) => Ok(SIZE_DEFAULT),
        Ok(size) if size <= SIZE_MAX => Ok(size),
        _ => Err(validate::invalid(Invalid::new("page_size", "must be 1 to 500"))),
    }
}

/// The key in a token; `None` for the first page.
pub(super) fn after(token: &str) -> Result<Option<String>, Refusal> {
    if token.is_empty() {
        return Ok(None);
    }
    let key = hex::decode(token)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|key| !key.contains('\0'));
    key.map(Some).ok_or_else(wrong)
}

/// The refusal of a token that is none of ours.
pub(super) fn wrong() -> Refusal {
    validate::invalid(Invalid::new("page_token", "must be the next_page_token of the page before"))
}

/// Cuts a page to `size` rows; one more row tells that there is another page, whose token names the last row kept.
pub(super) fn cut<T>(rows: &mut Vec<T>, size: usize, key: impl Fn(&T) -> String) -> String {
    if rows.len() <= size {
        return String::new();
    }
    rows.truncate(size);
    rows.last().map(|row| hex::encode(key(row))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_the_last_row_and_a_foreign_one_is_refused() {
        let mut rows = vec!["a", "b", "c"];
        let token = cut(&mut rows, 2, |row| (*row).to_owned());
        assert_eq!((rows.len(), after(&token).unwrap().as_deref()), (2, Some("b")));
        assert_eq!(cut(&mut rows, 2, |row| (*row).to_owned()), "");
        for foreign in ["x", "zz", "ff", "00"] {
            assert!(after(foreign).is_err(), "{foreign}");
        }
        assert!(size(-1).is_err() && size(501).is_err());
    }
}
