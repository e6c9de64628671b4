//! Gate 6, the rule: a payment's state leaves `PROCESSING` once and never changes again.
//!
//! SQL repeats the rule in the `WHERE` of the one update that moves a payment, and a trigger holds it a third time.

use std::fmt;
use std::str::FromStr;

use crate::Invalid;

/// State of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PaymentState {
    /// Created; the outcome is not known. *Unknown is a state.*
    Processing,
    /// The channel said that it was paid. Terminal.
    Success,
    /// The channel said that it can never be paid any more. Terminal.
    Fail,
    /// The channel confirmed that it is closed. Terminal.
    Closed,
}

impl PaymentState {
    pub const ALL: [Self; 4] = [Self::Processing, Self::Success, Self::Fail, Self::Closed];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "PROCESSING",
            Self::Success => "SUCCESS",
            Self::Fail => "FAIL",
            Self::Closed => "CLOSED",
        }
    }

    #[must_use]
    pub fn is_terminal(self) -> bool {
        self != Self::Processing
    }

    /// What the channel's word does to a payment in this state.
    pub fn advance(self, word: ChannelWord) -> Advance {
        match (self, word) {
            (Self::Processing, ChannelWord::Paid) => Advance::To(Self::Success),
            (Self::Processing, ChannelWord::Failed) => Advance::To(Self::Fail),
            (Self::Processing, ChannelWord::Closed) => Advance::To(Self::Closed),
            (Self::Success, ChannelWord::Paid) => Advance::AlreadyPaid,
            (Self::Fail | Self::Closed, ChannelWord::Paid) => Advance::PaidTooLate,
            (Self::Success | Self::Fail | Self::Closed, ChannelWord::Failed | ChannelWord::Closed) => {
                Advance::Stay
            }
        }
    }
}

impl FromStr for PaymentState {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(Invalid::new("state", "must be PROCESSING, SUCCESS, FAIL or CLOSED"))
    }
}

impl fmt::Display for PaymentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The channel's *explicit* word about a payment. Anything else it says moves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelWord {
    Paid,
    Failed,
    Closed,
}

/// What follows from the channel's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Advance {
    /// Move to this state, by compare-and-set.
    To(PaymentState),
    /// Paid already; another transaction id means money that nobody wanted.
    AlreadyPaid,
    /// The payment had ended without money, and money came: an unexpected receipt.
    PaidTooLate,
    /// A late or reordered word; nothing changes.
    Stay,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if any arm of `advance` leaves a terminal state.
    #[test]
    fn no_word_moves_a_terminal_state() {
        for state in PaymentState::ALL.into_iter().filter(|s| s.is_terminal()) {
            for word in [ChannelWord::Paid, ChannelWord::Failed, ChannelWord::Closed] {
                assert!(!matches!(state.advance(word), Advance::To(_)), "{state} {word:?}");
            }
        }
    }

    #[test]
    fn every_word_moves_a_payment_in_process() {
        assert_eq!(PaymentState::Processing.advance(ChannelWord::Paid), Advance::To(PaymentState::Success));
        assert_eq!(PaymentState::Processing.advance(ChannelWord::Failed), Advance::To(PaymentState::Fail));
        assert_eq!(PaymentState::Processing.advance(ChannelWord::Closed), Advance::To(PaymentState::Closed));
    }
}
