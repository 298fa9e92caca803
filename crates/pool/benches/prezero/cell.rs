//! A cell: one arm under one set of conditions, and what was measured of it.
//!
//! In: the words of a command line or the columns of a CSV. Out: plain values. It measures nothing.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Where the zeroed block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Arm {
    /// `mmap`, first touches of base pages, `munmap`.
    Kernel,
    /// The same with THP: the block lies in an aligned mapping of whole huge pages.
    Thp,
    /// A pool that zeroes a dirty block when it is asked for one.
    OnGet,
    /// A pool whose keeper zeroes ahead of need.
    Ahead,
    /// A pool whose dirty memory a thread of the program zeroes ahead of need, whether or not a processor is idle.
    Thread,
    /// A pool that was zeroed to the last byte before a burst of requests, by the same thread: every get is a hit.
    Stock,
}

/// All arms, in the order of the tables.
pub(crate) const ARMS: [Arm; 6] = [Arm::Kernel, Arm::Thp, Arm::OnGet, Arm::Ahead, Arm::Thread, Arm::Stock];

impl Arm {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Thp => "thp",
            Self::OnGet => "on-get",
            Self::Ahead => "ahead",
            Self::Thread => "thread",
            Self::Stock => "stock",
        }
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = ARMS.into_iter().find(|arm| arm.name() == text);
        found.ok_or_else(|| format!("{text}: the arms are {}", ARMS.map(Self::name).join(", ")))
    }
}

/// What a thread does between two gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Pause {
    /// It computes for so many us: its processor is busy.
    Compute(u64),
    /// It sleeps for so many us: its processor is idle.
    Wait(u64),
}

impl Pause {
    pub(crate) const NONE: Self = Self::Compute(0);
}

impl FromStr for Pause {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| {
            digits.parse().map_err(|_| format!("{text}: a pause is a number of us, or wait and a number"))
        };
        match text.strip_prefix("wait") {
            Some(digits) => number(digits).map(Self::Wait),
            None => number(text).map(Self::Compute),
        }
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compute(us) => write!(f, "{us}"),
            Self::Wait(us) => write!(f, "wait{us}"),
        }
    }
}

/// The conditions that all arms of a comparison share. The order is that of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Setting {
    /// KiB per block.
    pub(crate) block_kib: usize,
    /// Blocks that each thread holds at a time; the oldest is freed before a new one is asked for.
    pub(crate) alive: usize,
    pub(crate) pause: Pause,
    pub(crate) threads: usize,
    /// Cache lines written per base page.
    pub(crate) lines: usize,
}

/// One measurement in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) arm: Arm,
    pub(crate) setting: Setting,
    /// How long it is measured, in ms.
    pub(crate) ms: u64,
}

/// The columns of a cell as written by its `Display`, after those that the driver adds.
pub(crate) const CELL: &str = "arm,block_kib,alive,pause,threads,lines,ms";

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { block_kib, alive, pause, threads, lines } = self.setting;
        write!(f, "{},{block_kib},{alive},{pause},{threads},{lines},{}", self.arm.name(), self.ms)
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').collect();
        let [arm, block_kib, alive, pause, threads, lines, ms] = words[..] else {
            return Err(format!("{text}: a cell is {CELL}"));
        };
        let number = |word: &str| word.parse::<usize>().map_err(|_| format!("{word}: not a number"));
        let setting = Setting {
            block_kib: number(block_kib)?,
            alive: number(alive)?.max(1),
            pause: pause.parse()?,
            threads: number(threads)?.max(1),
            lines: number(lines)?,
        };
        Ok(Self { arm: arm.parse()?, setting, ms: number(ms)? as u64 })
    }
}

/// What was measured, by column; a column that is missing reads as 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    values: HashMap<&'static str, f64>,
}

/// The columns of a sample. Seconds are sums over the requesting threads but for `wall_s`, the length of the measurement. CPU
/// time is that of the requesting threads (user, system) or of the whole process (total). `scrub` is what zeroed ahead of
/// need: the keeper's or scrubber's whole thread, or in `stock` that part of the requesting thread, whose user time it is in, too.
/// `cpu_waiting`: the share of the 10 s before in which somebody on the machine waited for a processor.
pub(crate) const SAMPLE: [&str; 19] = [
    "gets",
    "pages",
    "wall_s",
    "get_s",
    "touch_s",
    "free_s",
    "pause_s",
    "user_s",
    "system_s",
    "scrub_cpu_s",
    "total_cpu_s",
    "faults",
    "expected_faults",
    "process_faults",
    "hits",
    "cleared_pages",
    "scrubbed_pages",
    "fresh",
    "cpu_waiting",
];

impl Sample {
    pub(crate) fn set(&mut self, column: &'static str, value: f64) {
        assert!(SAMPLE.contains(&column), "{column} is a column");
        self.values.insert(column, value);
    }

    pub(crate) fn get(&self, column: &str) -> f64 {
        assert!(SAMPLE.contains(&column), "{column} is a column");
        self.values.get(column).copied().unwrap_or(0.0)
    }

    /// How many faults there were beyond what was expected, where that is more than chance: the requesting threads may
    /// fault on a few pages of their own.
    pub(crate) fn surprise(&self, threads: usize) -> Option<f64> {
        let (faults, expected) = (self.get("faults"), self.get("expected_faults"));
        let slack = 16.0 * threads as f64 + expected / 100.0;
        ((faults - expected).abs() > slack).then_some(faults - expected)
    }

    pub(crate) fn parse(header: &[&str], words: &[&str]) -> Result<Self, String> {
        let mut sample = Self::default();
        for column in SAMPLE {
            let at = header.iter().position(|name| *name == column).ok_or(format!("no column {column}"))?;
            let word = words.get(at).ok_or("a line is too short")?;
            sample.set(column, word.parse().map_err(|_| format!("{column}: {word} is no number"))?);
        }
        Ok(sample)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |column: &&str| match self.get(column) {
            whole if whole.fract() == 0.0 => format!("{whole:.0}"),
            other => format!("{other:.9}"),
        };
        f.write_str(&SAMPLE.iter().map(word).collect::<Vec<_>>().join(","))
    }
}
