//! Recordings -> a table of estimates of minor faults: a row per name, a column per run. Nothing is judged.
//!
//! A row's faults and times have the intervals that `report` shows: counted faults are exact, sampled ones
//! vary as draws do.

use std::collections::{BTreeMap, HashMap};

use super::{Run, Settings, name};
use crate::kind::Kind;
use crate::measurement::Interval;
use crate::profile::{Basis, Tally, Weighted, Whole};
use crate::recording::Recording;
use crate::tuning::DIFF_CHANCE_SPREAD;

/// A row in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub(super) faults: f64,
    pub(super) time_ns: f64,
    /// Sampling error of the faults as standard deviations, below and above.
    pub(super) faults_off: [f64; 2],
    /// The same of the price of one, relative.
    pub(super) price_off: [f64; 2],
    /// Standard deviation from run to run because threads or generated code share the work by chance.
    pub(super) shared: f64,
    /// Faults that chance may give to other rows, or may have taken from them.
    pub(super) movable: f64,
    /// Faults at the start of the run, as long as every run recorded each of its faults.
    pub(super) leading: f64,
    /// Faults that were recorded, so they are there for certain.
    pub(super) certain: f64,
}

/// Estimates of all runs by row, those before first.
pub(super) struct Table {
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Vec<Estimate>>,
    pub(super) totals: Vec<Estimate>,
    /// Faults in system calls that were only counted, by run; in no row.
    pub(super) counted: Vec<Estimate>,
}

/// Sums over the faults of a row in one run.
#[derive(Clone, Default)]
struct Sum {
    tally: Tally,
    /// Poisson's variance of what its faults represent.
    squares: f64,
    threads: BTreeMap<(u32, u32), f64>,
    generated: f64,
    moving: f64,
    leading: f64,
}

impl Table {
    pub(super) fn new(runs: &[&Run], settings: &Settings) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let same_files = name::same_files(runs);
        let leading = runs.iter().map(|run| leading(run)).min().unwrap_or(0);
        let mut sums = |run: &&Run| -> Vec<Sum> {
            let of_run = name::Names::new(run, settings.by, &same_files);
            let is_generated = name::generated(&run.recording.stacks);
            let mut known: HashMap<name::Key, usize> = HashMap::new();
            let mut sums = Vec::new();
            for (at, (fault, basis)) in run.profile.faults.iter().zip(&run.profile.basis).enumerate() {
                // A major fault takes a thousand times as long as others, and the page cache decides whether
                // there is one.
                if settings.user_only && fault.kernel || fault.kind == Kind::Major {
                    continue;
                }
                let row = *known.entry(of_run.key(fault)).or_insert_with(|| {
                    let name = of_run.name(fault);
                    *numbers.entry(name.clone()).or_insert_with(|| {
                        names.push(name);
                        names.len() - 1
                    })
                });
                sums.resize(sums.len().max(row + 1), Sum::default());
                let made = fault.stack.is_some_and(|stack| is_generated.get(stack as usize) == Some(&true));
                sums[row].add(fault, basis, made, at < leading);
            }
            sums
        };
        let sums: Vec<Vec<Sum>> = runs.iter().map(&mut sums).collect();
        let mut rows = vec![Vec::new(); names.len()];
        let mut totals = Vec::new();
        for (run, mut sums) in runs.iter().zip(sums) {
            sums.resize(names.len(), Sum::default());
            let estimates = Estimates::new(run, settings);
            rows.iter_mut().zip(&sums).for_each(|(row, sum)| row.push(estimates.of(sum)));
            totals.push(estimates.total(&sums));
        }
        let counted = runs.iter().map(|run| counted(run, settings)).collect();
        Self { names, rows, totals, counted }
    }

    /// Largest mean total of a side: faults, ns.
    pub(super) fn largest(&self, before: usize) -> (f64, f64) {
        let (a, b) = self.totals.split_at(before);
        let mean = |runs: &[Estimate], of: fn(&Estimate) -> f64| {
            runs.iter().map(of).sum::<f64>() / runs.len() as f64
        };
        let largest = |of: fn(&Estimate) -> f64| mean(a, of).max(mean(b, of));
        (largest(|run| run.faults), largest(|run| run.time_ns))
    }
}

impl Sum {
    /// Adds a fault, in the order of time.
    fn add(&mut self, fault: &Weighted, basis: &Basis, is_generated: bool, is_leading: bool) {
        if !(fault.faults.is_finite() && fault.cost_ns.is_finite() && fault.faults > 0.0) {
            return;
        }
        self.tally.add(fault, basis);
        self.squares += fault.faults * (fault.faults - 1.0).max(0.0);
        *self.threads.entry((fault.pid, fault.tid)).or_default() += fault.faults;
        self.generated += if is_generated { fault.faults } else { 0.0 };
        let moves = moves(fault.kind);
        self.moving += if moves { fault.faults } else { 0.0 };
        self.leading += if is_leading && !moves { 1.0 } else { 0.0 };
    }

    /// Standard deviation from run to run: processes do the same in every run, and so does the thread of each that
    /// has most of the faults. Each other thread varies.
    fn shared(&self) -> f64 {
        let mut of_process: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for ((pid, _), faults) in &self.threads {
            let (squares, most) = of_process.entry(*pid).or_default();
            (*squares, *most) = (*squares + faults * faults, most.max(*faults));
        }
        let variance: f64 = of_process.values().map(|(squares, most)| squares - most * most).sum();
        DIFF_CHANCE_SPREAD * variance.max(0.0).sqrt().max(self.generated)
    }

    /// `main` is the thread of the run with most of its faults.
    fn movable(&self, main: (u32, u32)) -> f64 {
        let of_main = self.threads.get(&main).copied().unwrap_or(0.0);
        (self.tally.faults - of_main).max(self.generated).max(self.moving)
    }
}

/// How the sums of a run become estimates.
struct Estimates {
    all: Tally,
    doubt: f64,
    offset_doubt_ns: f64,
    /// The number of all faults is exact.
    is_counted: bool,
    is_part: bool,
    main: (u32, u32),
}

impl Estimates {
    fn new(run: &Run, settings: &Settings) -> Self {
        let mut all = Tally::default();
        let faults = run.profile.faults.iter().zip(&run.profile.basis);
        let mut threads: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        for (fault, basis) in faults {
            all.add(fault, basis);
            *threads.entry((fault.pid, fault.tid)).or_default() += fault.faults;
        }
        let main = threads.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or((0, 0), |(thread, _)| *thread);
        let calibration = run.recording.observation.calibration;
        Self {
            all,
            doubt: run.profile.doubt,
            offset_doubt_ns: calibration.map_or(0.0, |found| found.offset_doubt_ns()),
            is_counted: is_counted(run, settings),
            is_part: run.profile.selected.is_some(),
            main,
        }
    }

    fn of(&self, sum: &Sum) -> Estimate {
        let whole =
            Whole { all: &self.all, doubt: self.doubt, offset_doubt_ns: self.offset_doubt_ns, huge: None };
        let (faults, time_ns) = (sum.tally.intervals(&whole).0, sum.tally.intervals_of_counted(&whole).1);
        let faults_off = match sum.tally.records {
            0 => [0.0, deviations(&Interval { high: self.all.unseen(), ..Interval::default() })[1]],
            _ if self.is_part => [sum.squares.sqrt(); 2],
            _ => deviations(&faults),
        };
        Estimate {
            faults: faults.value,
            time_ns: time_ns.value,
            faults_off,
            price_off: deviations(&time_ns).map(|off| off / time_ns.value.max(f64::MIN_POSITIVE)),
            shared: sum.shared(),
            movable: sum.movable(self.main),
            leading: sum.leading,
            certain: faults.value.min(sum.tally.records as f64),
        }
    }

    fn total(&self, sums: &[Sum]) -> Estimate {
        let add = |of: &dyn Fn(&Sum) -> f64| sums.iter().map(of).sum::<f64>();
        let sampled = if self.is_counted { 0.0 } else { add(&|sum| sum.squares).sqrt() };
        Estimate {
            faults: add(&|sum| sum.tally.faults),
            time_ns: add(&|sum| sum.tally.time_ns),
            faults_off: [sampled; 2],
            shared: add(&|sum| sum.shared().powi(2)).sqrt(),
            ..Estimate::default()
        }
    }
}

/// Standard deviations below and above of a 95 % interval.
pub(super) fn deviations(interval: &Interval) -> [f64; 2] {
    const SIGMAS: f64 = 1.96;
    [interval.value - interval.low, interval.high - interval.value].map(|off| off / SIGMAS)
}

/// Whether the compared faults were counted, so that their estimates add up to a known number.
fn is_counted(run: &Run, settings: &Settings) -> bool {
    let Recording { header, observation, .. } = &run.recording;
    let user_only = settings.user_only || header.settings.user_only;
    let counts = &observation.counts;
    let is_known = counts.user_faults.is_some() && (user_only || counts.all_faults.is_some());
    run.profile.selected.is_none() && is_known
}

/// Whether chance decides which code takes a fault of this kind. Parent and child race for the copy of a page. A
/// read of a file maps the pages around it too, and random addresses decide which those are.
fn moves(kind: Kind) -> bool {
    matches!(kind, Kind::CowAfterFork | Kind::FileRead)
}

/// Faults in system calls that were only counted: the kernel's without a trap, and without rights all of its faults.
fn counted(run: &Run, settings: &Settings) -> Estimate {
    let (mut sum, mut off_ns) = (Estimate::default(), [0.0_f64; 2]);
    let unplaced = run.profile.unplaced();
    for fault in unplaced.iter().filter(|fault| fault.kernel && !settings.user_only) {
        sum.faults += fault.faults;
        sum.time_ns += fault.cost_ns;
        let mut rows = run.profile.totals.rows.iter();
        let timed = rows.find(|row| row.kind == fault.kind && row.seconds.is_some());
        let Some((low, high)) = timed.and_then(|row| row.seconds_interval) else { continue };
        let off = deviations(&Interval { value: fault.cost_ns, low: 1e9 * low, high: 1e9 * high });
        off_ns = [0, 1].map(|end| off_ns[end].hypot(off[end]));
    }
    sum.price_off = off_ns.map(|off| off / sum.time_ns.max(f64::MIN_POSITIVE));
    sum
}

/// Number of faults at the start of a run that were all recorded.
fn leading(run: &Run) -> usize {
    let basis = &run.profile.basis;
    let first = basis.first().and_then(|basis| basis.burst);
    basis.iter().take_while(|basis| basis.burst.is_some() && basis.burst == first).count()
}
