//! Arms: the cells that a claim compares, selected by their parameters.
//!
//! In: `EXPERIMENT CONDITION ...` and a record. Out: cells, in rising order of their parameters.
//!
//! | condition | selects |
//! |---|---|
//! | `NAME=VALUE` | cells with this value |
//! | `NAME<=VALUE`, `NAME>=VALUE` | cells with such a number; `VALUE` may name another parameter of the cell |
//! | `NAME=processors`, `NAME=2*processors` | as many as the measured machine has processors, or twice as many |
//! | `NAME=@ARM` | the same value as the cell of another arm |
//! | `NAME=most`, `NAME=least` | of the remaining cells those with the largest or smallest number |
//! | `NAME=each` | all remaining cells; otherwise the first is taken |

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::cell::Cell;
use crate::results::Results;

/// How an arm selects its cells.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Arm {
    experiment: String,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    name: String,
    wanted: Wanted,
}

#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    Text(String),
    AtMost(String),
    AtLeast(String),
    Processors(f64),
    SameAs(String),
    Most,
    Least,
    Each,
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let experiment = words.next().ok_or("an arm begins with an experiment")?.to_owned();
        let conditions = words.map(condition).collect::<Result<_, _>>()?;
        Ok(Self { experiment, conditions })
    }
}

fn condition(word: &str) -> Result<Condition, String> {
    let of = |(name, value): (&str, &str), wanted: fn(String) -> Wanted| Condition {
        name: name.to_owned(),
        wanted: wanted(value.to_owned()),
    };
    if let Some(parts) = word.split_once("<=") {
        return Ok(of(parts, Wanted::AtMost));
    }
    if let Some(parts) = word.split_once(">=") {
        return Ok(of(parts, Wanted::AtLeast));
    }
    let parts = word.split_once('=').ok_or_else(|| format!("{word}: a condition is written NAME=VALUE"))?;
    Ok(match parts.1 {
        "processors" => of(parts, |_| Wanted::Processors(1.0)),
        "2*processors" => of(parts, |_| Wanted::Processors(2.0)),
        "most" => of(parts, |_| Wanted::Most),
        "least" => of(parts, |_| Wanted::Least),
        "each" => of(parts, |_| Wanted::Each),
        other => match other.strip_prefix('@') {
            Some(arm) => of((parts.0, arm), Wanted::SameAs),
            None => of(parts, Wanted::Text),
        },
    })
}

impl Arm {
    /// The experiment that has the cells.
    pub(super) fn experiment(&self) -> &str {
        &self.experiment
    }

    /// The other arms that it refers to.
    pub(super) fn refers_to(&self) -> impl Iterator<Item = &str> {
        self.conditions.iter().filter_map(|condition| match &condition.wanted {
            Wanted::SameAs(arm) => Some(arm.as_str()),
            _ => None,
        })
    }

    /// The cells of a record.
    pub(super) fn select<'a>(&self, results: &'a Results, arms: &BTreeMap<String, Self>) -> Vec<&'a Cell> {
        let mut cells: Vec<&Cell> = results.all().map(|(cell, _)| cell).collect();
        cells.retain(|cell| cell.experiment == self.experiment);
        let mut is_many = false;
        for Condition { name, wanted } in &self.conditions {
            let number = |cell: &Cell| cell.text(name).ok()?.parse::<f64>().ok();
            match wanted {
                Wanted::Text(value) => cells.retain(|cell| cell.text(name) == Ok(value)),
                Wanted::AtMost(limit) => {
                    let holds =
                        |cell: &&Cell| number(cell).zip(value_of(cell, limit)).is_some_and(|(a, b)| a <= b);
                    cells.retain(holds);
                }
                Wanted::AtLeast(limit) => {
                    let holds =
                        |cell: &&Cell| number(cell).zip(value_of(cell, limit)).is_some_and(|(a, b)| a >= b);
                    cells.retain(holds);
                }
                Wanted::Processors(times) => {
                    let count = processors(results, &self.experiment).map(|count| count * times);
                    cells.retain(|cell| count.is_some() && number(cell) == count);
                }
                Wanted::SameAs(arm) => {
                    let other = arms.get(arm).and_then(|arm| arm.select(results, arms).first().copied());
                    let value = other.and_then(|other| other.text(name).ok());
                    cells.retain(|cell| value.is_some() && cell.text(name).ok() == value);
                }
                Wanted::Most => keep(&mut cells, number, f64::max),
                Wanted::Least => keep(&mut cells, number, f64::min),
                Wanted::Each => {
                    cells.retain(|cell| cell.text(name).is_ok());
                    is_many = true;
                }
            }
        }
        cells.truncate(if is_many { usize::MAX } else { 1 });
        cells
    }
}

/// A number, or the number that a cell has for a parameter of that name.
fn value_of(cell: &Cell, text: &str) -> Option<f64> {
    text.parse().ok().or_else(|| cell.text(text).ok()?.parse().ok())
}

/// Keeps the cells with the extreme number.
fn keep(cells: &mut Vec<&Cell>, number: impl Fn(&Cell) -> Option<f64>, extreme: fn(f64, f64) -> f64) {
    let end = cells.iter().filter_map(|cell| number(cell)).reduce(extreme);
    cells.retain(|cell| end.is_some() && number(cell) == end);
}

/// Processors of the machine that was measured, as the first cell of an experiment noted them.
pub(super) fn processors(results: &Results, experiment: &str) -> Option<f64> {
    let noted = results.cells(experiment).flat_map(|(_, quantities)| quantities);
    let mut noted = noted.filter(|((_, quantity), _)| quantity == "processors");
    noted.next().and_then(|(_, values)| values.first().copied())
}

#[cfg(test)]
impl Arm {
    /// Cells that it selects on a machine with so many processors. `defaults` has the parameters of an experiment that
    /// an arm need not name.
    pub(super) fn examples(
        &self,
        arms: &BTreeMap<String, Self>,
        processors: usize,
        defaults: &dyn Fn(&str) -> Vec<(String, String)>,
    ) -> Vec<Cell> {
        let mut cell = Cell { experiment: self.experiment.clone(), parameters: defaults(&self.experiment) };
        let set = |cell: &mut Cell, name: &str, value: String| {
            cell.parameters.retain(|(found, _)| found != name);
            cell.parameters.push((name.to_owned(), value));
        };
        let mut each = None;
        for Condition { name, wanted } in &self.conditions {
            let number = |cell: &Cell| cell.text(name).ok().and_then(|text| text.parse::<f64>().ok());
            match wanted {
                Wanted::Text(value) => set(&mut cell, name, value.clone()),
                Wanted::AtMost(limit) | Wanted::AtLeast(limit) => {
                    let limit = value_of(&cell, limit).unwrap();
                    let is_most = matches!(wanted, Wanted::AtMost(_));
                    let holds =
                        number(&cell).is_some_and(|found| (found <= limit) == is_most || found == limit);
                    if !holds {
                        set(&mut cell, name, limit.to_string());
                    }
                }
                Wanted::Processors(times) => set(&mut cell, name, (processors as f64 * times).to_string()),
                Wanted::SameAs(arm) => {
                    let other = arms[arm].examples(arms, processors, defaults);
                    set(&mut cell, name, other[0].text(name).unwrap().to_owned());
                }
                Wanted::Most if name == "threads" => set(&mut cell, name, (2 * processors).to_string()),
                Wanted::Most if name == "lines" => set(&mut cell, name, "64".to_owned()),
                Wanted::Most | Wanted::Least => {}
                Wanted::Each => each = Some(name),
            }
        }
        let Some(name) = each else { return vec![cell] };
        let with = |count: &str| {
            let mut one = cell.clone();
            set(&mut one, name, count.to_owned());
            one
        };
        ["1", "4", "16"].map(with).to_vec()
    }
}
