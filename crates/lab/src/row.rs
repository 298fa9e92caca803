//! The rows of a record's tables: samples, and notes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One row of `samples.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment.
    pub experiment: String,
    /// Parameters as `NAME=VALUE` words with a blank between.
    pub cell: String,
    /// The round, from 1.
    pub round: u32,
    /// The phase.
    pub phase: String,
    /// The quantity.
    pub quantity: String,
    /// The value.
    pub value: f64,
}

/// One row of `notes.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The experiment; empty for the whole record.
    pub experiment: String,
    /// Parameters as `NAME=VALUE` words with a blank between.
    pub cell: String,
    /// The round, from 1; 0 for the whole record.
    pub round: u32,
    /// [`VIOLATION`], [`REFUSED`] or [`ENDED`].
    pub kind: String,
    /// One line of text.
    pub text: String,
}

impl Note {
    /// The text without the cell, which some refusals begin with.
    pub fn reason(&self) -> &str {
        self.text.strip_prefix(&format!("{} {}: ", self.experiment, self.cell)).unwrap_or(&self.text)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.experiment, self.cell, self.reason())
    }
}

/// Kind of a note: a count, a checksum or a time that can't be right.
pub const VIOLATION: &str = "violation";
/// Kind of a note: the machine can't measure the cell.
pub const REFUSED: &str = "refused";
/// Kind of a note: how a run ended.
pub const ENDED: &str = "ended";
/// Text of a note [`ENDED`]: every cell is finished, or can't be measured.
pub const FINISHED: &str = "finished";
/// Text of a note [`ENDED`]: every cell was measured, but not all with enough rounds.
pub const OUT_OF_TIME: &str = "out of time";
/// Text of a note [`ENDED`]: a request to end.
pub const INTERRUPTED: &str = "interrupted: go on with the same command";
