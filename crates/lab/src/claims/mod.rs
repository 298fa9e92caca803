//! What the documents claim, and whether it holds here.
//!
//! In: results. Out: for each quantitative claim the document's figure, ours, a verdict, and one line of explanation where
//! they differ. One file per document.

mod hardware;
mod oops;
mod prefault;
mod prezeroing;
mod queue;

use faultless_trace::measurement::median;
use faultless_trace::stat::Interval;
pub use faultless_trace::verdict::Verdict;

use crate::experiment::Document;
use crate::results::Results;

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

impl Document {
    /// A claim of this document.
    const fn claim(
        self,
        experiment: &'static str,
        id: &'static str,
        says: &'static str,
        figure: &'static str,
        judge: fn(&Results) -> Finding,
    ) -> Claim {
        Claim { id, document: self, says, figure, experiment, judge }
    }
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

    /// An absolute figure of another machine or program: ours stands beside it, and neither proves the other wrong.
    pub fn not_comparable(ours: Option<String>, whose: &str) -> Self {
        let Some(ours) = ours else { return Self::unknown(NOT_MEASURED) };
        Self { ours, ..Self::unknown(format!("not comparable: {whose}")) }
    }

    /// The same finding without a verdict.
    pub fn without_verdict(self, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::CannotSay, why: why.into(), ..self }
    }

    /// It holds where the interval lies wholly inside the bounds, is refuted where it lies wholly outside.
    pub fn bounded(
        found: Option<Interval>,
        low: f64,
        high: f64,
        ours: impl Fn(&Interval) -> String,
        why: impl Into<Why>,
    ) -> Self {
        let Some(found) = found else { return Self::unknown(NOT_MEASURED) };
        let why = why.into();
        let exactly = |value: f64| ours(&Interval { value, low: value, high: value });
        let (verdict, why) = match () {
            () if found.low >= low && found.high <= high => (Verdict::Reproduced, why.holds),
            () if found.high < low => (Verdict::Refuted, why.less),
            () if found.low > high => (Verdict::Refuted, why.more),
            () => {
                let crossed = exactly(if found.low < low { low } else { high });
                let wide = format!("the interval reaches across {crossed}: more rounds narrow it");
                (Verdict::CannotSay, joined(&wide, &why.holds))
            }
        };
        let range = match () {
            () if high == f64::MAX => format!("holds from {} on", exactly(low)),
            () if low <= 0.0 => format!("holds up to {}", exactly(high)),
            () => format!("holds from {} to {}", short_of(&exactly(low)), exactly(high)),
        };
        Self { verdict, ours: ours(&found), why: joined(&why, &range) }
    }

    /// That something is so many times as much as something else. The size of it is a matter of the machine: half of it, as
    /// factors go, counts, and so does more.
    pub fn effect(found: Option<Interval>, times: f64, why: impl Into<Why>) -> Self {
        Self::bounded(found, times.sqrt(), f64::MAX, |found| with_interval(found, 1.0, "times"), why)
    }
}

/// One line of explanation: where a claim holds, where ours is less, where it is more.
pub struct Why {
    holds: String,
    less: String,
    more: String,
}

impl Why {
    /// What is said only where ours differs.
    pub fn differs(less: &str, more: &str) -> Self {
        Self { holds: String::new(), less: less.into(), more: more.into() }
    }
}

impl<T: Into<String>> From<T> for Why {
    fn from(always: T) -> Self {
        let always = always.into();
        Self { holds: always.clone(), less: always.clone(), more: always }
    }
}

fn joined(a: &str, b: &str) -> String {
    [a, b].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// A figure without its unit.
fn short_of(figure: &str) -> &str {
    figure.split(' ').next().unwrap_or(figure)
}

/// What is said where cells are missing.
pub const NOT_MEASURED: &str = "not measured in this record";
/// What is said where only a longer run has the cells.
pub const LONGER: &str = "measured by the default and the full run";

/// A figure with its interval, in a unit.
pub fn with_interval(found: &Interval, scale: f64, unit: &str) -> String {
    let [value, low, high] = [found.value, found.low, found.high].map(|figure| short(figure * scale));
    match () {
        () if found.high >= f64::MAX => format!("{value} {unit} (one sample)"),
        () if low == high => format!("{value} {unit}"),
        () => format!("{value} {unit} [{low} {high}]"),
    }
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

/// What a first touch takes in the kernel, part by part, the largest first.
fn parts_of_a_fault(results: &Results) -> Vec<(&str, f64)> {
    let Some((_, found)) = results.find("phases", &[("page", "base")]) else { return Vec::new() };
    let shares = found.iter().filter(|((phase, name), _)| phase == "names" && name.ends_with("_share"));
    // The share of samples in faults is none of the parts.
    let parts = shares.filter(|((_, name), _)| name != "fault_share");
    let mut parts: Vec<_> = parts
        .filter_map(|((_, name), samples)| Some((name.trim_end_matches("_share"), median(samples)?)))
        .collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
}

/// The same as words.
fn shares_of_a_fault(results: &Results) -> String {
    let parts = parts_of_a_fault(results);
    let parts =
        parts.iter().map(|(name, share)| format!("{} {} %", name.replace('_', " "), short(share * 100.0)));
    parts.collect::<Vec<_>>().join(", ")
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
    fn the_line_says_what_counts_and_on_which_side_ours_is() {
        let why = |low, high, most| {
            let found = Interval { value: f64::midpoint(low, high), low, high };
            let told = Why::differs("fewer", "more");
            Finding::bounded(Some(found), 1.5, most, |found| with_interval(found, 1.0, "times"), told).why
        };
        assert_eq!(why(1.0, 1.2, 2.0), "fewer; holds from 1.50 to 2.00 times");
        assert_eq!(why(3.0, 4.0, 2.0), "more; holds from 1.50 to 2.00 times");
        assert_eq!(why(1.6, 1.8, f64::MAX), "holds from 1.50 times on");
        let wide = why(1.0, 4.0, f64::MAX);
        assert!(wide.starts_with("the interval reaches across 1.50 times: more rounds narrow it"), "{wide}");
    }

    #[test]
    fn half_of_an_effect_counts_and_so_does_more() {
        let of =
            |value: f64| Finding::effect(Some(Interval { value, low: value, high: value }), 1.69, "").verdict;
        assert_eq!(
            [of(1.29), of(1.31), of(9.0)],
            [Verdict::Refuted, Verdict::Reproduced, Verdict::Reproduced]
        );
    }

    #[test]
    fn another_machines_price_is_neither_right_nor_wrong() {
        let finding = Finding::not_comparable(Some("436 us".into()), "a laptop of 2014");
        assert_eq!((finding.verdict, finding.ours.as_str()), (Verdict::CannotSay, "436 us"));
        assert_eq!(finding.why, "not comparable: a laptop of 2014");
        assert_eq!(Finding::not_comparable(None, "").why, NOT_MEASURED);
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [131_145.0, 1234.5, 175.0, 12.34, 0.68, 0.0, f64::MAX].map(short),
            ["131,145", "1,234", "175", "12.3", "0.68", "0", "any"]
        );
    }
}
