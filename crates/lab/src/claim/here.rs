//! A record as claims see it: cells by some of their parameters, and the samples of their quantities.
//!
//! In: results. Out: [`Series`]. A cell that is not there becomes a text with the command that measures it.

use std::fmt::Display;

use faultless_os::page;

use super::series::Series;
use crate::cell::Cell;
use crate::results::{DISTURBED, Results, values};
use crate::sample::{MACHINE, OWN_CPU, OWN_WALL};

/// A record, and the machine that it is of.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    results: &'a Results,
}

/// The cells of an experiment that meet some conditions, in rising order of their parameters.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    results: &'a Results,
    cells: Vec<&'a Cell>,
    /// The command that measures the first of them.
    command: String,
}

impl<'a> Here<'a> {
    /// The record of these results.
    pub fn new(results: &'a Results) -> Self {
        Self { results }
    }

    /// All cells of an experiment.
    pub fn cells(&self, experiment: &'a str) -> Cells<'a> {
        let mut cells: Vec<&Cell> = self.results.cells(experiment).map(|(cell, _)| cell).collect();
        cells.sort_by(|a, b| a.natural_cmp(b));
        Cells { results: self.results, cells, command: format!("faultless lab {experiment}") }
    }

    /// Processors of the machine, as any cell noted them; 1 where none did.
    pub fn processors(&self) -> usize {
        let noted = self.results.all().flat_map(|(_, quantities)| quantities);
        let mut noted = noted.filter(|((_, quantity), _)| quantity == "processors");
        noted.next().and_then(|(_, values)| values.first().copied()).map_or(1, |count| count as usize)
    }
}

impl Cells<'_> {
    fn keep(mut self, condition: &str, is_kept: impl Fn(&Cell) -> bool) -> Self {
        self.cells.retain(|cell| is_kept(cell));
        self.command.push_str(condition);
        self
    }

    /// Those with this value of a parameter.
    #[must_use]
    pub fn with(self, name: &str, value: impl Display) -> Self {
        let value = value.to_string();
        self.keep(&format!(" {name}={value}"), |cell| cell.text(name) == Ok(&value))
    }

    /// Those whose number a condition accepts; the command names no value.
    #[must_use]
    pub fn whose(self, name: &str, accepts: impl Fn(f64) -> bool) -> Self {
        self.keep("", |cell| number(cell, name).is_some_and(&accepts))
    }

    /// Those with the largest number.
    #[must_use]
    pub fn most(self, name: &str) -> Self {
        self.extreme(name, f64::max)
    }

    /// Those with the smallest number.
    #[must_use]
    pub fn least(self, name: &str) -> Self {
        self.extreme(name, f64::min)
    }

    fn extreme(self, name: &str, of: fn(f64, f64) -> f64) -> Self {
        let end = self.cells.iter().filter_map(|cell| number(cell, name)).reduce(of);
        self.keep("", |cell| end.is_some() && number(cell, name) == end)
    }

    /// Those with the same value as the first of other cells.
    #[must_use]
    pub fn same(self, name: &str, other: &Self) -> Self {
        match other.cells.first().and_then(|cell| cell.text(name).ok()) {
            Some(value) => self.with(name, value),
            None => Self { cells: Vec::new(), ..self },
        }
    }

    /// Each cell by itself.
    pub fn each(&self) -> impl Iterator<Item = Self> {
        let of = |cell| Self { cells: vec![cell], command: format!("faultless lab {cell}"), ..self.clone() };
        self.cells.iter().copied().map(of)
    }

    /// A word that the first cell has for a parameter.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.cells.first()?.text(name).ok()
    }

    /// The number that the first cell has for a parameter.
    pub fn number(&self, name: &str) -> Series {
        self.first(|cell| number(cell, name).map(Series::Number))
    }

    /// Bytes of the first cell's `mib`.
    pub fn bytes(&self) -> Series {
        self.number("mib") * f64::from(1 << 20)
    }

    /// Base pages of the first cell's `mib`.
    pub fn pages(&self) -> Series {
        self.bytes() / page::size() as f64
    }

    /// Samples of a quantity of the first cell.
    pub fn of(&self, phase: &str, quantity: &str) -> Series {
        self.first(|cell| {
            let values = values(self.results.cell(cell)?, phase, quantity)?;
            let rounds = self.results.rounds(cell, phase, quantity);
            let samples = rounds.iter().copied().zip(values.iter().copied()).collect();
            let is_time = quantity.ends_with("_ns") || quantity.ends_with("_share");
            Some(if is_time { Series::Rounds(samples) } else { Series::Counts(samples) })
        })
    }

    fn first(&self, of: impl Fn(&Cell) -> Option<Series>) -> Series {
        let found = self.cells.first().and_then(|cell| of(cell));
        found
            .unwrap_or_else(|| Series::Lacking(format!("not in this record: `{}` measures it", self.command)))
    }

    /// Wall time of a phase, ns: of its own threads, or of the whole phase where it did not note them.
    pub fn wall(&self, phase: &str) -> Series {
        self.of(phase, OWN_WALL).or(self.of(phase, "wall_ns"))
    }

    /// CPU time of a phase, ns, in the same way.
    pub fn cpu(&self, phase: &str) -> Series {
        self.of(phase, OWN_CPU).or(self.of(phase, "cpu_ns"))
    }

    /// Minor faults of a phase.
    pub fn faults(&self, phase: &str) -> Series {
        self.of(phase, "minor_faults")
    }

    /// Per round, the highest value of all cells.
    pub fn highest(&self, of: impl Fn(&Self) -> Series) -> Series {
        if self.cells.is_empty() { of(self) } else { Series::largest(self.each().map(|cell| of(&cell))) }
    }

    /// Per round, the number of a parameter in the cell whose value is least.
    pub fn fastest(&self, name: &str, of: impl Fn(&Self) -> Series) -> Series {
        let each = self.each().filter_map(|cell| match (of(&cell), cell.number(name)) {
            (Series::Rounds(rounds), Series::Number(number)) => Some((number, rounds)),
            _ => None,
        });
        let each: Vec<_> = each.collect();
        let Some((_, first)) = each.first() else { return of(self) };
        let of_round = |round: u32| {
            let all = each.iter().filter_map(|(number, rounds)| Some((*number, *rounds.get(&round)?)));
            all.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(number, _)| number)
        };
        Series::Rounds(first.keys().filter_map(|round| Some((*round, of_round(*round)?))).collect())
    }

    /// Whether others took more of the processors than a sample may lose to them, in the middle round.
    pub fn is_disturbed(&self) -> bool {
        let share = |name| self.of(MACHINE, name).or(0.0);
        (share("others_share") + share("steal_share")).median().is_some_and(|share| share > DISTURBED)
    }
}

/// Why these cells decide nothing about locks, if others used the processors meanwhile.
pub fn disturbed(cells: &[Cells]) -> Option<String> {
    cells.iter().any(Cells::is_disturbed).then(|| {
        "other programs used the processors, which looks like waiting for a lock: decided by an idle machine".into()
    })
}

fn number(cell: &Cell, name: &str) -> Option<f64> {
    cell.text(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;

    fn results() -> Results {
        let row = |(threads, round, value): (usize, u32, f64)| Row {
            experiment: "touch".into(),
            cell: format!("threads={threads} mib=1"),
            round,
            phase: "first".into(),
            quantity: "wall_ns".into(),
            value,
        };
        let rows = [(1, 1, 10.0), (1, 2, 12.0), (2, 1, 6.0), (2, 2, 14.0), (16, 1, 8.0), (16, 2, 20.0)];
        Results::of(rows.map(row).to_vec()).unwrap()
    }

    #[test]
    fn cells_are_found_by_parameter_number_and_extreme() {
        let results = results();
        let all = Here::new(&results).cells("touch");
        assert_eq!(all.clone().with("threads", 2).wall("first").median(), Some(10.0));
        assert_eq!(all.clone().most("threads").number("threads"), Series::Number(16.0));
        assert_eq!(all.clone().whose("threads", |count| count > 1.0).word("threads"), Some("2"));
        assert_eq!(all.highest(|cell| cell.wall("first")).median(), Some(15.0));
        let fastest = all.fastest("threads", |cell| cell.wall("first"));
        assert_eq!(fastest, Series::Rounds([(1, 2.0), (2, 1.0)].into()));
    }

    #[test]
    fn a_cell_that_is_not_there_is_named_with_its_command() {
        let results = results();
        let four = Here::new(&results).cells("touch").with("threads", 4);
        let lacking = four.wall("first").interval().unwrap_err();
        assert_eq!(lacking, "not in this record: `faultless lab touch threads=4` measures it");
    }
}
