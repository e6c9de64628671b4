//! The ten gates by name: the label of metrics, logs and documents.

use std::fmt;

/// One gate of the design; `docs/GATES.md` tells each one's hole, place and test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Gate {
    /// Client key.
    G1,
    /// Single flight.
    G2,
    /// Lease.
    G3,
    /// Idempotent log.
    G4,
    /// Unique order.
    G5,
    /// Forward only.
    G6,
    /// Callback.
    G7,
    /// Consumer.
    G8,
    /// Truth.
    G9,
    /// Refund.
    G10,
}

impl Gate {
    pub const ALL: [Self; 10] =
        [Self::G1, Self::G2, Self::G3, Self::G4, Self::G5, Self::G6, Self::G7, Self::G8, Self::G9, Self::G10];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::G1 => "G1",
            Self::G2 => "G2",
            Self::G3 => "G3",
            Self::G4 => "G4",
            Self::G5 => "G5",
            Self::G6 => "G6",
            Self::G7 => "G7",
            Self::G8 => "G8",
            Self::G9 => "G9",
            Self::G10 => "G10",
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
