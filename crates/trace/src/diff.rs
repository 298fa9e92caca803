//! Recordings before and after -> what was added, removed, grown, shrunk, by function and caller, stack, allocating site or
//! mapping.
//!
//! Rows are matched by name, because two builds of one program have other addresses (`name`). A row is changed when its
//! difference is more than samples leave open, more than a program differs from itself, and worth a word
//! ([`Settings::threshold`]). That holds for all rows of a diff at once, so that many rows do not make a few false alarms
//! (`judge`). Times are freed from what the whole machine was dearer (`price`). Counts of root and of a user are refused, other
//! differences between the recordings are warned of (`comparable`).
//!
//! Counts that were counted are compared exactly. Where the price of a row has not changed beyond chance, both sides have the same
//! one: its time differs by what its faults do. One recording a side shows what counts tell. A change of price alone needs
//! several a side: unless it is large, it does not stand out from what prices of unchanged code do from run to run.
//!
//! What it does not do: read files, print.

mod comparable;
mod judge;
mod name;
mod price;
mod spread;
mod table;
mod whole;

use serde::Serialize;

use crate::profile::Profile;
use crate::recording::Recording;
use crate::stat::Interval;
use crate::tuning::{DIFF_ERROR, DIFF_THRESHOLD};

pub use comparable::Refusal;
pub use price::{Price, Source};

use judge::{Estimate, Judge, Judged};
use table::Table;

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

impl By {
    /// What a row is, for `number` of them.
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
    /// Leave times as they were measured, whatever the machine cost meanwhile.
    pub raw_times: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { by: By::Function, threshold: DIFF_THRESHOLD, user_only: false, raw_times: false }
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
    /// More time after, or more faults where the time can't tell.
    Grown,
    /// Less.
    Shrunk,
    /// The same as far as can be told.
    Unchanged,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Added, Self::Removed, Self::Grown, Self::Shrunk, Self::Unchanged];

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
    /// After less before, with an interval that holds for all rows at once ([`Diff::confidence`]). Of one recording a side it
    /// holds what that did not see: an exact count has none.
    pub difference: Interval,
    /// The difference is more than its interval and than what a program differs from itself, and it is large enough.
    pub significant: bool,
}

/// What became of a function, stack, allocating site or mapping.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name; of a call site and of a stack the functions, leaf first.
    pub name: String,
    /// What became of it.
    pub class: Class,
    /// Why, where it is in both.
    pub cause: Option<Cause>,
    /// Faults.
    pub faults: Pair,
    /// Their time in ns, freed from the common price; where the row's price has not changed, at the same price on both sides.
    pub time_ns: Pair,
    /// Share of the larger total, 0 to 1: of time, or of faults where that is more.
    pub share: f64,
}

/// One of the recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The command.
    pub command: Vec<String>,
    /// Faults, as estimated.
    pub faults: f64,
    /// Their time as measured, ns.
    pub time_ns: f64,
    /// How many times dearer all its faults were than those before; its times were divided by it.
    pub price: f64,
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
    /// With what probability the intervals of all differences hold at once.
    pub confidence: f64,
    /// Faults of user mode only.
    pub user_only: bool,
    /// The recordings before.
    pub before: Vec<Side>,
    /// The recordings after.
    pub after: Vec<Side>,
    /// What the machine was dearer.
    pub price: Price,
    /// All faults; `significant` as for a row.
    pub faults: Pair,
    /// All time, ns: rows that have not changed take the same on both sides, but for the number of faults.
    pub time_ns: Pair,
    /// What differs most first.
    pub rows: Vec<Row>,
    /// Why the figures may not be comparable, a sentence each.
    pub warnings: Vec<String>,
}

impl Diff {
    /// Version of the JSON document.
    pub const SCHEMA: u32 = 1;

    /// Compares recordings before with recordings after. Several of a side tell how a program differs from itself.
    ///
    /// # Errors
    /// Counts that mean different things: of root and of a user; by allocating site without allocations; none on a side.
    pub fn new(before: &[Run], after: &[Run], settings: &Settings) -> Result<Self, Refusal> {
        comparable::check(before, after, settings)?;
        let runs: Vec<&Run> = before.iter().chain(after).collect();
        let table = Table::new(&runs, settings);
        let prices = price::prices(&runs, &table, before.len(), settings);
        let judge = Judge::new(&table, &prices.runs, before.len(), settings);
        let judged: Vec<Judged> = judge.rows(&table);
        let (faults, time_ns) = judge.all(&table.totals, &judged);
        let parts = table.names.iter().zip(&table.rows).zip(&judged);
        let mut rows: Vec<Row> = parts.map(|((name, runs), found)| row(name, runs, found, &judge)).collect();
        let weight = |row: &Row| judge.size(row.faults.difference.value, row.time_ns.difference.value);
        rows.sort_by(|a, b| {
            let changed = |row: &Row| row.class != Class::Unchanged;
            let order = (changed(b), weight(b), b.share).partial_cmp(&(changed(a), weight(a), a.share));
            order.unwrap_or(std::cmp::Ordering::Equal).then_with(|| a.name.cmp(&b.name))
        });
        let side = |(run, (all, price)): (&&Run, (&Estimate, &f64))| Side {
            command: run.recording.header.command.clone(),
            faults: all.faults,
            time_ns: all.time_ns,
            price: *price,
        };
        let mut sides: Vec<Side> = runs.iter().zip(table.totals.iter().zip(&prices.runs)).map(side).collect();
        let after_sides = sides.split_off(before.len());
        let mut warnings = comparable::warnings(before, after, settings.raw_times);
        warnings.extend(prices.warning);
        Ok(Self {
            schema: Self::SCHEMA,
            by: settings.by,
            threshold: settings.threshold,
            confidence: 1.0 - DIFF_ERROR,
            user_only: settings.user_only || runs.iter().any(|run| run.recording.header.settings.user_only),
            before: sides,
            after: after_sides,
            price: prices.common,
            faults,
            time_ns,
            rows,
            warnings,
        })
    }

    /// How many rows are of a class.
    pub fn count(&self, class: Class) -> usize {
        self.rows.iter().filter(|row| row.class == class).count()
    }
}

fn row(name: &str, runs: &[Estimate], found: &Judged, judge: &Judge) -> Row {
    let Judged { faults, time_ns, .. } = *found;
    let (before, after) = runs.split_at(judge.before);
    let seen = |runs: &[Estimate]| runs.iter().any(|run| run.faults > 0.0);
    let decisive = if time_ns.significant { &time_ns } else { &faults };
    let class = match (seen(before), seen(after)) {
        _ if !found.is_named() => Class::Unchanged,
        (false, _) => Class::Added,
        (_, false) => Class::Removed,
        _ if decisive.difference.value > 0.0 => Class::Grown,
        _ => Class::Shrunk,
    };
    let cause = matches!(class, Class::Grown | Class::Shrunk).then(|| cause(found));
    let larger = |pair: &Pair| pair.before.value.max(pair.after.value);
    let share = judge.size(larger(&faults), larger(&time_ns));
    Row { name: name.to_owned(), class, cause, faults, time_ns, share }
}

fn cause(found: &Judged) -> Cause {
    // How much of the growth in time, as a product of count and price, the count explains.
    const MOSTLY: f64 = 0.8;
    let growth = |pair: &Pair| (pair.after.value / pair.before.value).ln();
    let by_count = growth(&found.faults) / growth(&found.time_ns);
    match (found.faults.significant, found.is_price_changed) {
        (_, false) => Cause::Faults,
        (false, _) => Cause::Price,
        _ if by_count > MOSTLY => Cause::Faults,
        _ if by_count < 1.0 - MOSTLY => Cause::Price,
        _ => Cause::Both,
    }
}
