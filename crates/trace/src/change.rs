//! What became of one figure, or of one cell, between two records of the lab: `lab` finds it, `report` tells it.

use crate::measurement::Interval;

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// More than before, beyond noise.
    More,
    /// Less than before, beyond noise.
    Less,
    /// Only in the second.
    Added,
    /// Only in the first.
    Removed,
    /// The same as far as can be told.
    Alike,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::More, Self::Less, Self::Added, Self::Removed, Self::Alike];

    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Alike => "alike",
        }
    }
}

/// A figure of both records, or what only one has.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What became of it.
    pub kind: Kind,
    /// The experiment.
    pub experiment: String,
    /// The cell's parameters as `NAME=VALUE` words.
    pub cell: String,
    /// The phase; empty for a whole cell.
    pub phase: String,
    /// The quantity; empty for a whole cell.
    pub quantity: String,
    /// Medians with their intervals.
    pub figures: [Option<Interval>; 2],
    /// How many times the first the second is; none where there is no such number.
    pub ratio: Option<Interval>,
}
