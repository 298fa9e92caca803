//! Recordings before and after -> the rows that were added, removed, grown or shrunk. A row is a function
//! with its caller, a stack, an allocating site or a mapping.
//!
//! Rows are matched by name, because two builds of a program have different addresses (`name`). Exact counts are
//! compared exactly, and estimates with the intervals that `report` shows. A row has changed if its difference
//! exceeds sampling error and the variation from run to run, and reaches [`Settings::threshold`]. This holds for all
//! rows of a diff at once, so many rows cause no false alarms (`judge`). A price that rose for all faults is the
//! machine's, and no row's (`price`). Recordings of root and of a user are not compared; other differences between
//! recordings cause warnings (`comparable`).
//!
//! All figures come from the profile, and the total from [`crate::profile::Totals`]: rows, major faults and
//! [`Diff::rest`] add up to it. The total is exact, so its change is known even if no row is. One recording a side
//! shows changes of counts. A small change of price needs several recordings a side: prices of unchanged code also
//! vary from run to run.
//!
//! Nothing here reads files or prints.

mod comparable;
mod judge;
mod kernel;
mod name;
mod price;
mod spread;
mod table;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use crate::filter::Filter;
use crate::kind::Kind;
use crate::measurement::Interval;
use crate::profile::{Profile, Selected, Weighted};
use crate::recording::Recording;
use crate::tuning::{DIFF_ERROR, DIFF_THRESHOLD};

pub use kernel::{KernelDiff, KernelRow, KernelSide};
pub use price::{Price, PriceSource};

use judge::{Judge, Judged};
use table::{Estimate, Table};

/// The row of faults that were only counted, in system calls; their number is exact.
pub const COUNTED: &str = "[in system calls, counted]";

/// A recording and its faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The recording.
    pub recording: Recording,
    /// Its weighted faults.
    pub profile: Profile,
}

impl Run {
    /// Weighs the faults of a recording.
    pub fn new(recording: Recording) -> Self {
        let profile = Profile::new(&recording);
        Self { recording, profile }
    }

    /// Weighs the faults of a recording, and keeps those that a filter selects.
    ///
    /// # Errors
    /// None is left.
    pub fn selected(recording: Recording, filter: &Filter) -> Result<Self, String> {
        let run = Self::new(recording);
        let selection = filter.select(&run.recording, &run.profile)?;
        Ok(Self { profile: run.profile.keep(&selection), ..run })
    }
}

/// What rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The innermost function that touched and is not of a runtime library, and its caller: `memset` is its caller's.
    #[default]
    Function,
    /// The whole touching stack.
    Stack,
    /// The innermost function that asked for the block and is not of a runtime library.
    Alloc,
    /// The file or kind of memory.
    Mapping,
}

/// Faults of a run by function and caller, in Python's terms if it names its functions. Two builds of a
/// program have the same names.
pub(crate) fn call_sites(run: &Run) -> BTreeMap<String, f64> {
    // A place without a name is its file, since its offset changes from build to build.
    let unnamed = HashSet::new();
    let names = name::Names::new(run, By::Function, &unnamed);
    let mut by_key: HashMap<name::Key, (String, f64)> = HashMap::new();
    let site = |fault: &Weighted| {
        let python = fault.stack.and_then(|stack| name::in_python(&run.recording.stacks, stack));
        python.unwrap_or_else(|| names.name(fault))
    };
    for fault in &run.profile.faults {
        by_key.entry(names.key(fault)).or_insert_with(|| (site(fault), 0.0)).1 += fault.faults;
    }
    let mut sites = BTreeMap::new();
    for (name, faults) in by_key.into_values() {
        *sites.entry(name).or_default() += faults;
    }
    sites
}

impl By {
    /// The noun for a row, for `number` of them.
    pub fn noun(self, number: usize) -> &'static str {
        match (self, number) {
            (Self::Function, 1) => "call site",
            (Self::Function, _) => "call sites",
            (Self::Stack, 1) => "stack",
            (Self::Stack, _) => "stacks",
            (Self::Alloc, 1) => "allocating site",
            (Self::Alloc, _) => "allocating sites",
            (Self::Mapping, 1) => "mapping",
            (Self::Mapping, _) => "mappings",
        }
    }
}

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// What rows are.
    pub by: By,
    /// Least difference that counts, as a share (0 to 1) of the larger total.
    pub threshold: f64,
    /// Leave out faults of the kernel, so that recordings of root and of a user compare.
    pub user_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { by: By::Function, threshold: DIFF_THRESHOLD, user_only: false }
    }
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Only after.
    Added,
    /// Only before.
    Removed,
    /// More time after; more faults if the time can't tell.
    Grown,
    /// Less.
    Shrunk,
    /// No difference detected.
    Unchanged,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Added, Self::Removed, Self::Grown, Self::Shrunk, Self::Unchanged];

    /// Of a row that some run before and some run after has.
    fn of([before, after]: [bool; 2], is_significant: bool, is_grown: bool) -> Self {
        match () {
            () if !is_significant => Self::Unchanged,
            () if !before => Self::Added,
            () if !after => Self::Removed,
            () if is_grown => Self::Grown,
            () => Self::Shrunk,
        }
    }

    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Grown => "grown",
            Self::Shrunk => "shrunk",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Why a row has grown or shrunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The number of faults.
    Faults,
    /// What one costs.
    Price,
    /// Both.
    Both,
}

/// A figure before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pair {
    /// Mean of the runs before, with its 95 % interval.
    pub before: Interval,
    /// Mean of the runs after, with its 95 % interval.
    pub after: Interval,
    /// After less before. Rows: the interval holds for all rows at once ([`Diff::confidence`]). The whole: at
    /// 95 %. With one recording a side it covers sampling error only, so an exact count has none.
    pub difference: Interval,
    /// The difference exceeds sampling error and the variation from run to run, and is large enough.
    pub significant: bool,
}

/// A function, stack, allocating site or mapping before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffRow {
    /// Its name; of a call site and of a stack the functions, leaf first.
    pub name: String,
    /// What became of it.
    pub class: Class,
    /// The cause, if the row is on both sides.
    pub cause: Option<Cause>,
    /// Faults, without major ones.
    pub faults: Pair,
    /// Their time as measured, ns.
    pub time_ns: Pair,
    /// Share of the larger total of time or of faults, whichever is larger; 0 to 1.
    pub share: f64,
}

/// Figures of the whole before and after, means of the runs of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BeforeAfter {
    /// Faults before and after.
    pub faults: [f64; 2],
    /// Their time before and after, ns.
    pub time_ns: [f64; 2],
}

/// One of the recordings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// The command.
    pub command: Vec<String>,
    /// Faults.
    pub faults: f64,
    /// CPU time in them, ns.
    pub time_ns: Interval,
    /// The major ones among them.
    pub major: f64,
    /// Their wait for the disk, ns.
    pub major_ns: f64,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// Version of this document.
    pub schema: u32,
    /// What rows are.
    pub by: By,
    /// Least difference that counts, as a share of the larger total.
    pub threshold: f64,
    /// Probability that the intervals of all differences hold at once.
    pub confidence: f64,
    /// Faults of user mode only.
    pub user_only: bool,
    /// What a filter left of the first recording of each side; `None` without one.
    pub selected: Option<[Selected; 2]>,
    /// The recordings before.
    pub before: Vec<Side>,
    /// The recordings after.
    pub after: Vec<Side>,
    /// The change of price that all faults share.
    pub price: Price,
    /// All faults.
    pub faults: Pair,
    /// CPU time in them, ns.
    pub time_ns: Pair,
    /// How many more faults after have no known time, if more or fewer by more than chance: then `time_ns` tells no gain.
    pub untimed: Option<f64>,
    /// Major faults and how long they waited for the disk: in `faults`, not in `time_ns` and in no row.
    pub major: BeforeAfter,
    /// Other faults outside all rows, such as faultless's own.
    pub rest: BeforeAfter,
    /// What differs most first.
    pub rows: Vec<DiffRow>,
    /// Why the figures may not be comparable, a sentence each.
    pub warnings: Vec<String>,
}

impl Diff {
    /// Version of the JSON document.
    pub const SCHEMA: u32 = 3;

    /// Compares recordings before with recordings after. Repeats on a side show the variation from run to
    /// run.
    ///
    /// # Errors
    /// Counts with different meanings (root and user), grouping by allocating site without allocations, or an
    /// empty side.
    pub fn new(before: &[Run], after: &[Run], settings: &Settings) -> Result<Self, String> {
        comparable::check(before, after, settings)?;
        let runs: Vec<&Run> = before.iter().chain(after).collect();
        let table = Table::new(&runs, settings);
        let (prices, price) = price::prices(&runs, &table, before.len());
        let judge = Judge::new(&table, &prices, before.len(), settings);
        let mut sides: Vec<Side> = runs.iter().map(|run| side(run, settings.user_only)).collect();
        let (faults, mut time_ns) = (judge.all_faults(&sides), judge.all_time(&sides));
        let parts = table.names.iter().zip(&table.rows).zip(judge.judged(&faults));
        let parts = parts.map(|((name, runs), judged)| (name, runs.split_at(before.len()), judged));
        let mut rows: Vec<DiffRow> =
            parts.map(|(name, sides, judged)| row(name, sides.into(), &judged, &judge)).collect();
        let counted = judge.counted();
        if table.counted.iter().any(|run| run.faults > 0.0) {
            let sides = table.counted.split_at(before.len());
            rows.push(row(COUNTED, sides.into(), &counted, &judge));
        }
        let is_timed = table.counted.iter().any(|run| run.time_ns > 0.0);
        let untimed = (counted.faults.significant && !is_timed).then_some(counted.faults.difference.value);
        time_ns.significant &= untimed.is_none();
        let weight = |row: &DiffRow| {
            let is_changed = row.class != Class::Unchanged;
            (is_changed, judge.size(row.faults.difference.value, row.time_ns.difference.value), row.share)
        };
        rows.sort_by(|a, b| {
            let order = weight(b).partial_cmp(&weight(a)).unwrap_or(std::cmp::Ordering::Equal);
            order.then_with(|| a.name.cmp(&b.name))
        });
        let after_sides = sides.split_off(before.len());
        let mean = |of: fn(&Side) -> f64| {
            [&sides, &after_sides].map(|side| side.iter().map(of).sum::<f64>() / side.len() as f64)
        };
        let major = BeforeAfter { faults: mean(|side| side.major), time_ns: mean(|side| side.major_ns) };
        let beyond = |whole: &Pair, of: fn(&DiffRow) -> &Pair| {
            let rows = rows.iter().map(of);
            rows.fold([whole.before.value, whole.after.value], |[before, after], row| {
                [before - row.before.value, after - row.after.value]
            })
        };
        let others = beyond(&faults, |row| &row.faults);
        let rest = BeforeAfter {
            faults: [0, 1].map(|side| others[side] - major.faults[side]),
            time_ns: beyond(&time_ns, |row| &row.time_ns),
        };
        Ok(Self {
            schema: Self::SCHEMA,
            by: settings.by,
            threshold: settings.threshold,
            confidence: 1.0 - DIFF_ERROR,
            user_only: settings.user_only || runs.iter().any(|run| run.recording.header.settings.user_only),
            selected: before[0]
                .profile
                .selected
                .clone()
                .zip(after[0].profile.selected.clone())
                .map(Into::into),
            before: sides,
            after: after_sides,
            price,
            faults,
            time_ns,
            untimed,
            major,
            rest,
            rows,
            warnings: comparable::warnings(before, after, false),
        })
    }

    /// For each fault of each run whether its row has changed: by more than chance, and by [`Settings::threshold`]. Major
    /// faults are in no row. `runs` are the compared ones, those before first.
    pub fn has_changed(&self, runs: &[&Run]) -> Vec<Vec<bool>> {
        let changed = self.rows.iter().filter(|row| row.class != Class::Unchanged);
        let changed: HashSet<&str> = changed.map(|row| row.name.as_str()).collect();
        let same_files = name::same_files(runs);
        let of_run = |run: &&Run| {
            let names = name::Names::new(run, self.by, &same_files);
            let mut known: HashMap<name::Key, bool> = HashMap::new();
            let mut has_changed = |fault: &Weighted| {
                fault.kind != Kind::Major
                    && *known
                        .entry(names.key(fault))
                        .or_insert_with(|| changed.contains(names.name(fault).as_str()))
            };
            run.profile.faults.iter().map(&mut has_changed).collect()
        };
        runs.iter().map(of_run).collect()
    }

    /// How many rows are of a class.
    pub fn count(&self, class: Class) -> usize {
        self.rows.iter().filter(|row| row.class == class).count()
    }
}

/// The figures of a run, from its totals; of a part of it, its time is as uncertain as the run's.
fn side(run: &Run, user_only: bool) -> Side {
    let profile = &run.profile;
    let unplaced = profile.unplaced();
    let of = |is: &dyn Fn(&Weighted) -> bool, figure: fn(&Weighted) -> f64| -> f64 {
        profile.faults.iter().chain(&unplaced).filter(|fault| is(fault)).map(figure).sum()
    };
    let is_out = |fault: &Weighted| user_only && fault.kernel;
    let is_major = |fault: &Weighted| !is_out(fault) && fault.kind == Kind::Major;
    let is_minor = |fault: &Weighted| !is_out(fault) && fault.kind != Kind::Major;
    let seconds = profile.totals.time.as_ref().map_or_else(Interval::default, |time| time.seconds);
    let (faults, part) = match &profile.selected {
        Some(selected) => (
            of(&|fault| !is_out(fault), |fault| fault.faults),
            of(&is_minor, |fault| fault.cost_ns) / selected.time_ns_of_run.max(f64::MIN_POSITIVE),
        ),
        None => {
            let out_ns = of(&|fault| is_out(fault) && fault.kind != Kind::Major, |fault| fault.cost_ns);
            let part = if seconds.value > 0.0 { 1.0 - out_ns / (1e9 * seconds.value) } else { 0.0 };
            (profile.totals.faults() as f64 - of(&is_out, |fault| fault.faults), part.max(0.0))
        }
    };
    Side {
        command: run.recording.header.command.clone(),
        faults,
        time_ns: seconds.times(1e9 * part),
        major: of(&is_major, |fault| fault.faults),
        major_ns: of(&is_major, Weighted::time_ns),
    }
}

fn row(name: &str, [before, after]: [&[Estimate]; 2], judged: &Judged, judge: &Judge) -> DiffRow {
    let Judged { faults, time_ns, price } = *judged;
    let seen = |runs: &[Estimate]| runs.iter().any(|run| run.faults > 0.0);
    let cause = match (faults.significant, price) {
        (true, Some(_)) => Cause::Both,
        (false, Some(_)) => Cause::Price,
        (_, None) => Cause::Faults,
    };
    let grown = match cause {
        Cause::Faults => faults.difference.value > 0.0,
        Cause::Price => price > Some(1.0),
        Cause::Both => time_ns.difference.value > 0.0,
    };
    let is_significant = faults.significant || time_ns.significant;
    let class = Class::of([seen(before), seen(after)], is_significant, grown);
    let larger = |pair: &Pair| pair.before.value.max(pair.after.value);
    DiffRow {
        name: name.to_owned(),
        class,
        cause: matches!(class, Class::Grown | Class::Shrunk).then_some(cause),
        share: judge.size(larger(&faults), larger(&time_ns)),
        faults,
        time_ns,
    }
}
