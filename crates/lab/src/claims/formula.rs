//! The formulas of the claim files, over the samples of a record's cells.
//!
//! In: a formula as text, named cells and a record. Out: one value per round, or one number.
//!
//! A formula has numbers, `+ - * /`, brackets, and these names:
//!
//! | written | means |
//! |---|---|
//! | `ARM.PHASE.QUANTITY` | the samples of a quantity of the cell that `ARM` selects ([`Arm`]) |
//! | `ARM.PARAMETER` | the number that the cell has for a parameter |
//! | `ARM.bytes`, `ARM.pages` | the cell's `mib` in bytes and in base pages |
//! | `NAME` | a formula of the file's `[terms]` |
//! | `page_bytes` | the size of a base page |
//!
//! Two samples are combined only if they are of the same round ([`Rounds`]). The phase `every` stands for all phases: a
//! round has the largest value of them, as it has of all cells of an arm with `NAME=each`. Two quantities are derived: `thread_wall_ns` and
//! `thread_cpu_ns` are the times of the phase's own threads, or of the whole phase where it did not note them.
//!
//! | function | result |
//! |---|---|
//! | `ratio(a, b)` | `a / b`, of the rounds in which both are positive |
//! | `over(a, b)` | `a / b`, of the rounds in which `b` is positive |
//! | `max(a, b, ...)` | the larger value of each round |
//! | `or(a, b)` | `b` where `a` was not measured |
//! | `highest(a)` | per round, the highest value of all cells of an arm with `NAME=each` |
//! | `fastest(a, n)` | per round, the number `n` of the cell of such an arm where `a` is least |
//! | `processors(EXPERIMENT)` | how many processors the measured machine has |
//!
//! It does not judge.

use std::collections::{BTreeMap, BTreeSet};

use faultless_os::page;
use faultless_trace::stat::Interval;

use super::arm::{Arm, processors};
use super::rounds::Rounds;
use crate::cell::Cell;
use crate::results::Results;
use crate::sample::{OWN_CPU, OWN_WALL};

/// What a formula yields.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// One number, the same in every round.
    Number(f64),
    /// One value per round.
    Rounds(Rounds),
}

impl Value {
    /// The median with its interval; a number has an interval without width.
    pub(super) fn interval(&self) -> Option<Interval> {
        match self {
            Self::Number(value) => Some(Interval { value: *value, low: *value, high: *value }),
            Self::Rounds(rounds) => rounds.interval(),
        }
    }

    /// Rounds behind it; a number has none.
    pub(super) fn rounds(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Rounds(rounds) => rounds.len(),
        }
    }

    fn median(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Rounds(rounds) => rounds.median(),
        }
    }

    /// An operation on two values, round by round.
    fn with(&self, other: &Self, operation: impl Fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => Self::Number(operation(*a, *b)),
            (Self::Number(a), Self::Rounds(b)) => Self::Rounds(b.clone().map(|b| operation(*a, b))),
            (Self::Rounds(a), Self::Number(b)) => Self::Rounds(a.clone().map(|a| operation(a, *b))),
            (Self::Rounds(a), Self::Rounds(b)) => Self::Rounds(a.with(b, operation)),
        }
    }
}

/// A formula that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Formula {
    Number(f64),
    PageBytes,
    Samples { arm: String, phase: String, quantity: String },
    Parameter { arm: String, name: String },
    Processors(String),
    Call(Function, Vec<Formula>),
    Operation(char, Box<Formula>, Box<Formula>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Ratio,
    Over,
    Max,
    Or,
    Highest,
    Fastest,
}

/// Names of the functions, and how many values each takes.
const FUNCTIONS: [(&str, Function, std::ops::RangeInclusive<usize>); 6] = [
    ("ratio", Function::Ratio, 2..=2),
    ("over", Function::Over, 2..=2),
    ("max", Function::Max, 2..=16),
    ("or", Function::Or, 2..=2),
    ("highest", Function::Highest, 1..=1),
    ("fastest", Function::Fastest, 2..=2),
];

/// The phase that stands for all of them.
const EVERY: &str = "every";
/// Derived quantities: the one that is preferred, and the one that every phase has.
const DERIVED: [(&str, [&str; 2]); 2] =
    [("thread_wall_ns", [OWN_WALL, "wall_ns"]), ("thread_cpu_ns", [OWN_CPU, "cpu_ns"])];

impl Formula {
    /// Reads a formula; `terms` are the formulas that it may name.
    pub(super) fn parse(text: &str, terms: &BTreeMap<String, String>) -> Result<Self, String> {
        Parser { words: words(text)?, at: 0, terms, depth: 0 }.whole(text)
    }

    /// Whether it rests on samples, and so has one value per round. A number has an interval without width.
    pub(super) fn is_measured(&self) -> bool {
        match self {
            Self::Number(_) | Self::PageBytes | Self::Parameter { .. } | Self::Processors(_) => false,
            Self::Samples { .. } => true,
            Self::Call(_, values) => values.iter().any(Self::is_measured),
            Self::Operation(_, a, b) => a.is_measured() || b.is_measured(),
        }
    }

    /// The samples that it names: arm, phase and quantity.
    pub(super) fn leaves(&self) -> Vec<[&str; 3]> {
        match self {
            Self::Samples { arm, phase, quantity } => vec![[arm, phase, quantity]],
            Self::Call(_, values) => values.iter().flat_map(Self::leaves).collect(),
            Self::Operation(_, a, b) => [a.leaves(), b.leaves()].concat(),
            Self::Number(_) | Self::PageBytes | Self::Parameter { .. } | Self::Processors(_) => Vec::new(),
        }
    }

    /// The arms that it names.
    pub(super) fn arms(&self) -> Vec<&str> {
        match self {
            Self::Number(_) | Self::PageBytes | Self::Processors(_) => Vec::new(),
            Self::Samples { arm, .. } | Self::Parameter { arm, .. } => vec![arm],
            Self::Call(_, values) => values.iter().flat_map(Self::arms).collect(),
            Self::Operation(_, a, b) => [a.arms(), b.arms()].concat(),
        }
    }
}

/// Numbers, names and signs.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for c in text.chars() {
        let is_part = c.is_ascii_alphanumeric() || c == '_' || c == '.';
        match words.last_mut() {
            Some(word) if is_part && is_open => word.push(c),
            _ if is_part || "+-*/(),".contains(c) => words.push(c.to_string()),
            _ if c.is_whitespace() => {}
            _ => return Err(format!("{text}: {c} means nothing in a formula")),
        }
        is_open = is_part;
    }
    Ok(words)
}

struct Parser<'a> {
    words: Vec<String>,
    at: usize,
    terms: &'a BTreeMap<String, String>,
    depth: usize,
}

/// Terms may name terms, so deep; deeper is a circle.
const MOST_DEPTH: usize = 8;

impl Parser<'_> {
    fn whole(mut self, text: &str) -> Result<Formula, String> {
        let formula = self.sum()?;
        match self.words.get(self.at) {
            None => Ok(formula),
            Some(word) => Err(format!("{text}: {word} is not expected")),
        }
    }

    fn take(&mut self, signs: &str) -> Option<char> {
        let sign = self.words.get(self.at)?.chars().next().filter(|sign| signs.contains(*sign))?;
        self.at += 1;
        Some(sign)
    }

    fn sum(&mut self) -> Result<Formula, String> {
        let mut left = self.product()?;
        while let Some(sign) = self.take("+-") {
            left = Formula::Operation(sign, left.into(), self.product()?.into());
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Formula, String> {
        let mut left = self.value()?;
        while let Some(sign) = self.take("*/") {
            left = Formula::Operation(sign, left.into(), self.value()?.into());
        }
        Ok(left)
    }

    fn value(&mut self) -> Result<Formula, String> {
        if self.take("(").is_some() {
            let inner = self.sum()?;
            return self.close().map(|()| inner);
        }
        let word = self.words.get(self.at).ok_or("the formula ends too early")?.clone();
        self.at += 1;
        if let Ok(number) = word.parse() {
            return Ok(Formula::Number(number));
        }
        if self.take("(").is_some() {
            return self.call(&word);
        }
        let parts: Vec<String> = word.split('.').map(str::to_owned).collect();
        match <[String; 3]>::try_from(parts) {
            Ok([arm, phase, quantity]) => Ok(Formula::Samples { arm, phase, quantity }),
            Err(parts) => self.short(&parts),
        }
    }

    fn short(&self, parts: &[String]) -> Result<Formula, String> {
        match parts {
            [arm, name] => Ok(Formula::Parameter { arm: arm.clone(), name: name.clone() }),
            [name] if name == "page_bytes" => Ok(Formula::PageBytes),
            [name] => {
                let term = self.terms.get(name).ok_or_else(|| format!("{name} is no term of this file"))?;
                if self.depth == MOST_DEPTH {
                    return Err(format!("the term {name} is defined by itself"));
                }
                let depth = self.depth + 1;
                Parser { words: words(term)?, at: 0, terms: self.terms, depth }.whole(term)
            }
            _ => Err(format!("{}: a name has three parts at most", parts.join("."))),
        }
    }

    fn call(&mut self, name: &str) -> Result<Formula, String> {
        if name == "processors" {
            let experiment = self.words.get(self.at).cloned().unwrap_or_default();
            self.at += 1;
            return self.close().map(|()| Formula::Processors(experiment));
        }
        let known = FUNCTIONS.into_iter().find(|(known, ..)| *known == name);
        let (_, function, counts) = known.ok_or_else(|| format!("{name} is no function"))?;
        let mut values = vec![self.sum()?];
        while self.take(",").is_some() {
            values.push(self.sum()?);
        }
        self.close()?;
        if !counts.contains(&values.len()) {
            return Err(format!("{name} does not take {} values", values.len()));
        }
        Ok(Formula::Call(function, values))
    }

    fn close(&mut self) -> Result<(), String> {
        self.take(")").map(|_| ()).ok_or_else(|| "a bracket is not closed".to_owned())
    }
}

/// A record, and the cells that the names of a formula stand for.
#[derive(Clone)]
pub(super) struct Samples<'a> {
    results: &'a Results,
    cells: BTreeMap<&'a str, Vec<&'a Cell>>,
}

impl<'a> Samples<'a> {
    pub(super) fn new(results: &'a Results, arms: &'a BTreeMap<String, Arm>) -> Self {
        let cells = arms.iter().map(|(name, arm)| (name.as_str(), arm.select(results, arms))).collect();
        Self { results, cells }
    }

    /// What a formula yields; nothing where a cell or a quantity that it needs was not measured.
    pub(super) fn value(&self, formula: &Formula) -> Option<Value> {
        match formula {
            Formula::Number(number) => Some(Value::Number(*number)),
            Formula::PageBytes => Some(Value::Number(page::size() as f64)),
            Formula::Processors(experiment) => processors(self.results, experiment).map(Value::Number),
            Formula::Samples { arm, phase, quantity } => self.samples(arm, phase, quantity),
            Formula::Parameter { arm, name } => self.parameter(arm, name).map(Value::Number),
            Formula::Operation(sign, a, b) => {
                let operation = |a: f64, b: f64| match sign {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                };
                self.both(a, b, operation)
            }
            Formula::Call(function, values) => self.call(*function, values),
        }
    }

    /// The samples behind a formula: cell, phase and quantity of each.
    pub(super) fn rests_on(&self, formula: &Formula) -> BTreeSet<String> {
        let of_leaf = |[arm, phase, quantity]: [&str; 3]| {
            let cells = self.cells.get(arm).into_iter().flatten();
            cells.map(|cell| format!("{cell} {phase} {quantity}")).collect::<Vec<_>>()
        };
        formula.leaves().into_iter().flat_map(of_leaf).collect()
    }

    /// The cells behind a formula.
    pub(super) fn cells_of(&self, formula: &Formula) -> BTreeSet<&'a Cell> {
        let arms = formula.leaves().into_iter().map(|[arm, ..]| arm);
        arms.flat_map(|arm| self.cells.get(arm).into_iter().flatten().copied()).collect()
    }

    /// The median of a formula, as one number.
    pub(super) fn number(&self, formula: &Formula) -> Option<f64> {
        self.value(formula)?.median()
    }

    fn parameter(&self, arm: &str, name: &str) -> Option<f64> {
        let cell = self.cells.get(arm)?.first()?;
        let bytes = || cell.mib("mib").ok();
        match name {
            "bytes" => Some(bytes()? as f64),
            "pages" => Some((bytes()? / page::size()) as f64),
            _ => cell.text(name).ok()?.parse().ok(),
        }
    }

    fn samples(&self, arm: &str, phase: &str, quantity: &str) -> Option<Value> {
        let derived = DERIVED.iter().find(|(name, _)| *name == quantity);
        let names = derived.map_or_else(|| vec![quantity], |(_, names)| names.to_vec());
        let cells = self.cells.get(arm)?.iter();
        let all = cells.flat_map(|cell| self.of_cell(cell, phase, &names)).reduce(|a, b| a.or_larger(&b));
        all.filter(|rounds| !rounds.is_empty()).map(Value::Rounds)
    }

    /// By phase, where `every` names several.
    fn of_cell(&self, cell: &Cell, phase: &str, names: &[&str]) -> Vec<Rounds> {
        let phases = match phase {
            EVERY => self.results.phases(&cell.experiment).to_vec(),
            _ => vec![phase.to_owned()],
        };
        phases.iter().filter_map(|phase| Rounds::of(self.results, cell, phase, names)).collect()
    }

    /// Two formulas, round by round.
    fn both(&self, a: &Formula, b: &Formula, operation: impl Fn(f64, f64) -> f64) -> Option<Value> {
        Some(self.value(a)?.with(&self.value(b)?, operation))
    }

    fn call(&self, function: Function, values: &[Formula]) -> Option<Value> {
        match (function, values) {
            (Function::Ratio, [a, b]) => {
                let positive = |value: f64| if value > 0.0 { value } else { f64::NAN };
                self.both(a, b, |a, b| positive(a) / positive(b)).and_then(finite)
            }
            (Function::Over, [a, b]) => {
                self.both(a, b, |a, b| if b > 0.0 { a / b } else { f64::NAN }).and_then(finite)
            }
            (Function::Or, [a, b]) => self.value(a).or_else(|| self.value(b)),
            (Function::Max, [first, rest @ ..]) => rest
                .iter()
                .try_fold(self.value(first)?, |most, next| Some(most.with(&self.value(next)?, f64::max))),
            (Function::Highest, [a]) => {
                let found = self.each_cell(a).into_iter().filter_map(|cell| cell.value(a));
                found.reduce(|a, b| a.with(&b, f64::max))
            }
            (Function::Fastest, [a, name]) => self.fastest(a, name),
            _ => None,
        }
    }

    /// Per round that all cells have, the number of the cell with the least value.
    fn fastest(&self, formula: &Formula, number: &Formula) -> Option<Value> {
        let mut least: BTreeMap<u32, (usize, f64, f64)> = BTreeMap::new();
        let mut cells = 0;
        for cell in self.each_cell(formula) {
            let (Some(Value::Rounds(rounds)), Some(number)) = (cell.value(formula), cell.number(number))
            else {
                continue;
            };
            cells += 1;
            for (round, value) in rounds.iter() {
                let (count, best, of) = least.get(&round).copied().unwrap_or((0, f64::MAX, number));
                let (best, of) = if value < best { (value, number) } else { (best, of) };
                least.insert(round, (count + 1, best, of));
            }
        }
        let whole = least.into_iter().filter(|(_, (count, ..))| *count == cells);
        let rounds: Rounds = whole.map(|(round, (.., number))| (round, number)).collect();
        (!rounds.is_empty()).then_some(Value::Rounds(rounds))
    }

    /// The same record, once for every cell of the arms of a formula that select several.
    fn each_cell(&self, formula: &Formula) -> Vec<Self> {
        let arms = formula.arms();
        let many = self.cells.iter().find(|(arm, cells)| arms.contains(*arm) && cells.len() > 1);
        let Some((many, cells)) = many else { return vec![self.clone()] };
        let one = |cell| {
            let mut one = self.clone();
            one.cells.insert(many, vec![cell]);
            one
        };
        cells.iter().copied().map(one).collect()
    }
}

/// Without values that are not finite; nothing where none is left.
fn finite(value: Value) -> Option<Value> {
    match value {
        Value::Number(number) => number.is_finite().then_some(Value::Number(number)),
        Value::Rounds(rounds) => Some(rounds.finite()).filter(|rounds| !rounds.is_empty()).map(Value::Rounds),
    }
}
