//! Gate 10, the rule: a refund goes forward only, and ends once.
//!
//! SQL repeats the rule in the `WHERE` of the one update that moves a refund, and a trigger holds it a third time.

use std::fmt;
use std::str::FromStr;

use crate::Invalid;

/// State of a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefundState {
    /// Decided; the channel was surely not called.
    Pending,
    /// The channel may have been called; what it did is not known.
    Submitted,
    /// The channel said that it took the refund; the money is on its way.
    Processing,
    /// The channel said that the money is back. Terminal.
    Success,
    /// The channel said that it never will be. Terminal.
    Fail,
}

impl RefundState {
    pub const ALL: [Self; 5] = [Self::Pending, Self::Submitted, Self::Processing, Self::Success, Self::Fail];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Submitted => "SUBMITTED",
            Self::Processing => "PROCESSING",
            Self::Success => "SUCCESS",
            Self::Fail => "FAIL",
        }
    }

    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Success | Self::Fail)
    }

    /// What the channel's word does to a refund in this state.
    pub fn advance(self, word: RefundWord) -> RefundAdvance {
        match (self, word) {
            (Self::Pending | Self::Submitted, RefundWord::Taken | RefundWord::Abnormal) => {
                RefundAdvance::To(Self::Processing)
            }
            (Self::Pending | Self::Submitted | Self::Processing, RefundWord::Succeeded) => {
                RefundAdvance::To(Self::Success)
            }
            (Self::Pending | Self::Submitted | Self::Processing, RefundWord::Failed) => {
                RefundAdvance::To(Self::Fail)
            }
            (Self::Success, RefundWord::Succeeded)
            | (Self::Fail, RefundWord::Failed)
            | (Self::Processing, RefundWord::Taken | RefundWord::Abnormal) => RefundAdvance::Known,
            (Self::Success | Self::Fail, RefundWord::Taken | RefundWord::Abnormal) => RefundAdvance::Stay,
            (Self::Success, RefundWord::Failed) => RefundAdvance::Returned,
            (Self::Fail, RefundWord::Succeeded) => RefundAdvance::Contradiction,
        }
    }
}

impl FromStr for RefundState {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(Invalid::new("state", "must be PENDING, SUBMITTED, PROCESSING, SUCCESS or FAIL"))
    }
}

impl fmt::Display for RefundState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The channel's *explicit* word about a refund. Anything else it says moves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefundWord {
    /// Taken, not done yet.
    Taken,
    /// Stuck at the channel: not back and not failed. The amount stays reserved, and a person must act there.
    Abnormal,
    Succeeded,
    Failed,
}

/// What follows from the channel's word about a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum RefundAdvance {
    /// Move to this state, by compare-and-set.
    To(RefundState),
    /// The fact is known.
    Known,
    /// A late or reordered word; nothing changes.
    Stay,
    /// The money had gone back and has come home: a new fact beside the refund, whose state stays.
    Returned,
    /// It ended otherwise: money may have moved a second time, and a person must look.
    Contradiction,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [RefundWord; 4] =
        [RefundWord::Taken, RefundWord::Abnormal, RefundWord::Succeeded, RefundWord::Failed];

    /// Fails if any arm of `advance` leaves a terminal state.
    #[test]
    fn no_word_moves_a_refund_that_has_ended() {
        for state in RefundState::ALL.into_iter().filter(|s| s.is_terminal()) {
            for word in WORDS {
                assert!(!matches!(state.advance(word), RefundAdvance::To(_)), "{state} {word:?}");
            }
        }
    }

    /// Fails if any arm goes back a step: states are listed in their order.
    #[test]
    fn every_move_of_a_refund_is_forward() {
        let place = |state| RefundState::ALL.iter().position(|s| *s == state);
        for state in RefundState::ALL {
            assert_eq!(state.as_str().parse::<RefundState>().unwrap(), state);
            for word in WORDS {
                if let RefundAdvance::To(next) = state.advance(word) {
                    assert!(place(next) > place(state), "{state} {word:?}");
                }
            }
        }
    }
}
