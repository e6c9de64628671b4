//! Why a message is set aside instead of being booked. Its partition goes on; a person, or a later version, posts it.
//!
//! Only what the message itself is to blame for is parked. A database that is away, a conflict of transactions, a missing
//! grant: for those the consumer waits.

use std::fmt;

/// Longest text of a cause that is kept, characters; it quotes at most one name from the message.
const TEXT_CHARS_MAX: usize = 300;

/// Why, for the column `error`: a stable code and words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// No value, or none that is an event.
    Undecodable(String),
    /// The record's headers tell of another event than its value.
    HeaderDiffers { header: &'static str },
    /// A field breaks its rule.
    FieldInvalid { field: &'static str, rule: &'static str },
    /// No rule books this kind. It may be younger than this program.
    UnknownKind(String),
    /// This fact was consumed with another value. One of the two is wrong.
    ConflictingBody,
    /// The database refused it, alone and for its own sake.
    Refused(String),
}

impl Cause {
    /// Stable, for metrics and runbooks.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Undecodable(_) => "UNDECODABLE",
            Self::HeaderDiffers { .. } => "HEADER_DIFFERS",
            Self::FieldInvalid { .. } => "FIELD_INVALID",
            Self::UnknownKind(_) => "UNKNOWN_KIND",
            Self::ConflictingBody => "CONFLICTING_BODY",
            Self::Refused(_) => "REFUSED",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code();
        match self {
            Self::Undecodable(detail) | Self::Refused(detail) => write!(f, "{code}: {}", printable(detail)),
            Self::HeaderDiffers { header } => {
                write!(f, "{code}: {header} is missing or tells of another event")
            }
            Self::FieldInvalid { field, rule } => write!(f, "{code}: {field} {rule}"),
            Self::UnknownKind(kind) => write!(f, "{code}: no rule books {}", printable(kind)),
            Self::ConflictingBody => write!(f, "{code}: the same msg_key was consumed with another value"),
        }
    }
}

impl From<pay_types::Invalid> for Cause {
    fn from(invalid: pay_types::Invalid) -> Self {
        Self::FieldInvalid { field: invalid.field, rule: invalid.rule }
    }
}

/// Text that a log line and a `TEXT` column can take, whatever a message holds.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_never_breaks_the_column_or_the_line_it_is_written_to() {
        let cause = Cause::UnknownKind(format!("A\0B\n{}", "x".repeat(5000))).to_string();
        assert!(cause.starts_with("UNKNOWN_KIND: no rule books A\u{fffd}B\u{fffd}xx"));
        assert!(cause.chars().count() < 400);
    }
}
