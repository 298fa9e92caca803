//! What the documents claim, and whether it holds here.
//!
//! In: results. Out: for each quantitative claim the document's figure, ours, a verdict, and one line of explanation where
//! they differ. One file per document.

mod hardware;
mod oops;
mod prefault;
mod prezeroing;
mod queue;

use faultless_trace::stat::Interval;

use crate::experiment::Document;
use crate::results::Results;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds here, with our figures.
    Reproduced,
    /// It does not hold here.
    Refuted,
    /// What was measured does not tell.
    CannotSay,
}

impl Verdict {
    /// As words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Refuted => "refuted here",
            Self::CannotSay => "cannot say",
        }
    }
}

/// One claim of a document.
pub struct Claim {
    /// A fixed name: `oops-zeroed-faults`.
    pub id: &'static str,
    /// The document.
    pub document: Document,
    /// What it says, shortened.
    pub says: &'static str,
    /// The figure as the document has it.
    pub figure: &'static str,
    /// The experiment that answers it.
    pub experiment: &'static str,
    /// Looks it up in the results.
    pub judge: fn(&Results) -> Finding,
}

/// What was found out about a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// Our figure in words, with its interval; empty where there is none.
    pub ours: String,
    /// One line: why it differs, or what was not measured.
    pub why: String,
}

impl Finding {
    /// Nothing was measured that would tell.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::CannotSay, ours: String::new(), why: why.into() }
    }

    /// `holds` where the interval lies wholly inside the bounds, refuted where it lies wholly outside.
    pub fn bounded(
        found: Option<Interval>,
        low: f64,
        high: f64,
        ours: impl Fn(&Interval) -> String,
        why: &str,
    ) -> Self {
        let Some(found) = found else { return Self::unknown(NOT_MEASURED) };
        let verdict = match () {
            () if found.low >= low && found.high <= high => Verdict::Reproduced,
            () if found.high < low || found.low > high => Verdict::Refuted,
            () => Verdict::CannotSay,
        };
        Self { verdict, ours: ours(&found), why: why.into() }
    }
}

/// What is said where cells are missing.
pub const NOT_MEASURED: &str = "not measured in this record";

/// A figure with its interval, in a unit.
pub fn with_interval(found: &Interval, scale: f64, unit: &str) -> String {
    let [value, low, high] = [found.value, found.low, found.high].map(|figure| short(figure * scale));
    if low == high { format!("{value} {unit}") } else { format!("{value} {unit} [{low} {high}]") }
}

/// Three digits that matter.
pub fn short(value: f64) -> String {
    let size = value.abs();
    match () {
        // The end of an interval that one round alone can't give.
        () if size > f64::MAX / 1e6 => "any".into(),
        () if (1000.0..1e6).contains(&size) => {
            let digits = format!("{:.0}", value);
            let (head, tail) = digits.split_at(digits.len() - 3);
            format!("{head},{tail}")
        }
        () if size >= 100.0 => format!("{value:.0}"),
        () if size >= 10.0 => format!("{value:.1}"),
        () if size == 0.0 => "0".into(),
        () => format!("{value:.2}"),
    }
}

/// All claims, document by document.
pub fn all() -> Vec<&'static Claim> {
    let documents = [queue::CLAIMS, hardware::CLAIMS, prefault::CLAIMS, prezeroing::CLAIMS, oops::CLAIMS];
    documents.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_have_names_of_their_own_and_experiments_that_exist() {
        let claims = all();
        let names: std::collections::BTreeSet<_> = claims.iter().map(|claim| claim.id).collect();
        assert_eq!(names.len(), claims.len());
        for claim in claims {
            assert!(crate::experiments::find(claim.experiment).is_some(), "{}", claim.id);
        }
    }

    #[test]
    fn an_empty_record_says_nothing() {
        let nothing = Results::default();
        for claim in all() {
            let finding = (claim.judge)(&nothing);
            assert_eq!(finding.verdict, Verdict::CannotSay, "{}", claim.id);
            assert!(!finding.why.is_empty(), "{}", claim.id);
        }
    }

    #[test]
    fn an_interval_across_a_bound_can_not_say() {
        let of = |low, high| {
            let found = Interval { value: f64::midpoint(low, high), low, high };
            Finding::bounded(Some(found), 1.0, 2.0, |_| String::new(), "").verdict
        };
        assert_eq!(
            [of(1.1, 1.9), of(0.1, 0.9), of(0.9, 1.1)],
            [Verdict::Reproduced, Verdict::Refuted, Verdict::CannotSay]
        );
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [131_145.0, 1234.5, 175.0, 12.34, 0.68, 0.0, f64::MAX].map(short),
            ["131,145", "1,234", "175", "12.3", "0.68", "0", "any"]
        );
    }
}
