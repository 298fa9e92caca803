//! One claim: what a document says, how it is judged, and what a record says about it.
//!
//! In: a claim as `file` reads it, and results. Out: a [`Finding`].
//!
//! | judge | verdict |
//! |---|---|
//! | `bounds` | by the interval of `measure` and by `low` and `high` |
//! | `effect` | the same, from the square root of `times` on: its size depends on the machine |
//! | `near` | the same, within a quarter of `times` |
//! | `loss` | the same, for a share `times` that is left: between half and one and a half of the loss, as factors go |
//! | `every` | the same for each formula of `every`: reproduced by all, or refuted by one |
//! | `not-comparable` | none: our figure stands beside theirs, but does not decide |
//! | `not-measured` | none, and no figure |
//! | another name | a judge of its own, in [`special`] |
//!
//! A claim without a verdict says what would decide it. Two claims that rest on the same samples are one
//! [figure](Claim::figure).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use faultless_trace::stat::Interval;
use faultless_trace::verdict::Verdict;

use super::arm::Arm;
use super::finding::{Bounds, Finding, MORE_ROUNDS, Side, decided_by, joined, short, with_interval};
use super::formula::{Formula, Samples};
use super::special;
use crate::cell::Cell;
use crate::experiment::Document;
use crate::results::Results;

/// One claim of a document.
#[derive(Debug)]
pub struct Claim {
    /// A fixed name: `oops-zeroed-faults`.
    pub id: String,
    /// The document.
    pub document: Document,
    /// The claim in one sentence.
    pub says: String,
    /// The document's own words, or the row of its table.
    pub quote: String,
    /// The figure as the document has it.
    pub figure: String,
    /// The experiment that answers it.
    pub experiment: String,
    pub(super) rules: Rules,
    pub(super) shared: Arc<Shared>,
}

/// What the claims of one document share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Cells by name.
    pub(super) arms: BTreeMap<String, Arm>,
    /// Formulas by name.
    pub(super) terms: BTreeMap<String, Formula>,
    /// Parts of explanations by name.
    pub(super) texts: BTreeMap<String, String>,
}

/// How a claim is judged.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) judge: Judge,
    /// Unit of the measure.
    pub(super) unit: String,
    /// Text of our figure, where it is more than figure, unit and interval.
    pub(super) ours: Option<String>,
    pub(super) why: Why,
    /// What would decide the claim, where the judge gives no verdict.
    pub(super) decides: Option<String>,
    /// The explanation where the measure was not taken.
    pub(super) missing: Option<String>,
    /// Without these nothing is measured that would tell.
    pub(super) needs: Vec<Condition>,
    /// Where one of these holds there is a figure but no verdict.
    pub(super) no_verdict: Vec<Condition>,
    /// What stands in for a measure that was not taken: our figure, and why there is no verdict.
    pub(super) instead: Option<(String, String)>,
}

/// Who judges, and what.
#[derive(Debug)]
pub(super) enum Judge {
    Bounds(Formula, Bounds),
    Every(Vec<Formula>, Bounds),
    NotComparable(Option<Formula>),
    NotMeasured,
    Special(special::Judge),
}

/// One line of explanation: where a claim holds, where ours is less, where it is more.
#[derive(Debug, Default)]
pub(super) struct Why {
    pub(super) holds: String,
    pub(super) less: String,
    pub(super) more: String,
}

/// `FORMULA < FORMULA`, and the text for the case.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) left: Formula,
    pub(super) sign: &'static str,
    pub(super) right: Formula,
    /// It counts only where the verdict is one of these.
    pub(super) only: Vec<Verdict>,
    pub(super) say: String,
}

impl Condition {
    /// Whether it holds; nothing where that was not measured.
    fn holds(&self, samples: &Samples) -> Option<bool> {
        let (left, right) = (samples.number(&self.left)?, samples.number(&self.right)?);
        Some(match self.sign {
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        })
    }
}

/// The explanation where cells are missing.
const NOT_MEASURED: &str = "not measured in this record";

impl Claim {
    /// What a record says about it.
    pub fn judge(&self, results: &Results) -> Finding {
        let samples = Samples::new(results, &self.shared.arms);
        let printer = Printer { results, samples: &samples, shared: &self.shared };
        if let Some(lacking) = self.lacking(&samples) {
            return Finding::unknown(printer.text(&lacking.say).text);
        }
        let Some(found) = self.judged(&printer) else { return self.not_measured(&printer) };
        let finding = Finding { why: joined(&[&found.why, &self.left_out(&samples, results)]), ..found };
        match self.barred(&samples, finding.verdict) {
            None => finding,
            Some(condition) => {
                let why = printer.text(&condition.say).text;
                Finding { verdict: Verdict::CannotSay, why, ..finding }
            }
        }
    }

    /// The cells behind its figure.
    fn cells<'a>(&'a self, samples: &'a Samples<'a>, results: &'a Results) -> BTreeSet<&'a Cell> {
        match &self.rules.judge {
            Judge::Bounds(measure, _) | Judge::NotComparable(Some(measure)) => samples.cells_of(measure),
            Judge::Every(measures, _) => {
                measures.iter().flat_map(|measure| samples.cells_of(measure)).collect()
            }
            Judge::Special(_) => results.cells(&self.experiment).map(|(cell, _)| cell).collect(),
            Judge::NotComparable(None) | Judge::NotMeasured => BTreeSet::new(),
        }
    }

    /// How many samples of its cells are in no figure, because a count of them can't be right.
    fn left_out(&self, samples: &Samples, results: &Results) -> String {
        let wrong = results.wrong();
        if wrong.is_empty() {
            return String::new();
        }
        let is_of = |cell: &&Cell| wrong.iter().filter(|(found, _)| found == *cell).count();
        left_out(self.cells(samples, results).iter().map(is_of).sum())
    }

    /// The condition for want of which nothing is judged.
    fn lacking(&self, samples: &Samples) -> Option<&Condition> {
        self.rules.needs.iter().find(|need| need.holds(samples) == Some(false))
    }

    /// The condition under which this verdict is none.
    fn barred(&self, samples: &Samples, verdict: Verdict) -> Option<&Condition> {
        let counts = |condition: &Condition| condition.only.is_empty() || condition.only.contains(&verdict);
        let mut conditions = self.rules.no_verdict.iter();
        conditions.find(|condition| counts(condition) && condition.holds(samples) == Some(true))
    }

    /// The samples behind a verdict, as text: claims with the same text rest on one figure. A judge of its own has a
    /// figure of its own.
    pub fn figure(&self, results: &Results) -> String {
        let samples = Samples::new(results, &self.shared.arms);
        let measures = match &self.rules.judge {
            Judge::Bounds(measure, _) => std::slice::from_ref(measure),
            Judge::Every(measures, _) => measures,
            Judge::NotComparable(_) | Judge::NotMeasured | Judge::Special(_) => &[],
        };
        let leaves: BTreeSet<String> =
            measures.iter().flat_map(|measure| samples.rests_on(measure)).collect();
        if leaves.is_empty() { self.id.clone() } else { leaves.into_iter().collect::<Vec<_>>().join("; ") }
    }

    fn not_measured(&self, printer: &Printer) -> Finding {
        if let Some((ours, why)) = &self.rules.instead {
            let ours = printer.text(ours);
            if ours.is_whole {
                return Finding { ours: ours.text, ..Finding::unknown(why) };
            }
        }
        let missing = self.rules.missing.as_deref().unwrap_or(NOT_MEASURED);
        // A cell of which every sample was left out is not among the results.
        let is_gone =
            |cell: &Cell| cell.experiment == self.experiment && printer.results.cell(cell).is_none();
        let gone = printer.results.wrong().into_iter().filter(|(cell, _)| is_gone(cell)).count();
        Finding::unknown(decided_by(
            &joined(&[missing, &left_out(gone)]),
            &format!("`faultless lab {}`", self.experiment),
        ))
    }

    /// Nothing where the measure was not taken.
    fn judged(&self, printer: &Printer) -> Option<Finding> {
        let (rules, why) = (&self.rules, &self.rules.why);
        match &rules.judge {
            Judge::Bounds(measure, bounds) => {
                let found = printer.samples.value(measure)?.interval()?;
                let side = bounds.side(&found);
                let explained = self.explained(&found, *bounds, side);
                let why = joined(&[&printer.measured(&explained), &bounds.text(&rules.unit)]);
                Some(Finding { verdict: side.verdict(), ours: self.ours(printer, &found), why })
            }
            Judge::Every(measures, bounds) => {
                let found = measures.iter().filter_map(|measure| printer.samples.value(measure));
                let sides: Vec<Side> =
                    found.filter_map(|value| Some(bounds.side(&value.interval()?))).collect();
                let verdict = match sides.as_slice() {
                    [] => return None,
                    all if all.len() == measures.len() && all.iter().all(|side| *side == Side::Within) => {
                        Verdict::Reproduced
                    }
                    all if all.iter().any(|side| side.verdict() == Verdict::Refuted) => Verdict::Refuted,
                    _ => Verdict::CannotSay,
                };
                let ours = printer.text(rules.ours.as_deref().unwrap_or_default()).text;
                let across = match verdict {
                    Verdict::CannotSay if sides.len() < measures.len() => {
                        decided_by(NOT_MEASURED, &format!("`faultless lab {}`", self.experiment))
                    }
                    Verdict::CannotSay => MORE_ROUNDS.to_owned(),
                    _ => String::new(),
                };
                let why = joined(&[&across, &printer.text(&why.holds).text, &bounds.text(&rules.unit)]);
                Some(Finding { verdict, ours, why })
            }
            Judge::NotComparable(measure) => {
                let ours = self.unjudged(printer, measure.as_ref())?;
                let why = format!("not comparable: {}", self.undecided(printer));
                Some(Finding { verdict: Verdict::CannotSay, ours, why })
            }
            Judge::NotMeasured => Some(Finding::unknown(self.undecided(printer))),
            Judge::Special(judge) => judge(printer.results),
        }
    }

    /// Why there is no verdict, and what would decide.
    fn undecided(&self, printer: &Printer) -> String {
        decided_by(
            &printer.text(&self.rules.why.holds).text,
            self.rules.decides.as_deref().unwrap_or_default(),
        )
    }

    /// Our figure without bounds; nothing where a part of it was not measured.
    fn unjudged(&self, printer: &Printer, measure: Option<&Formula>) -> Option<String> {
        match (measure, &self.rules.ours) {
            (Some(measure), _) => Some(self.ours(printer, &printer.samples.value(measure)?.interval()?)),
            (None, Some(template)) => {
                let ours = printer.text(template);
                ours.is_whole.then_some(ours.text)
            }
            (None, None) => Some(String::new()),
        }
    }

    fn ours(&self, printer: &Printer, found: &Interval) -> String {
        let figure = with_interval(found, &self.rules.unit);
        match &self.rules.ours {
            None => figure,
            Some(template) => printer.text(&template.replace("{figure}", &figure)).text,
        }
    }

    fn explained(&self, found: &Interval, bounds: Bounds, side: Side) -> String {
        let why = &self.rules.why;
        match side {
            Side::Within => why.holds.clone(),
            Side::Below => why.less.clone(),
            Side::Above => why.more.clone(),
            Side::Across => {
                let crossed = if found.low < bounds.low { bounds.low } else { bounds.high };
                let (crossed, unit) = (short(crossed), &self.rules.unit);
                let wide = format!("the interval reaches across {crossed} {unit}: {MORE_ROUNDS}");
                joined(&[&wide, &why.holds])
            }
        }
    }
}

/// What is said of so many samples that are in no figure.
fn left_out(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "1 sample left out, with a count that can't be".into(),
        _ => format!("{count} samples left out, with counts that can't be"),
    }
}

/// Fills in the `{NAME}` of explanations: the file's `[texts]`, or its `[terms]` as figures.
///
/// `{NAME}` prints three significant digits, `{NAME:0}` a whole number, `{NAME|UNIT}` the median with its interval.
struct Printer<'a> {
    results: &'a Results,
    samples: &'a Samples<'a>,
    shared: &'a Shared,
}

/// A text, and whether all figures in it were measured.
struct Filled {
    text: String,
    is_whole: bool,
}

impl Printer<'_> {
    fn text(&self, template: &str) -> Filled {
        let mut filled = Filled { text: String::new(), is_whole: true };
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after.split_once('}').unwrap_or((after, ""));
            filled.text.push_str(before);
            let value = self.named(name);
            filled.is_whole &= value.is_some();
            filled.text.push_str(value.as_deref().unwrap_or("-"));
            rest = behind;
        }
        filled.text.push_str(rest);
        filled
    }

    /// The parts of a template, between semicolons, of which every figure was measured.
    fn measured(&self, template: &str) -> String {
        let parts = template
            .split("; ")
            .map(|part| self.text(part))
            .filter(|part| part.is_whole && !part.text.is_empty());
        parts.map(|part| part.text).collect::<Vec<_>>().join("; ")
    }

    fn named(&self, name: &str) -> Option<String> {
        if let Some(text) = self.shared.texts.get(name) {
            return Some(self.measured(text));
        }
        if let Some(text) = special::text(name, self.results) {
            return text;
        }
        if let Some((name, unit)) = name.split_once('|') {
            let value = self.samples.value(self.shared.terms.get(name)?)?;
            return Some(with_interval(&value.interval()?, unit));
        }
        let (name, is_whole) = name.strip_suffix(":0").map_or((name, false), |name| (name, true));
        let number = self.samples.number(self.shared.terms.get(name)?)?;
        Some(if is_whole { format!("{number:.0}") } else { short(number) })
    }
}

/// The names that a text asks for, without what follows them.
pub(super) fn names_in(template: &str) -> impl Iterator<Item = &str> {
    let parts = template.split('{').skip(1).filter_map(|part| part.split_once('}'));
    parts.map(|(name, _)| name.split(['|', ':']).next().unwrap_or(name))
}
