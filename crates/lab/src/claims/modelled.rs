//! A claim held against a model: the counts of an emulated kernel, or the forecast with them.
//!
//! In: a rule of a claim file's `[claim.modelled]`, and the samples of a kernel lab's record with the model's cells
//! ([`evidence`](crate::predict::evidence)). Out: a [`Finding`] that is never "reproduced" or "refuted".
//!
//! A count has no interval: two boots give the same bytes. A forecast has the range that holds 90 % of its samples.
//! The model agrees if all of it lies within the bounds, and differs if all of it lies outside.

use faultless_trace::stat::Interval;
use faultless_trace::verdict::Verdict;

use super::finding::{Bounds, DECIDED_BY, Finding, Side, decided_by, joined, short, with_interval};
use super::formula::{Formula, Samples, Value};
use crate::predict::forecast::HELD;
use crate::predict::range::interval;

/// How a model is held against a claim.
#[derive(Debug)]
pub(super) struct Modelled {
    pub(super) measure: Formula,
    pub(super) bounds: Bounds,
    pub(super) unit: String,
    pub(super) why: String,
    /// The rows that it rests on.
    pub(super) rests_on: String,
}

impl Modelled {
    pub(super) fn judge(&self, samples: &Samples) -> Finding {
        let rests_on = format!("rests on {}", self.rests_on);
        let Some(found) = samples.value(&self.measure).and_then(|value| range(&value)) else {
            return Finding::unknown(decided_by(
                "not in this record",
                &format!("`faultless lab kernel run`; {rests_on}"),
            ));
        };
        let side = self.bounds.side(&found);
        let (verdict, across) = match side {
            Side::Within => (Verdict::Agrees, String::new()),
            Side::Below | Side::Above => (Verdict::Differs, String::new()),
            Side::Across => {
                let crossed = if found.low < self.bounds.low { self.bounds.low } else { self.bounds.high };
                (
                    Verdict::CannotSay,
                    format!(
                        "the model's range reaches across {} {}: {DECIDED_BY} narrower parameters",
                        short(crossed),
                        self.unit
                    ),
                )
            }
        };
        let why = joined(&[&across, &self.why, &self.bounds.text(&self.unit), &rests_on]);
        Finding { verdict, ours: with_interval(&found, &self.unit), why }
    }
}

/// A count as it is; of several samples the range that holds 90 %.
fn range(value: &Value) -> Option<Interval> {
    let values: Vec<f64> = match value {
        Value::Number(number) => vec![*number],
        Value::Rounds(rounds) => rounds.iter().map(|(_, value)| value).collect(),
    };
    interval(&values, HELD)
}
