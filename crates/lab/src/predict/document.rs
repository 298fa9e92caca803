//! The third document's tables: the model is fitted to seven rows and predicts the other nine.
//!
//! In: [`Source`], which notes every row that is read. Out: parameter sets that reproduce the fitted rows ([`Fit`]),
//! and for each row the interval of what these sets give ([`Predicted`]).
//!
//! # Facts of the fitted rows
//!
//! * Path, lock and clearing of one page are together 14.37 us (one thread without the patch).
//! * The first repetitions find zeroed pages; later ones find what the scrubbers have made since. So the
//!   patched row of one thread is the path, and clearing times the share of misses. That share is unknown
//!   between 0 and the value at which the path is as short as in the table of lines.
//! * The difference of 1 and 128 lines gives the price of a line.
//!
//! # Ranges
//!
//! The share of misses, the part of the path under the page-table lock, the price of moving the lock to
//! another processor, and how much streams slow each other down. The rows of 2, 4 and 8 threads without the
//! patch decide: a set weighs by its distance from their rates, in units of [`REPEATED`]. Their CPU time tells
//! how many threads run on average; the model's threads have unequal work so that as many run. Further ranges
//! that no fitted row tells: how much memory was free at the start, how many scrubbers share the
//! work, what they get of a busy processor, and how the price of a line depends on their number. Structural
//! variants: service times are fixed or exponential; memory slows down with every stream, or from a number of
//! streams on.
//!
//! The interval of a row is the central 90 % of the weight. No residual of a held-out row enters.

mod fit;
mod rows;
#[cfg(test)]
mod tests;

use faultless_trace::stat::Interval;
use serde::Serialize;

pub(crate) use fit::MOST_REPEATED;
pub use fit::{Fit, REPEATED, Runs, fit};
pub use rows::{ROWS, Row, Source};

/// The share of the weight that an interval holds.
pub const HELD: f64 = 0.9;
/// A held-out row passes if its figure is inside an interval of at most this half-width...
pub(crate) const MOST_HALF_WIDTH: f64 = 0.25;
/// ... and no median may be further off than this.
pub(crate) const MOST_OFF: f64 = 0.30;

/// A row beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// The row's name.
    pub row: &'static str,
    /// Whether the fit has read it.
    pub is_fitted: bool,
    /// Faults per second of wall time, by the model.
    pub per_wall_s: Interval,
    /// The same in the document.
    pub document_per_wall_s: f64,
    /// Faults per second of CPU time, by the model.
    pub per_cpu_s: Interval,
    /// The same in the document.
    pub document_per_cpu_s: f64,
    /// The share of faults that find a zeroed page.
    pub hit_ratio: Interval,
}

impl Predicted {
    /// Half of the interval, as a share of its middle.
    pub fn half_width(&self) -> f64 {
        let Interval { low, high, .. } = self.per_wall_s;
        (high - low) / (high + low)
    }

    /// The median over the document's figure, less 1.
    pub fn off(&self) -> f64 {
        self.per_wall_s.value / self.document_per_wall_s - 1.0
    }

    /// Whether the document's figure is inside the interval, and the interval is narrow enough.
    pub fn holds(&self) -> bool {
        let Interval { low, high, .. } = self.per_wall_s;
        (low..=high).contains(&self.document_per_wall_s) && self.half_width() <= MOST_HALF_WIDTH
    }
}

/// How well the held-out rows are predicted, if rates repeat with a given deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The deviation.
    pub repeated: f64,
    /// Rows inside an interval that is narrow enough.
    pub holding: usize,
    /// Half-width of the widest interval.
    pub widest: f64,
    /// How far the furthest median is off.
    pub furthest: f64,
}

/// Scores the held-out rows.
pub fn score(rows: &[Predicted], repeated: f64) -> Score {
    let held_out = || rows.iter().filter(|row| !row.is_fitted);
    Score {
        repeated,
        holding: held_out().filter(|row| row.holds()).count(),
        widest: held_out().map(Predicted::half_width).fold(0.0, f64::max),
        furthest: held_out().map(|row| row.off().abs()).fold(0.0, f64::max),
    }
}

/// Whether the nine held-out rows are predicted: at least eight hold, and none is far off.
pub fn holds(rows: &[Predicted]) -> bool {
    let score = score(rows, REPEATED);
    score.furthest <= MOST_OFF && score.holding + 1 >= rows.iter().filter(|row| !row.is_fitted).count()
}
