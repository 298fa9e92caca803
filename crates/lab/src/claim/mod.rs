//! Claims: what a document says, the figure that answers it here, and whether it holds.
//!
//! In: a claim, which stands beside the experiment that answers it, and a record. Out: a [`Finding`]. A claim
//! computes its figure from named cells, as one value per round ([`Series`]). It holds if the whole interval lies
//! within its bounds, and is refuted if the whole interval lies outside. What no experiment here can decide is not a
//! claim but an [`Unjudged`]: a row of a table that says why.

mod here;
mod series;

use faultless_trace::measurement::Interval;
use faultless_trace::verdict::Verdict;

pub use here::{Cells, Here, disturbed};
pub use series::Series;

use crate::document::Document;
use crate::results::Results;

type Figure = Box<dyn Fn(&Here) -> Series>;
type Words = Box<dyn Fn(&Here) -> String>;
type Guard = Box<dyn Fn(&Here) -> Option<String>>;

/// One claim of a document.
pub struct Claim {
    /// A fixed name: `oops-zeroed-faults`.
    pub id: &'static str,
    /// The document.
    pub document: Document,
    /// The document's own words, or the row of its table.
    pub quote: &'static str,
    /// The figure as the document has it.
    pub figure: &'static str,
    bounds: Bounds,
    unit: &'static str,
    ours: Figure,
    beside: Option<Words>,
    why: &'static str,
    processors: usize,
    stand_in: Option<&'static str>,
    guard: Option<Guard>,
}

/// The range in which a claim holds. Where it is open at one end, the claim says why.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bounds {
    Between(f64, f64),
    From(f64, &'static str),
}

/// What a record says of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// Our figure.
    pub figure: Option<Interval>,
    /// The same as text, with its interval and unit; empty where nothing was measured.
    pub ours: String,
    /// When the claim holds, how ours was measured, and why there is no verdict, if there is none.
    pub why: String,
}

/// What a document says and no experiment here can decide.
pub struct Unjudged {
    /// The document.
    pub document: Document,
    /// The document's own words.
    pub quote: &'static str,
    /// The figure as the document has it.
    pub figure: &'static str,
    /// Why it is not judged, and what would decide.
    pub why: &'static str,
    ours: Option<(Figure, &'static str)>,
}

impl Claim {
    /// A claim with its document's words and figure. It holds if `ours`, in `unit`, lies between `low` and `high`.
    pub fn between(
        (id, document): (&'static str, Document),
        [quote, figure]: [&'static str; 2],
        (low, high, unit): (f64, f64, &'static str),
        ours: impl Fn(&Here) -> Series + 'static,
    ) -> Self {
        Self::new((id, document), [quote, figure], (Bounds::Between(low, high), unit), Box::new(ours))
    }

    /// The same without an upper bound, for the reason given last.
    pub fn at_least(
        (id, document): (&'static str, Document),
        [quote, figure]: [&'static str; 2],
        (low, unit, open): (f64, &'static str, &'static str),
        ours: impl Fn(&Here) -> Series + 'static,
    ) -> Self {
        Self::new((id, document), [quote, figure], (Bounds::From(low, open), unit), Box::new(ours))
    }

    fn new(
        (id, document): (&'static str, Document),
        [quote, figure]: [&'static str; 2],
        (bounds, unit): (Bounds, &'static str),
        ours: Figure,
    ) -> Self {
        let (processors, why) = (1, "");
        Self {
            id,
            document,
            quote,
            figure,
            bounds,
            unit,
            ours,
            why,
            processors,
            beside: None,
            stand_in: None,
            guard: None,
        }
    }

    /// How ours is measured, and what else bears on it.
    #[must_use]
    pub fn why(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    /// Figures that stand behind ours.
    #[must_use]
    pub fn beside(self, words: impl Fn(&Here) -> String + 'static) -> Self {
        Self { beside: Some(Box::new(words)), ..self }
    }

    /// The claim speaks of so many processors: with fewer there is no verdict.
    #[must_use]
    pub fn processors(self, processors: usize) -> Self {
        Self { processors, ..self }
    }

    /// Ours measures something simpler than the document's program, which cannot refute the claim, for this reason.
    #[must_use]
    pub fn stand_in(self, why: &'static str) -> Self {
        Self { stand_in: Some(why), ..self }
    }

    /// There is no verdict where this gives a reason.
    #[must_use]
    pub fn unless(self, guard: impl Fn(&Here) -> Option<String> + 'static) -> Self {
        Self { guard: Some(Box::new(guard)), ..self }
    }

    /// What a record says of it.
    pub fn judge(&self, results: &Results) -> Finding {
        let here = &Here::new(results);
        let found = match (self.ours)(here).interval() {
            Ok(found) => found,
            Err(why) => {
                return Finding { verdict: Verdict::CannotSay, figure: None, ours: String::new(), why };
            }
        };
        let (verdict, open) = self.verdict(here, &found);
        let beside = self.beside.as_ref().map_or(String::new(), |words| words(here));
        let parts = [open.as_str(), &self.bounds.text(self.unit), self.why];
        Finding {
            verdict,
            figure: Some(found),
            ours: joined(&[&with_interval(&found, self.unit), &beside]),
            why: joined(&parts),
        }
    }

    /// The verdict, and the reason where there is none.
    fn verdict(&self, here: &Here, found: &Interval) -> (Verdict, String) {
        let none = |why: String| (Verdict::CannotSay, why);
        let processors = here.processors();
        if processors < self.processors {
            return none(format!("needs {} processors, this machine has {processors}", self.processors));
        }
        if let Some(why) = self.guard.as_ref().and_then(|guard| guard(here)) {
            return none(why);
        }
        let (low, high) = self.bounds.ends();
        match self.stand_in {
            _ if found.low >= low && found.high <= high => (Verdict::Reproduced, String::new()),
            _ if found.high >= low && found.low <= high => {
                let crossed = if found.low < low { low } else { high };
                none(format!("the interval contains {}: more rounds narrow it (--rounds)", short(crossed)))
            }
            Some(why) => none(format!("not refuted: {why}")),
            None => (Verdict::Refuted, String::new()),
        }
    }
}

impl Bounds {
    fn ends(self) -> (f64, f64) {
        match self {
            Self::Between(low, high) => (low, high),
            Self::From(low, _) => (low, f64::MAX),
        }
    }

    /// `holds from 0.75 to 1.30 times`.
    fn text(self, unit: &str) -> String {
        match self {
            Self::Between(low, high) if low == high => format!("holds at {} {unit}", short(low)),
            Self::Between(low, high) => format!("holds from {} to {} {unit}", short(low), short(high)),
            Self::From(low, why) => format!("holds from {} {unit} on: {why}", short(low)),
        }
    }
}

impl Unjudged {
    /// A statement with its document's words and figure, and why it is not judged.
    pub fn new(document: Document, [quote, figure]: [&'static str; 2], why: &'static str) -> Self {
        Self { document, quote, figure, why, ours: None }
    }

    /// The figure of this machine, which does not decide.
    #[must_use]
    pub fn here(self, unit: &'static str, ours: impl Fn(&Here) -> Series + 'static) -> Self {
        Self { ours: Some((Box::new(ours), unit)), ..self }
    }

    /// That figure as text; empty where nothing was measured.
    pub fn ours(&self, results: &Results) -> String {
        let found = self.ours.as_ref().map(|(ours, unit)| (ours(&Here::new(results)).interval(), unit));
        match found {
            Some((Ok(found), unit)) => with_interval(&found, unit),
            _ => String::new(),
        }
    }
}

/// The parts that are not empty, with semicolons between.
fn joined(parts: &[&str]) -> String {
    let parts = parts.iter().copied().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

/// A figure with its interval, in a unit.
fn with_interval(found: &Interval, unit: &str) -> String {
    let [value, low, high] = [found.value, found.low, found.high].map(short);
    if found.high >= f64::MAX {
        format!("{value} {unit} (one sample)")
    } else if low == high {
        format!("{value} {unit}")
    } else {
        format!("{value} {unit} ({low} to {high})")
    }
}

/// Three significant digits.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if (1000.0..1e9).contains(&size) {
        faultless_trace::measurement::Count(size.round() as u64).to_string()
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size == 0.0 {
        "0".into()
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A record of nine rounds that are all alike: experiment with cell, phase, quantity, value.
#[cfg(test)]
pub(crate) fn record(rows: &[(&str, &str, &str, f64)]) -> Results {
    let row = |(round, (cell, phase, quantity, value)): (u32, &(&str, &str, &str, f64))| {
        let (experiment, cell) = cell.split_once(' ').unwrap();
        crate::row::Row {
            experiment: experiment.into(),
            cell: cell.into(),
            round,
            phase: (*phase).into(),
            quantity: (*quantity).into(),
            value: *value,
        }
    };
    Results::of((1..=9).flat_map(|round| rows.iter().map(move |of| row((round, of)))).collect()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;

    fn results(values: &[f64], processors: f64) -> Results {
        let row = |round, quantity: &str, value| Row {
            experiment: "touch".into(),
            cell: "threads=1".into(),
            round,
            phase: "first".into(),
            quantity: quantity.into(),
            value,
        };
        let rows = (1..).zip(values).flat_map(|(round, value)| {
            [row(round, "minor_faults", *value), row(round, "processors", processors)]
        });
        Results::of(rows.collect()).unwrap()
    }

    fn claim() -> Claim {
        let bounds = (1.0, 2.0, "times");
        Claim::between(("c", Document::Oops), ["two", "2"], bounds, |here| {
            here.cells("touch").faults("first")
        })
    }

    fn judged(claim: &Claim, value: f64) -> (Verdict, String) {
        let Finding { verdict, why, .. } = claim.judge(&results(&[value; 9], 2.0));
        (verdict, why)
    }

    #[test]
    fn a_claim_holds_within_both_bounds_and_is_refuted_beyond_either() {
        let verdict = |value| judged(&claim(), value).0;
        let found = [0.5, 1.0, 1.5, 2.0, 2.1].map(verdict);
        let (yes, no) = (Verdict::Reproduced, Verdict::Refuted);
        assert_eq!(found, [no, yes, yes, yes, no]);
        let across = claim().judge(&results(&[0.5, 1.5, 0.6, 1.4, 0.7, 1.3, 0.8, 1.2, 1.1], 2.0));
        assert_eq!(across.verdict, Verdict::CannotSay);
        assert!(across.why.starts_with("the interval contains 1.00: more rounds"), "{}", across.why);
    }

    #[test]
    fn one_round_decides_a_count() {
        assert_eq!(claim().judge(&results(&[1.5], 2.0)).verdict, Verdict::Reproduced);
    }

    #[test]
    fn fewer_processors_than_a_claim_speaks_of_give_no_verdict() {
        let (verdict, why) = judged(&claim().processors(4), 1.5);
        assert_eq!(verdict, Verdict::CannotSay);
        assert!(why.starts_with("needs 4 processors, this machine has 2"), "{why}");
    }

    #[test]
    fn a_stand_in_reproduces_but_never_refutes() {
        let claim = claim().stand_in("it does little besides faulting");
        assert_eq!(judged(&claim, 1.5).0, Verdict::Reproduced);
        let (verdict, why) = judged(&claim, 3.0);
        assert_eq!(verdict, Verdict::CannotSay);
        assert!(why.starts_with("not refuted: it does little"), "{why}");
    }

    #[test]
    fn a_guard_gives_its_reason_and_an_empty_record_the_command() {
        let claim = claim().unless(|_| Some("the limit is not enforced".into()));
        assert_eq!(judged(&claim, 1.5).0, Verdict::CannotSay);
        let found = claim.judge(&Results::default());
        assert_eq!(found.why, "not in this record: `faultless lab touch` measures it");
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [131_145.0, 1234.5, 175.0, 12.34, 0.68, 0.0123, 0.0].map(short),
            ["131 145", "1 235", "175", "12.3", "0.68", "0.012", "0"]
        );
    }
}
