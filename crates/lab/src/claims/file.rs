//! The claim files: one TOML file per document, embedded in the program.
//!
//! In: the text of a file. Out: [`Claim`]s, or where and why the file is wrong.
//!
//! A file has named cells (`[arms]`, see [`Arm`]), named formulas (`[terms]`, see [`formula`](super::formula)),
//! parts of explanations (`[texts]`) and the claims. A claim has these fields:
//!
//! | field | meaning |
//! |---|---|
//! | `id`, `says`, `figure` | a fixed name; the claim in one sentence; the figure as the document prints it |
//! | `quote` | the document's own words, or the row of its table |
//! | `experiment` | the experiment that answers the claim |
//! | `judge` | who judges it, see [`claim`](super::claim) |
//! | `measure`, `unit` | the formula that is judged, in this unit; for the judge `every` several formulas |
//! | `low`, `high`, `times` | the bounds, in the same unit, or the size of an effect |
//! | `decides` | what would decide a claim that is `not-comparable` or `not-measured` |
//! | `ours` | our figure as text, with `{figure}` for the measure |
//! | `why`, `less`, `more` | the explanation; where ours is below or above the bounds, the second or third |
//! | `missing` | what is said where the cells were not measured |
//! | `needs` | conditions without which nothing is judged: `where`, and what to `say` otherwise |
//! | `no_verdict` | conditions under which there is no verdict, `only` for some verdicts |
//! | `instead` | `ours` and `why` where the measure was not taken |

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use faultless_trace::verdict::Verdict;
use serde::Deserialize;
use toml::Spanned;

use super::arm::Arm;
use super::claim::{Claim, Condition, Judge, Rules, Shared, Why, names_in};
use super::finding::{Bounds, DECIDED_BY};
use super::formula::Formula;
use super::special;
use crate::experiment::Document;
use crate::experiments;

/// The files: name, document, text.
pub(super) const FILES: [(&str, Document, &str); 5] = [
    ("queue.toml", Document::Queue, include_str!("queue.toml")),
    ("hardware.toml", Document::Hardware, include_str!("hardware.toml")),
    ("prefault.toml", Document::Prefault, include_str!("prefault.toml")),
    ("prezeroing.toml", Document::Prezeroing, include_str!("prezeroing.toml")),
    ("oops.toml", Document::Oops, include_str!("oops.toml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    arms: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    terms: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    texts: BTreeMap<String, Spanned<String>>,
    claim: Vec<Spanned<Written>>,
}

/// A claim as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    says: String,
    figure: String,
    quote: String,
    experiment: String,
    judge: String,
    measure: Option<Measures>,
    #[serde(default)]
    unit: String,
    low: Option<f64>,
    high: Option<f64>,
    times: Option<f64>,
    decides: Option<String>,
    ours: Option<String>,
    #[serde(default)]
    why: String,
    less: Option<String>,
    more: Option<String>,
    missing: Option<String>,
    #[serde(default)]
    needs: Vec<WrittenCondition>,
    #[serde(default)]
    no_verdict: Vec<WrittenCondition>,
    instead: Option<Instead>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Measures {
    One(String),
    Several(Vec<String>),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCondition {
    r#where: String,
    say: String,
    #[serde(default)]
    only: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Instead {
    ours: String,
    why: String,
}

/// Reads a file.
///
/// # Errors
/// `FILE:LINE: REASON`.
pub(super) fn read(name: &str, document: Document, text: &str) -> Result<Vec<Claim>, String> {
    let at = |span: Range<usize>, why: &str| {
        let line = text.get(..span.start).unwrap_or(text).matches('\n').count() + 1;
        format!("{name}:{line}: {why}")
    };
    let file: File =
        toml::from_str(text).map_err(|error| at(error.span().unwrap_or_default(), error.message()))?;
    let written_terms: BTreeMap<String, String> =
        file.terms.iter().map(|(name, term)| (name.clone(), term.get_ref().clone())).collect();
    let mut shared = Shared::default();
    for (name, arm) in &file.arms {
        let arm: Arm = arm.get_ref().parse().map_err(|why: String| at(arm.span(), &why))?;
        shared.arms.insert(name.clone(), arm);
    }
    for (name, written) in &file.arms {
        shared.check_arm(name).map_err(|why| at(written.span(), &why))?;
    }
    for (name, term) in &file.terms {
        let formula = shared.formula(term.get_ref(), &written_terms).map_err(|why| at(term.span(), &why))?;
        shared.terms.insert(name.clone(), formula);
    }
    shared.texts = file.texts.iter().map(|(name, text)| (name.clone(), text.get_ref().clone())).collect();
    for text in file.texts.values() {
        shared.check_text(text.get_ref()).map_err(|why| at(text.span(), &why))?;
    }
    let shared = Arc::new(shared);
    let claim = |written: Spanned<Written>| {
        let span = written.span();
        let read = Reader { shared: &shared, terms: &written_terms };
        read.claim(document, written.into_inner()).map_err(|why| at(span, &why))
    };
    file.claim.into_iter().map(claim).collect()
}

impl Shared {
    fn check_arm(&self, name: &str) -> Result<(), String> {
        let Some(arm) = self.arms.get(name) else { return Err(format!("{name} is no arm of this file")) };
        let experiment = arm.experiment();
        if experiments::find(experiment).is_none() {
            return Err(format!("{experiment} is no experiment"));
        }
        for other in arm.refers_to() {
            let other = self.arms.get(other).ok_or_else(|| format!("{other} is no arm of this file"))?;
            if other.refers_to().next().is_some() {
                return Err(format!("{name} refers to an arm that refers to another"));
            }
        }
        Ok(())
    }

    fn formula(&self, text: &str, terms: &BTreeMap<String, String>) -> Result<Formula, String> {
        let formula = Formula::parse(text, terms)?;
        match formula.arms().into_iter().find(|arm| !self.arms.contains_key(*arm)) {
            Some(arm) => Err(format!("{arm} is no arm of this file")),
            None => Ok(formula),
        }
    }

    fn check_text(&self, text: &str) -> Result<(), String> {
        let is_known = |name: &&str| {
            self.terms.contains_key(*name) || self.texts.contains_key(*name) || special::has_text(name)
        };
        let unknown = names_in(text).find(|name| *name != "figure" && !is_known(name));
        unknown.map_or(Ok(()), |name| Err(format!("{{{name}}} is no term and no text of this file")))
    }
}

struct Reader<'a> {
    shared: &'a Arc<Shared>,
    terms: &'a BTreeMap<String, String>,
}

impl Reader<'_> {
    fn claim(&self, document: Document, written: Written) -> Result<Claim, String> {
        let named = |why: String| format!("{}: {why}", written.id);
        if experiments::find(&written.experiment).is_none() {
            return Err(named(format!("{} is no experiment", written.experiment)));
        }
        if written.quote.trim().is_empty() {
            return Err(named("a claim needs a quote of the document".into()));
        }
        Ok(Claim {
            rules: self.rules(&written).map_err(named)?,
            id: written.id,
            document,
            says: written.says,
            quote: written.quote,
            figure: written.figure,
            experiment: written.experiment,
            shared: Arc::clone(self.shared),
        })
    }

    fn rules(&self, written: &Written) -> Result<Rules, String> {
        let why = Why {
            holds: written.why.clone(),
            less: written.less.clone().unwrap_or_else(|| written.why.clone()),
            more: written.more.clone().unwrap_or_else(|| written.why.clone()),
        };
        let conditions = [&written.needs, &written.no_verdict];
        let says = conditions.into_iter().flatten().map(|condition| &condition.say);
        let texts = [&why.holds, &why.less, &why.more].into_iter().chain(&written.ours).chain(says);
        for text in texts.chain(written.instead.iter().map(|instead| &instead.ours)) {
            self.shared.check_text(text)?;
        }
        let says_what_decides = |text: &str| match text.contains(DECIDED_BY) {
            true => Ok(()),
            false => Err(format!("{text}: say what the claim is `{DECIDED_BY}`")),
        };
        let says = conditions.into_iter().flatten().map(|condition| &condition.say);
        says.chain(written.instead.iter().map(|instead| &instead.why))
            .try_for_each(|text| says_what_decides(text))?;
        Ok(Rules {
            judge: self.judge(written)?,
            decides: written.decides.clone(),
            unit: written.unit.clone(),
            ours: written.ours.clone(),
            why,
            missing: written.missing.clone(),
            needs: self.conditions(&written.needs)?,
            no_verdict: self.conditions(&written.no_verdict)?,
            instead: written.instead.as_ref().map(|instead| (instead.ours.clone(), instead.why.clone())),
        })
    }

    fn judge(&self, written: &Written) -> Result<Judge, String> {
        let formula = |text: &String| self.shared.formula(text, self.terms);
        let optional = match &written.measure {
            None => None,
            Some(Measures::One(text)) => Some(formula(text)?),
            Some(Measures::Several(_)) if written.judge == "every" => None,
            Some(Measures::Several(_)) => return Err("only the judge `every` takes several measures".into()),
        };
        let measure =
            || optional.clone().ok_or_else(|| format!("the judge {} needs a measure", written.judge));
        let is_measured = |measure: Formula| match measure.is_measured() {
            true => Ok(measure),
            false => Err("the measure has no samples, and so no interval".to_owned()),
        };
        let measure = || is_measured(measure()?);
        let decides =
            || written.decides.as_ref().ok_or_else(|| format!("the judge {} needs `decides`", written.judge));
        let times = || written.times.ok_or_else(|| format!("the judge {} needs `times`", written.judge));
        let of_written = || bounds(&written.judge, (written.low, written.high));
        Ok(match written.judge.as_str() {
            "bounds" => Judge::Bounds(measure()?, of_written()?),
            "effect" => Judge::Bounds(measure()?, Bounds { low: times()?.sqrt(), high: f64::MAX }),
            "near" => Judge::Bounds(measure()?, near(times()?)),
            "loss" => Judge::Bounds(measure()?, loss(times()?)),
            "every" => match &written.measure {
                Some(Measures::Several(all)) => {
                    let formulas =
                        all.iter().map(|text| is_measured(formula(text)?)).collect::<Result<_, _>>()?;
                    Judge::Every(formulas, of_written()?)
                }
                _ => return Err("the judge `every` takes several measures".into()),
            },
            "not-comparable" => decides().map(|_| Judge::NotComparable(optional))?,
            "not-measured" => decides().map(|_| Judge::NotMeasured)?,
            other => {
                let judge = special::judge(other).ok_or_else(|| format!("{other} is no judge"))?;
                Judge::Special(judge)
            }
        })
    }

    fn conditions(&self, written: &[WrittenCondition]) -> Result<Vec<Condition>, String> {
        let one = |written: &WrittenCondition| {
            let found = ["<=", ">=", "<", ">"]
                .into_iter()
                .find_map(|sign| Some((sign, written.r#where.split_once(sign)?)));
            let (sign, (left, right)) =
                found.ok_or_else(|| format!("{}: a condition compares two formulas", written.r#where))?;
            let verdict = |word: &String| {
                let found = Verdict::ALL.into_iter().find(|verdict| verdict.words() == word);
                found.ok_or_else(|| format!("{word} is no verdict"))
            };
            Ok(Condition {
                left: self.shared.formula(left, self.terms)?,
                sign,
                right: self.shared.formula(right, self.terms)?,
                only: written.only.iter().map(verdict).collect::<Result<_, String>>()?,
                say: written.say.clone(),
            })
        };
        written.iter().map(one).collect()
    }
}

fn bounds(judge: &str, (low, high): (Option<f64>, Option<f64>)) -> Result<Bounds, String> {
    let bounds = Bounds { low: low.unwrap_or(f64::MIN), high: high.unwrap_or(f64::MAX) };
    match (low, high) {
        (None, None) => Err(format!("the judge {judge} needs `low` or `high`")),
        _ if bounds.low > bounds.high => Err("`low` lies above `high`".into()),
        _ => Ok(bounds),
    }
}

/// Within a quarter.
fn near(times: f64) -> Bounds {
    Bounds { low: times * 0.75, high: times * 1.25 }
}

/// What counts as a loss to a share: from half to one and a half of it, as factors go, give or take 5 %.
fn loss(share: f64) -> Bounds {
    Bounds { low: share.powf(1.5) - 0.05, high: share.sqrt() + 0.05 }
}
