//! What an experiment is: cells, each a set of phases with the faults that they must take.
//!
//! In: the machine and how much effort may be spent. Out: cells, and for one cell a trial. Pure but for what a trial does
//! in its phases; nothing here looks at a clock.

use std::ffi::OsString;
use std::fmt;
use std::ops::RangeInclusive;

use faultless_os::host::Host;

use crate::results::Quantities;

/// Which document a figure or a claim comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Document {
    /// "A queue of page faults", Arseny Kapoulkine, 2014.
    Queue,
    /// "Bringing The Hardware And Windows To Its Limits", Alois Kraus, 2017.
    Hardware,
    /// "Explicit Memset-Based Page Prefaulting Implementation Report", hakmem, 2025.
    Prefault,
    /// "Prezeroing V2: Why and When it works", Christoph Lameter, 2004.
    Prezeroing,
    /// "Oops All Page Faults!", 2025.
    Oops,
}

impl Document {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Self; 5] = [Self::Queue, Self::Hardware, Self::Prefault, Self::Prezeroing, Self::Oops];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Queue => "A queue of page faults",
            Self::Hardware => "Bringing The Hardware And Windows To Its Limits",
            Self::Prefault => "Explicit Memset-Based Page Prefaulting Implementation Report",
            Self::Prezeroing => "Prezeroing V2: Why and When it works",
            Self::Oops => "Oops All Page Faults!",
        }
    }
}

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

/// What cells are made for.
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

/// One cell: an experiment and its parameters, in the order in which the experiment names them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The experiment's name.
    pub experiment: String,
    /// Parameters and their values.
    pub parameters: Vec<(String, String)>,
}

impl Cell {
    /// A cell without parameters.
    pub fn of(experiment: &str) -> Self {
        Self { experiment: experiment.into(), parameters: Vec::new() }
    }

    /// The same cell with one more parameter.
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.parameters.push((name.into(), value.to_string()));
        self
    }

    /// Reads `NAME=VALUE` words.
    ///
    /// # Errors
    /// A word without `=`.
    pub fn parse<'a>(experiment: &str, words: impl IntoIterator<Item = &'a str>) -> Result<Self, Refusal> {
        words.into_iter().try_fold(Self::of(experiment), |cell, word| {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| Refusal(format!("{experiment}: {word}: a parameter is written NAME=VALUE")))?;
            Ok(cell.with(name, value))
        })
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// The cell has no such parameter.
    pub fn text(&self, name: &str) -> Result<&str, Refusal> {
        let found = self.parameters.iter().find(|(found, _)| found == name);
        found
            .map(|(_, value)| value.as_str())
            .ok_or_else(|| Refusal(format!("{self}: {name}=VALUE is missing")))
    }

    /// The value of a parameter that is a number.
    ///
    /// # Errors
    /// The cell has no such parameter, or it is no whole number of at least 1.
    pub fn number(&self, name: &str) -> Result<usize, Refusal> {
        let text = self.text(name)?;
        let number = text.parse().ok().filter(|&number| number > 0);
        number.ok_or_else(|| Refusal(format!("{self}: {name}={text}: takes a whole number from 1 on")))
    }

    /// The value of a parameter that is a number, or none of something.
    ///
    /// # Errors
    /// The cell has no such parameter, or it is no whole number.
    pub fn count(&self, name: &str) -> Result<usize, Refusal> {
        let text = self.text(name)?;
        text.parse().map_err(|_| Refusal(format!("{self}: {name}={text}: takes a whole number from 0 on")))
    }

    /// What the value of a parameter stands for that is one of some words.
    ///
    /// # Errors
    /// The cell has no such parameter, or it is none of the words.
    pub fn choice<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> Result<T, Refusal> {
        let text = self.text(name)?;
        let found = known.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            let takes = match &words[..] {
                [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
                words => words.concat(),
            };
            Refusal(format!("{self}: {name}={text}: takes {takes}"))
        })
    }

    /// The value of a parameter that is yes or no.
    ///
    /// # Errors
    /// As for [`choice`](Self::choice).
    pub fn flag(&self, name: &str) -> Result<bool, Refusal> {
        self.choice(name, &[("yes", true), ("no", false)])
    }

    /// The value of a parameter that is a number of MiB, in bytes.
    ///
    /// # Errors
    /// As for [`number`](Self::number), or no address space has so much.
    pub fn mib(&self, name: &str) -> Result<usize, Refusal> {
        self.bytes(name, 20)
    }

    /// The value of a parameter that is a number of KiB, in bytes.
    ///
    /// # Errors
    /// As for [`mib`](Self::mib).
    pub fn kib(&self, name: &str) -> Result<usize, Refusal> {
        self.bytes(name, 10)
    }

    /// `unit_log2` is that of the unit in bytes.
    fn bytes(&self, name: &str, unit_log2: u32) -> Result<usize, Refusal> {
        const MOST_LOG2: u32 = 46;
        let (count, most) = (self.number(name)?, 1 << (MOST_LOG2 - unit_log2));
        if count > most {
            return Err(Refusal(format!("{self}: {name}={count}: takes at most {most}")));
        }
        Ok(count << unit_log2)
    }

    /// The parameters as `NAME=VALUE` words.
    pub fn words(&self) -> Vec<String> {
        self.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.experiment)?;
        self.parameters.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Why a cell can't be measured here, as the user reads it: what, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// What is done between two looks at the counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// A name: `setup`, `first`, `second`.
    pub name: &'static str,
    /// The page faults that it must take, minor and major together, from first principles.
    pub faults: RangeInclusive<u64>,
    /// CPU time of all its threads together, ns, below which it can't have been done.
    pub least_ns: f64,
    /// Threads that it is done by.
    pub threads: usize,
    /// What it must return, where that is known beforehand.
    pub checksum: Option<u64>,
}

impl Phase {
    /// A phase that takes between `pages` and a few more faults: each thread that it starts touches its stack and what the
    /// C library keeps for it.
    pub fn new(name: &'static str, pages: usize, threads: usize) -> Self {
        let pages = pages as u64;
        let most = pages + FEW + threads as u64 * PER_THREAD;
        Self { name, faults: pages..=most, least_ns: 0.0, threads: threads.max(1), checksum: None }
    }

    /// The same phase with the accesses it makes, each of a cache line at the most.
    pub fn work(self, accesses: usize) -> Self {
        Self { least_ns: accesses as f64 * ACCESS_NS, ..self }
    }

    /// The same phase with the accesses it makes, each to another page.
    pub fn touches(self, pages: usize) -> Self {
        Self { least_ns: pages as f64 * TOUCH_NS, ..self }
    }

    /// The same phase with what it must return.
    pub fn sum(self, checksum: u64) -> Self {
        Self { checksum: Some(checksum), ..self }
    }

    /// The same phase with other bounds on its faults.
    pub fn faults(self, faults: RangeInclusive<u64>) -> Self {
        Self { faults, ..self }
    }
}

/// Faults that any phase may take on top: code and data of this program that it uses for the first time.
const FEW: u64 = 24;
/// Faults that starting a thread may take: its stack, its thread control block, the C library's arena and caches.
const PER_THREAD: u64 = 16;

/// An access takes a thread longer than this: four per cycle at 4 GHz.
const ACCESS_NS: f64 = 1.0 / 16.0;
/// So does one of another page each time: no first-level TLB holds so many, and a second level answers once per cycle.
const TOUCH_NS: f64 = 1.0 / 4.0;

/// A note under this name says how many faults the phase's own threads or children took, where those of others fall into the
/// same time or another process: then these are held against what must be, not the whole process's.
pub const OWN_FAULTS: &str = "own_faults";

/// A note under this name says how much CPU time the phase's own threads took, ns, by their own clocks.
pub const OWN_CPU: &str = "own_cpu_ns";

/// A note under this name says how long the phase's own threads took, ns, from the moment when all were there to the end of the
/// last: without what starting and joining them takes.
pub const OWN_WALL: &str = "own_wall_ns";

/// Values that a phase found out besides what is counted: name and value, the unit at the end of the name.
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
    /// Its phases, in the order in which they are run.
    fn phases(&self) -> Vec<Phase>;

    /// Runs one of them; a checksum of what was done, so that none of it can be optimised away.
    ///
    /// # Errors
    /// The machine refused.
    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal>;
}

/// Cells with what was measured of each.
pub type Measured<'a> = [(&'a Cell, &'a Quantities)];

/// A picture of an experiment's cells: one line per combination of the parameters other than `x`, of those that differ.
pub struct Chart {
    /// A fixed name, for its file: `touch-first`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The parameter along the axis.
    pub x: &'static str,
    /// What is along the axis, for people; where it ends with "in bytes", they are told in KiB and so on.
    pub x_label: &'static str,
    /// What is drawn, with its unit.
    pub y_label: &'static str,
    /// The figure of each sample of a cell; empty for cells that are not in this picture.
    pub values: fn(&Cell, &Quantities) -> Vec<f64>,
    /// What is along the axis where it is not the parameter's value itself.
    pub place: fn(&Cell, &Quantities) -> Option<f64>,
    /// Parameters that mean nothing where the one along the axis is 0: such a cell begins the lines of all their values.
    pub idle: &'static [&'static str],
    /// Instead of one point of each cell, a row for each of these: word, phase and quantity.
    pub parts: &'static [(&'static str, &'static str, &'static str)],
    /// The document's own points: line, x, y. Where words are along the axis, the line is the word, and x says nothing.
    pub document: &'static [(&'static str, f64, f64)],
    /// What is to be said about it.
    pub remark: fn(&Measured) -> Remark,
}

impl Chart {
    /// What most charts do not have.
    pub const BLANK: Self = Self {
        id: "",
        title: "",
        x: "",
        x_label: "",
        y_label: "",
        values: |_, _| Vec::new(),
        place: |_, _| None,
        idle: &[],
        parts: &[],
        document: &[],
        remark: |_| Remark::default(),
    };
}

/// What is to be said about a chart, and the place along its axis that it is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remark {
    /// A sentence or two.
    pub text: String,
    /// The place.
    pub at: Option<f64>,
}

impl Remark {
    /// Without a place.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), at: None }
    }
}

/// A document's table with our rows beside its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A fixed name, for its file.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Its columns.
    pub heads: &'static [&'static str],
    /// Its rows, from top to bottom: whether it is the document's, and its texts.
    pub rows: Vec<(bool, Vec<String>)>,
    /// How to read it.
    pub remark: &'static str,
}

/// One experiment. Adding one is one file and one line in [`experiments::ALL`](crate::experiments::ALL).
pub trait Experiment: Sync {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// What it asks, in one sentence.
    fn about(&self) -> &'static str;

    /// Where the question comes from.
    fn documents(&self) -> &'static [Document];

    /// The cells that answer it.
    fn cells(&self, scope: &Scope) -> Vec<Cell>;

    /// How its results are drawn.
    fn charts(&self) -> &'static [Chart] {
        &[]
    }

    /// The document's tables with our rows beside its own; for those that have some.
    fn tables(&self, _cells: &Measured) -> Vec<Table> {
        Vec::new()
    }

    /// Variables of the environment that a cell's process is started with.
    fn environment(&self, _cell: &Cell) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// Bytes of memory that a cell touches at most: that much is made guest-warm before it, and must be there.
    ///
    /// # Errors
    /// The cell's parameters are wrong.
    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal>;

    /// Makes a cell ready. Nothing may be touched here that a phase counts.
    ///
    /// # Errors
    /// The cell's parameters are wrong, or this machine can't do it.
    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_back_as_it_is_written() {
        let cell = Cell::of("touch").with("access", "write").with("threads", 2);
        let text = cell.to_string();
        let mut words = text.split(' ');
        assert_eq!(Cell::parse(words.next().unwrap(), words), Ok(cell));
    }

    #[test]
    fn wrong_parameters_are_named() {
        let cell = Cell::of("touch").with("threads", "many");
        assert!(cell.number("threads").unwrap_err().0.contains("threads=many"));
        assert!(cell.number("mib").unwrap_err().0.contains("mib=VALUE is missing"));
        assert!(cell.count("threads").unwrap_err().0.contains("from 0 on"));
        assert!(cell.flag("threads").unwrap_err().0.ends_with("takes yes or no"));
        let known = [("one", 1), ("two", 2), ("many", 3)];
        assert_eq!(cell.choice("threads", &known), Ok(3));
        assert!(
            cell.choice("threads", &known[..2]).unwrap_err().0.ends_with("threads=many: takes one or two")
        );
        assert!(cell.choice("threads", &known[..1]).unwrap_err().0.ends_with("takes one"));
        let cell = Cell::of("touch").with("mib", 3).with("more", usize::MAX);
        assert_eq!((cell.mib("mib"), cell.kib("mib")), (Ok(3 << 20), Ok(3 << 10)));
        assert!(cell.mib("more").unwrap_err().0.contains("at most"));
        assert!(Cell::parse("touch", ["threads"]).unwrap_err().0.contains("NAME=VALUE"));
    }

    #[test]
    fn threads_go_beyond_the_processors() {
        let host = Host::default();
        let threads = |effort, processors| Scope { host: &host, processors, effort }.threads();
        assert_eq!(threads(Effort::Default, 6), [1, 2, 4, 6, 8, 12]);
        assert_eq!(threads(Effort::Quick, 2), [1, 2, 4]);
        assert_eq!(threads(Effort::Quick, 1), [1, 2]);
    }
}
