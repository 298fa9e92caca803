//! What an experiment is: cells, each a set of phases with the faults that they must take.
//!
//! In: the machine and the effort. Out: cells, and a trial for each cell. Only a trial's phases have side
//! effects; nothing here reads a clock.

use std::ffi::OsString;
use std::ops::RangeInclusive;

use faultless_os::host::Host;

use crate::cell::{Cell, Refusal};
use crate::claim::{Claim, Unjudged};
use crate::document::Document;
use crate::results::Quantities;

/// How much time may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Every kind of cell once, as small as counts can be: seconds.
    Verify,
    /// Below a minute.
    Quick,
    /// Tens of minutes.
    Default,
    /// Hours: larger sizes, more threads, narrower intervals.
    Full,
}

impl Effort {
    /// The word on the command line and in a record.
    pub fn word(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Quick => "quick",
            Self::Default => "default",
            Self::Full => "full",
        }
    }
}

/// Processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What cells are chosen for.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The machine.
    pub host: &'a Host,
    /// Processors that may be used.
    pub processors: usize,
    /// How much time may be spent.
    pub effort: Effort,
}

impl Scope<'_> {
    /// Numbers of threads from one to beyond the processors: powers of two, the number of processors, twice that.
    pub fn threads(&self) -> Vec<usize> {
        let top = self.processors * 2;
        let mut counts: Vec<usize> = (0..).map(|log2| 1 << log2).take_while(|&count| count <= top).collect();
        counts.extend([self.processors, top]);
        counts.sort_unstable();
        counts.dedup();
        match self.effort {
            Effort::Verify | Effort::Quick => {
                counts.retain(|&count| count == 1 || count == self.processors || count == top)
            }
            Effort::Default | Effort::Full => {}
        }
        counts
    }

    /// One of four values, by effort.
    pub fn pick<T>(&self, [verify, quick, default, full]: [T; 4]) -> T {
        match self.effort {
            Effort::Verify => verify,
            Effort::Quick => quick,
            Effort::Default => default,
            Effort::Full => full,
        }
    }
}

/// The work between two readings of the counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// A name: `setup`, `first`, `second`.
    pub name: &'static str,
    /// The page faults that it must take, minor and major together, from first principles.
    pub faults: RangeInclusive<u64>,
    /// CPU time of all its threads, ns. With less it can't have been done.
    pub least_ns: f64,
    /// Threads that do it.
    pub threads: usize,
    /// The checksum that it must return, where that is known beforehand.
    pub checksum: Option<u64>,
}

impl Phase {
    /// A phase that takes `pages` faults, and a few more: each thread that it starts touches its stack and the
    /// data of the C library.
    pub fn new(name: &'static str, pages: usize, threads: usize) -> Self {
        let pages = pages as u64;
        let most = pages + FEW + threads as u64 * PER_THREAD;
        Self { name, faults: pages..=most, least_ns: 0.0, threads: threads.max(1), checksum: None }
    }

    /// The same phase with its number of accesses, each to a cache line.
    pub fn work(self, accesses: usize) -> Self {
        Self { least_ns: accesses as f64 * ACCESS_NS, ..self }
    }

    /// The same phase with its number of accesses, each to another page.
    pub fn touches(self, pages: usize) -> Self {
        Self { least_ns: pages as f64 * TOUCH_NS, ..self }
    }

    /// The same phase with its checksum.
    pub fn sum(self, checksum: u64) -> Self {
        Self { checksum: Some(checksum), ..self }
    }

    /// The same phase with other bounds on its faults.
    pub fn faults(self, faults: RangeInclusive<u64>) -> Self {
        Self { faults, ..self }
    }

    /// The same phase, which may take so many faults more.
    pub fn up_to(self, more: u64) -> Self {
        let faults = *self.faults.start()..=self.faults.end().saturating_add(more);
        Self { faults, ..self }
    }

    /// The same phase, which may take as few faults as this.
    pub fn at_least(self, least: u64) -> Self {
        let faults = least..=*self.faults.end();
        Self { faults, ..self }
    }
}

/// Faults that any phase may take in addition: code and data of this program that it uses for the first time.
const FEW: u64 = 24;
/// Faults that starting a thread may take: its stack, its thread control block, the C library's arena and caches.
const PER_THREAD: u64 = 16;

/// The least time of an access: four per cycle at 4 GHz.
const ACCESS_NS: f64 = 1.0 / 16.0;
/// The least time of an access to another page: no first-level TLB holds so many pages, and a second level
/// answers once per cycle.
const TOUCH_NS: f64 = 1.0 / 4.0;

/// Values that a phase measured itself: name and value; the unit ends the name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes(pub Vec<(&'static str, f64)>);

impl Notes {
    /// Adds one.
    pub fn add(&mut self, name: &'static str, value: f64) {
        self.0.push((name, value));
    }

    /// The value under a name.
    pub fn of(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }
}

/// One cell, ready to be measured.
pub trait Trial {
    /// Its phases, in running order.
    fn phases(&self) -> Vec<Phase>;

    /// Runs one of them and returns a checksum, so that nothing of it can be optimised away.
    ///
    /// # Errors
    /// The machine refused.
    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal>;
}

/// A phase, and the work that is done in it.
pub type Step<T> = (Phase, fn(&mut T, &mut Notes) -> Result<u64, Refusal>);

/// A trial as a list of steps, and what they work on.
pub struct Steps<T> {
    state: T,
    steps: Vec<Step<T>>,
}

impl<T: 'static> Steps<T> {
    /// The steps that follow from what they work on.
    pub fn of(state: T, steps: impl FnOnce(&T) -> Vec<Step<T>>) -> Box<dyn Trial> {
        let steps = steps(&state);
        Box::new(Self { state, steps })
    }
}

impl<T> Trial for Steps<T> {
    fn phases(&self) -> Vec<Phase> {
        self.steps.iter().map(|(phase, _)| phase.clone()).collect()
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        (self.steps[phase].1)(&mut self.state, notes)
    }
}

/// Cells with their measurements.
pub type Measured<'a> = [(&'a Cell, &'a Quantities)];

/// A point of a document's: line, x, y.
pub type DocumentPoint = (&'static str, f64, f64);

/// A chart of cells: one line for each combination of the parameters that differ, `x` aside.
pub struct Chart {
    /// A fixed name, for its file: `touch-first`.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The parameter along the axis.
    pub x: &'static str,
    /// The label of the axis. Where it ends with "in bytes", numbers are printed in KiB, MiB and so on.
    pub x_label: &'static str,
    /// The label of the values, with their unit.
    pub y_label: &'static str,
    /// The figure of each sample of a cell; empty for cells that are not in this chart.
    pub values: fn(&Cell, &Quantities) -> Vec<f64>,
    /// The position along the axis where it is not the parameter's value.
    pub place: fn(&Cell, &Quantities) -> Option<f64>,
    /// Draws a row for each of these instead of a point per cell: word, phase and quantity.
    pub parts: &'static [(&'static str, &'static str, &'static str)],
    /// The document's own points: line, x, y. On an axis of words the line is the word, and x is ignored.
    pub document: fn() -> Vec<DocumentPoint>,
    /// The remark below the chart.
    pub remark: &'static str,
}

impl Chart {
    /// The defaults of a chart.
    pub const BLANK: Self = Self {
        id: "",
        title: "",
        x: "",
        x_label: "",
        y_label: "",
        values: |_, _| Vec::new(),
        place: |_, _| None,
        parts: &[],
        document: Vec::new,
        remark: "",
    };
}

/// A figure of a cell, as its document has it.
pub struct Column {
    /// Name and unit.
    pub head: &'static str,
    /// The figure of each sample; empty where it has none.
    pub values: fn(&Cell, &Quantities) -> Vec<f64>,
}

/// A row of a document's table: parameters, and a figure for each column.
pub type DocumentRow = (Vec<(&'static str, String)>, Vec<Option<f64>>);

/// A parameter of an experiment's cells.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, as in `NAME=VALUE`.
    pub name: &'static str,
    /// Its value in a cell that does not name it; without one, a cell names it or has nothing to do with it.
    pub usual: Option<&'static str>,
    /// Its meaning and its values, for people.
    pub about: &'static str,
}

impl Parameter {
    /// A parameter that cells name.
    pub const fn named(name: &'static str, about: &'static str) -> Self {
        Self { name, usual: None, about }
    }

    /// A parameter that has a value without being named.
    pub const fn usual(name: &'static str, value: &'static str, about: &'static str) -> Self {
        Self { name, usual: Some(value), about }
    }
}

/// A question of its own that some of an experiment's cells answer.
pub struct Part {
    /// A name that stands for these cells on the command line.
    pub name: &'static str,
    /// The question, in one sentence.
    pub about: &'static str,
    /// Whether a cell is one of them.
    pub has: fn(&Cell) -> bool,
    /// Parameters that keep all their values where nobody chooses one; see [`Sheet::varied`].
    pub varied: &'static [&'static str],
    /// Their document's columns.
    pub columns: &'static [Column],
    /// Their document's rows.
    pub theirs: fn() -> Vec<DocumentRow>,
}

/// What is fixed about an experiment.
pub struct Sheet {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// Its question, in one sentence.
    pub about: &'static str,
    /// The documents that raise the question.
    pub documents: &'static [Document],
    /// The parameters of its cells, in their order.
    pub parameters: &'static [Parameter],
    /// Parameters that keep all their values where nobody chooses one; the others have their usual value then.
    pub varied: &'static [&'static str],
    /// The document's columns.
    pub columns: &'static [Column],
    /// The document's rows.
    pub theirs: fn() -> Vec<DocumentRow>,
    /// Its charts.
    pub charts: &'static [Chart],
    /// What the documents say that its cells answer.
    pub claims: fn() -> Vec<Claim>,
    /// What they say that it cannot decide.
    pub unjudged: fn() -> Vec<Unjudged>,
    /// Parts of it that have a name and columns of their own.
    pub parts: &'static [Part],
}

impl Sheet {
    /// The defaults of a sheet.
    pub const BLANK: Self = Self {
        name: "",
        about: "",
        documents: &[],
        parameters: &[],
        varied: &[],
        columns: &[],
        theirs: Vec::new,
        charts: &[],
        claims: Vec::new,
        unjudged: Vec::new,
        parts: &[],
    };

    /// A cell in the order of the parameters, with the usual value of each that it does not name. Other parameters
    /// come last.
    pub fn complete(&self, cell: &Cell) -> Cell {
        let known = self.parameters.iter().filter_map(|parameter| {
            let value = cell.text(parameter.name).ok().or(parameter.usual)?;
            Some((parameter.name.to_owned(), value.to_owned()))
        });
        let is_other = |(name, _): &&(String, String)| self.parameters.iter().all(|known| known.name != name);
        let others = cell.parameters.iter().filter(is_other).cloned();
        Cell { experiment: self.name.into(), parameters: known.chain(others).collect() }
    }

    /// The complete cell of `NAME=VALUE` words with a blank between.
    pub fn cell(&self, words: &str) -> Cell {
        let words = words.split_whitespace().filter_map(|word| word.split_once('='));
        self.complete(&words.fold(Cell::of(self.name), |cell, (name, value)| cell.with(name, value)))
    }
}

/// One experiment. Adding one is one file and one line in [`experiments::ALL`](crate::experiments::ALL).
pub trait Experiment: Sync {
    /// What is fixed about it.
    fn sheet(&self) -> &'static Sheet;

    /// Its name, as on the command line.
    fn name(&self) -> &'static str {
        self.sheet().name
    }

    /// The cells that answer its question; each has all parameters that concern it ([`Sheet::complete`]).
    fn cells(&self, scope: &Scope) -> Vec<Cell>;

    /// Variables of the environment that a cell's process is started with.
    fn environment(&self, _cell: &Cell) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// Bytes of memory that a cell touches at most. The runner makes as much guest-warm before the cell, and
    /// must find it free.
    ///
    /// # Errors
    /// The cell's parameters are wrong.
    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal>;

    /// Makes a cell ready. It must not touch memory that a phase counts.
    ///
    /// # Errors
    /// The cell's parameters are wrong, or this machine can't do it.
    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_go_beyond_the_processors() {
        let host = Host::default();
        let threads = |effort, processors| Scope { host: &host, processors, effort }.threads();
        assert_eq!(threads(Effort::Default, 6), [1, 2, 4, 6, 8, 12]);
        assert_eq!(threads(Effort::Quick, 2), [1, 2, 4]);
        assert_eq!(threads(Effort::Quick, 1), [1, 2]);
    }
}
