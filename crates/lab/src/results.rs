//! The results of a record: per cell, phase and quantity the samples, their median and its interval.
//!
//! In: rows. Out: samples by cell, phase and quantity. A sample counts as disturbed if other programs or the
//! hypervisor took more than [`DISTURBED`] of the processors meanwhile. It also does if a first touch had just cost
//! [`COLD_TIMES`] its usual price. Disturbed samples are kept, because they hardly move a median.

use std::collections::BTreeMap;

use faultless_os::page;
use faultless_prof::price::cold::COLD_TIMES;
use faultless_trace::measurement;

use crate::cell::{Cell, Refusal};
use crate::row::{self, Note, Row};
use crate::sample::{FIRST_TOUCH, MACHINE};
use crate::sample::{OWN_CPU, OWN_WALL};

/// A sample is disturbed when others take a larger share of the processors' time.
pub const DISTURBED: f64 = 0.1;

/// All results of a record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    cells: BTreeMap<Cell, Quantities>,
    /// The round of each sample.
    rounds: BTreeMap<Cell, Rounds>,
    /// The phases of each experiment, in running order.
    phases: BTreeMap<String, Vec<String>>,
    /// The notes.
    pub notes: Vec<Note>,
    /// The files that the record was stored without.
    pub lacks: Vec<&'static str>,
    /// Whether a table ended inside a line, as after a crash or on a full disk.
    pub is_torn: bool,
}

/// Samples in the order of the rounds, by phase and quantity.
pub type Quantities = BTreeMap<(String, String), Vec<f64>>;
/// The numbers of these rounds.
type Rounds = BTreeMap<(String, String), Vec<u32>>;

impl Results {
    /// Results of rows.
    ///
    /// # Errors
    /// A row names no cell.
    pub fn of(rows: Vec<Row>) -> Result<Self, Refusal> {
        let mut cells: BTreeMap<Cell, Quantities> = BTreeMap::new();
        let mut rounds: BTreeMap<Cell, Rounds> = BTreeMap::new();
        let mut phases: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in rows {
            let cell = Cell::parse(&row.experiment, row.cell.split_whitespace())?;
            let seen = phases.entry(row.experiment).or_default();
            if row.phase != MACHINE && !seen.contains(&row.phase) {
                seen.push(row.phase.clone());
            }
            let name = (row.phase, row.quantity);
            rounds.entry(cell.clone()).or_default().entry(name.clone()).or_default().push(row.round);
            cells.entry(cell).or_default().entry(name).or_default().push(row.value);
        }
        Ok(Self { cells, rounds, phases, ..Self::default() })
    }

    /// Why cells were not measured, each once. A cell that was refused and measured later is not among them.
    pub fn refused(&self) -> Vec<&Note> {
        let mut last: BTreeMap<(&str, &str), &Note> = BTreeMap::new();
        for note in self.notes_of(row::REFUSED) {
            last.insert((&note.experiment, &note.cell), note);
        }
        let is_measured = |note: &Note| {
            let cell = Cell::parse(&note.experiment, note.cell.split_whitespace());
            cell.is_ok_and(|cell| self.cells.contains_key(&cell))
        };
        last.into_values().filter(|note| !is_measured(note)).collect()
    }

    /// The notes of one kind, such as [`row::VIOLATION`].
    pub fn notes_of(&self, kind: &str) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(move |note| note.kind == kind)
    }

    /// Whether anything of an experiment was measured or refused.
    pub fn has(&self, experiment: &str) -> bool {
        self.cells(experiment).next().is_some() || self.notes.iter().any(|note| note.experiment == experiment)
    }

    /// The cells of an experiment.
    pub fn cells<'a>(&'a self, experiment: &'a str) -> impl Iterator<Item = (&'a Cell, &'a Quantities)> {
        self.cells.iter().filter(move |(cell, _)| cell.experiment == experiment)
    }

    /// The phases of an experiment, in running order.
    pub fn phases(&self, experiment: &str) -> &[String] {
        self.phases.get(experiment).map_or(&[], Vec::as_slice)
    }

    /// The rounds of the samples of one quantity of a cell.
    pub fn rounds(&self, cell: &Cell, phase: &str, quantity: &str) -> &[u32] {
        let name = (phase.to_owned(), quantity.to_owned());
        self.rounds.get(cell).and_then(|rounds| rounds.get(&name)).map_or(&[], Vec::as_slice)
    }

    /// All cells.
    pub fn all(&self) -> impl Iterator<Item = (&Cell, &Quantities)> {
        self.cells.iter()
    }

    /// The quantities of a cell.
    pub fn cell(&self, cell: &Cell) -> Option<&Quantities> {
        self.cells.get(cell)
    }

    /// How many samples there are, and how many of them were disturbed.
    pub fn disturbed(&self) -> (usize, usize) {
        disturbed(self.cells.values())
    }
}

/// How many samples these cells have, and how many of them were disturbed.
pub fn disturbed<'a>(cells: impl Iterator<Item = &'a Quantities>) -> (usize, usize) {
    let cells: Vec<_> = cells
        .map(|quantities| {
            ["others_share", "steal_share", FIRST_TOUCH]
                .map(|quantity| values(quantities, MACHINE, quantity).unwrap_or_default())
        })
        .collect();
    let touches: Vec<f64> = cells.iter().flat_map(|[.., touches]| touches.iter().copied()).collect();
    let cold_ns = measurement::median_interval(&touches).map_or(f64::MAX, |found| found.value * COLD_TIMES);
    cells.into_iter().fold((0, 0), |(all, disturbed), [others, steal, touches]| {
        let is_disturbed = |index: &usize| {
            others[*index] + steal.get(*index).unwrap_or(&0.0) > DISTURBED
                || touches.get(*index).is_some_and(|ns| *ns > cold_ns)
        };
        (all + others.len(), disturbed + (0..others.len()).filter(is_disturbed).count())
    })
}

/// CPU time of a phase in each sample, ns. The clocks of the phase's own threads come first, since the clock of
/// the process may lag behind them.
pub fn cpu_ns(quantities: &Quantities, phase: &str) -> Vec<f64> {
    let found = [OWN_CPU, "cpu_ns"].into_iter().find_map(|quantity| values(quantities, phase, quantity));
    found.unwrap_or_default().to_vec()
}

/// Minor faults of a phase.
pub(crate) fn faults(found: &Quantities, phase: &str) -> Vec<f64> {
    values(found, phase, "minor_faults").unwrap_or_default().to_vec()
}

/// Wall times of a phase, ms.
pub(crate) fn wall_ms(found: &Quantities, phase: &str) -> Vec<f64> {
    wall_ns(found, phase).iter().map(|ns| ns / 1e6).collect()
}

/// Wall time of a phase for each base page of a cell's `mib`, us.
pub(crate) fn us_per_page(cell: &Cell, found: &Quantities, phase: &str) -> Vec<f64> {
    let pages = cell.mib("mib").map_or(1, |bytes| bytes / page::size()) as f64;
    wall_ns(found, phase).iter().map(|ns| ns / 1e3 / pages).collect()
}

/// Wall time of a phase in each sample, ns. The time of the phase's own threads comes first: it is without
/// starting and joining them.
pub fn wall_ns<'a>(quantities: &'a Quantities, phase: &str) -> &'a [f64] {
    let found = [OWN_WALL, "wall_ns"].into_iter().find_map(|quantity| values(quantities, phase, quantity));
    found.unwrap_or_default()
}

/// The samples of one quantity of a cell.
pub fn values<'a>(quantities: &'a Quantities, phase: &str, quantity: &str) -> Option<&'a [f64]> {
    quantities.get(&(phase.to_owned(), quantity.to_owned())).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cell: &str, round: u32, quantity: &str, value: f64) -> Row {
        let phase = if quantity.ends_with("share") || quantity == FIRST_TOUCH { MACHINE } else { "first" };
        Row {
            experiment: "touch".into(),
            cell: cell.into(),
            round,
            phase: phase.into(),
            quantity: quantity.into(),
            value,
        }
    }

    #[test]
    fn times_are_those_of_the_threads_where_they_told() {
        let of = |quantities: &[&str]| {
            let rows =
                (1..).zip(quantities).map(|(ns, quantity)| row("threads=1", 1, quantity, f64::from(ns)));
            let results = Results::of(rows.collect()).unwrap();
            let (_, found) = results.all().next().unwrap();
            (wall_ns(found, "first").to_vec(), cpu_ns(found, "first"))
        };
        assert_eq!(of(&["wall_ns", "cpu_ns"]), (vec![1.0], vec![2.0]));
        assert_eq!(of(&["wall_ns", "cpu_ns", OWN_WALL, OWN_CPU]), (vec![3.0], vec![4.0]));
        assert_eq!(of(&["user_ns"]), (vec![], vec![]));
    }

    #[test]
    fn what_was_refused_and_measured_later_is_not_missing() {
        let mut results = Results::of(vec![row("threads=1", 1, "wall_ns", 1.0)]).unwrap();
        let note = |cell: &str, text: &str| Note {
            experiment: "touch".into(),
            cell: cell.into(),
            round: 1,
            kind: row::REFUSED.into(),
            text: text.into(),
        };
        results.notes = vec![note("threads=1", "a"), note("threads=2", "b"), note("threads=2", "c")];
        let texts: Vec<_> = results.refused().iter().map(|note| note.text.as_str()).collect();
        assert_eq!(texts, ["c"]);
    }

    #[test]
    fn disturbed_samples_are_counted() {
        let sample = |round, others, steal, touch_ns| {
            let of = |quantity, value| row("threads=1", round, quantity, value);
            [of("others_share", others), of("steal_share", steal), of(FIRST_TOUCH, touch_ns)]
        };
        let quiet = [sample(1, 0.0, 0.01, 500.0), sample(2, 0.09, 0.0, 700.0), sample(3, 0.0, 0.0, 600.0)];
        let (busy, cold) = (sample(4, 0.08, 0.05, 600.0), sample(5, 0.0, 0.0, 2_400.0));
        let results = Results::of([quiet.concat(), busy.into(), cold.into()].concat()).unwrap();
        assert_eq!(results.disturbed(), (5, 2));
    }
}
