//! Pages of lists: their sizes, and the token of the next one.

use contract::reason::Refusal;
use contract::validate;
use pay_types::Invalid;

/// Rows a page when the caller names no number.
const PAGE_DEFAULT: usize = 50;
/// Most rows a page: about 200 KiB on the wire.
const PAGE_MAX: usize = 200;

/// Rows of the page that was asked for.
pub(super) fn size(asked: i32) -> Result<usize, Refusal> {
    match usize::try_from(asked) {
        Ok(0) => Ok(PAGE_DEFAULT),
        Ok(size) if size <= PAGE_MAX => Ok(size),
        Ok(_) | Err(_) => Err(validate::invalid(Invalid::new("page_size", "must be 1 to 200"))),
    }
}

/// Rows to read: one more than the page tells whether there is another one.
pub(super) fn rows_max(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX).saturating_add(1)
}

/// Cuts to the page, with the token of the next one.
pub(super) fn cut<T>(mut rows: Vec<T>, size: usize, number: impl Fn(&T) -> String) -> (Vec<T>, String) {
    let full = rows.len() > size;
    rows.truncate(size);
    let token = rows.last().filter(|_| full).map(number).unwrap_or_default();
    (rows, token)
}
