//! A change of a figure, or of a cell, between two records of the lab. `lab` finds it, `report` shows it.

use crate::measurement::Interval;

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// More than before, beyond noise.
    More,
    /// Less than before, beyond noise.
    Less,
    /// Only in the second.
    Added,
    /// Only in the first.
    Removed,
    /// No difference detected.
    Alike,
}

impl Direction {
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

/// A figure of both records, or of one alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What became of it.
    pub kind: Direction,
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
    /// The second figure over the first; `None` without such a ratio.
    pub ratio: Option<Interval>,
}
