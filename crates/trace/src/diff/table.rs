//! Recordings -> a table of estimates of minor faults: a row per name, a column per run. Nothing is judged.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::estimate::{Estimate, Figure};
use super::{Run, Settings, name};
use crate::kind::Kind;
use crate::observation::Window;
use crate::profile::Weighted;
use crate::recording::Recording;
use crate::tuning::{DIFF_CHANCE_SPREAD, DIFF_MOVING_SPREAD, DIFF_PHASE_PERIODS, DIFF_PRIOR_RUNS};

/// Estimates of all runs by row, those before first.
pub(super) struct Table {
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Vec<Estimate>>,
    pub(super) totals: Vec<Estimate>,
    /// The faults of all runs were counted: totals are exact.
    pub(super) is_counted: bool,
}

impl Table {
    pub(super) fn new(runs: &[&Run], settings: &Settings) -> Self {
        let is_counted = runs.iter().all(|run| is_counted(run, settings));
        let mut table = Table { names: Vec::new(), rows: Vec::new(), totals: Vec::new(), is_counted };
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let same_files = name::same_files(runs);
        let leading = runs.iter().map(|run| leading(run)).min().unwrap_or(0);
        for (run_index, run) in runs.iter().enumerate() {
            let names = name::Names::new(run, settings.by, &same_files);
            let mut bursts = Bursts::new(&run.recording.observation.windows);
            let mut known: HashMap<name::Key, usize> = HashMap::new();
            let mut figures: Vec<Figure> = vec![Figure::default(); table.names.len()];
            let (mut rows, mut aliasing, mut recorded) = (Vec::new(), Aliasing::default(), 0);
            let faults = run.profile.faults.iter().zip(&run.profile.basis);
            // A major fault takes a thousand times as long as others, and the page cache decides whether
            // there is one.
            let is_row =
                |fault: &Weighted| !(settings.user_only && fault.kernel) && fault.kind != Kind::Major;
            let mut threads: HashMap<usize, BTreeMap<(u32, u32), f64>> = HashMap::new();
            let (is_generated, mut generated) = (name::generated(&run.recording.stacks), HashSet::new());
            for (fault, basis) in faults.filter(|(fault, _)| is_row(fault)) {
                let number = *known.entry(names.key(fault)).or_insert_with(|| {
                    let name = names.name(fault);
                    *numbers.entry(name.clone()).or_insert_with(|| {
                        table.names.push(name);
                        table.rows.push(vec![Estimate::default(); runs.len()]);
                        table.names.len() - 1
                    })
                });
                let burst = bursts.at(fault.time_ns);
                aliasing.add(fault, number, burst);
                let thread = (fault.pid, fault.tid);
                *threads.entry(number).or_default().entry(thread).or_default() += fault.faults;
                if fault.stack.is_some_and(|stack| is_generated.get(stack as usize) == Some(&true)) {
                    generated.insert(number);
                }
                rows.push((fault, basis, number, burst));
            }
            figures.resize(table.names.len(), Figure::default());
            let mut moving = vec![0.0; table.names.len()];
            let mut all =
                Figure::of_all(self::is_counted(run, settings), run.profile.doubt, aliasing.in_step());
            for (fault, basis, number, burst) in rows {
                recorded += u64::from(burst.is_some());
                let is_sure = burst.is_some() && recorded <= leading && !moves(fault.kind);
                figures[number].leading += f64::from(u8::from(is_sure));
                moving[number] += if moves(fault.kind) { fault.faults } else { 0.0 };
                figures[number].add(fault, basis, burst);
                all.add(fault, basis, burst);
            }
            figures
                .iter()
                .enumerate()
                .for_each(|(row, figure)| table.rows[row][run_index] = figure.estimate(&all));
            let shared = threads.iter().filter(|(_, of)| of.len() > 1);
            let shared = shared.map(|(row, of)| (*row, chance(of.values())));
            for (row, alone) in shared.chain(generated.into_iter().map(|row| (row, DIFF_CHANCE_SPREAD))) {
                let estimate = &mut table.rows[row][run_index];
                estimate.chance = DIFF_CHANCE_SPREAD;
                estimate.chance_alone = estimate.chance_alone.max(alone);
            }
            for (row, moving) in table.rows.iter_mut().zip(moving) {
                let estimate = &mut row[run_index];
                if moving > 0.5 * estimate.faults {
                    estimate.moved = DIFF_MOVING_SPREAD;
                }
            }
            table.totals.push(all.estimate(&all));
        }
        // A row that only a later run has did not exist when the earlier ones were added up.
        for (run_index, total) in table.totals.iter().enumerate() {
            let unseen = total.unseen();
            let empty = |row: &&mut Vec<Estimate>| row[run_index].faults == 0.0;
            table.rows.iter_mut().filter(empty).for_each(|row| row[run_index] = unseen);
        }
        table
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

/// Whether the compared faults were counted, so that their estimates add up to a known number.
fn is_counted(run: &Run, settings: &Settings) -> bool {
    let Recording { header, observation, .. } = &run.recording;
    let counts = &observation.counts;
    let user_only = settings.user_only || header.settings.user_only;
    run.profile.selected.is_none()
        && counts.user_faults.is_some()
        && (user_only || counts.all_faults.is_some())
}

/// Whether chance decides which code takes a fault of this kind. Parent and child race for the copy of a page. A
/// read of a file maps the pages around it too, and random addresses decide which those are.
fn moves(kind: Kind) -> bool {
    matches!(kind, Kind::CowAfterFork | Kind::FileRead)
}

/// Relative standard deviation from run to run of faults that threads share: of the sum of their parts, which
/// vary as they do among each other. [`DIFF_CHANCE_SPREAD`] counts like [`DIFF_PRIOR_RUNS`] threads beside
/// those seen, and is the most. There are two threads at least.
fn chance<'a>(parts: impl ExactSizeIterator<Item = &'a f64> + Clone) -> f64 {
    let threads = parts.len() as f64;
    let mean = parts.clone().sum::<f64>() / threads;
    let squares: f64 = parts.map(|part| (part / mean - 1.0).powi(2)).sum();
    let variance =
        (DIFF_PRIOR_RUNS * DIFF_CHANCE_SPREAD.powi(2) + squares) / (DIFF_PRIOR_RUNS + threads - 1.0);
    (variance / threads).sqrt().min(DIFF_CHANCE_SPREAD)
}

/// Whether samples of a fixed period alias with a program that repeats itself.
///
/// Then a thread's samples come from one row for long, although bursts show that the program changes rows
/// often. A row in which the program stays for whole periods is a phase: its samples come from one row
/// rightly.
#[derive(Default)]
struct Aliasing {
    /// In order, so that their sums are the same each time.
    rows: BTreeMap<usize, InRow>,
    /// Row of a thread's last sample.
    sampled: HashMap<(u32, u32), usize>,
    /// Burst and row of a thread's last fault in one.
    recorded: HashMap<(u32, u32), (u32, usize)>,
    /// Samples that follow another sample of their thread, and how many of them fall into the same row as that one.
    pairs: f64,
    alike: f64,
    /// Faults that samples represent.
    faults: f64,
}

#[derive(Default)]
struct InRow {
    samples: f64,
    /// Faults in bursts, and how often the thread's next fault there was of another row.
    recorded: f64,
    left: f64,
}

impl Aliasing {
    fn add(&mut self, fault: &Weighted, row: usize, burst: Option<u32>) {
        let thread = (fault.pid, fault.tid);
        if let Some(burst) = burst {
            self.rows.entry(row).or_default().recorded += 1.0;
            let last = self.recorded.insert(thread, (burst, row));
            if let Some((_, left)) = last.filter(|last| last.0 == burst && last.1 != row) {
                self.rows.entry(left).or_default().left += 1.0;
            }
        } else if fault.faults > 1.0 {
            self.rows.entry(row).or_default().samples += 1.0;
            self.faults += fault.faults;
            if let Some(last) = self.sampled.insert(thread, row) {
                self.pairs += 1.0;
                self.alike += f64::from(u8::from(last == row));
            }
        }
    }

    /// Samples per independent one, from the autocorrelation between neighbours.
    fn in_step(&self) -> f64 {
        let samples: f64 = self.rows.values().map(|row| row.samples).sum();
        if self.pairs <= 0.0 {
            return 1.0;
        }
        let period = self.faults / samples;
        let expected: f64 = self.rows.values().map(|row| row.stays(samples, period)).sum();
        let beyond = (self.alike / self.pairs - expected) / (1.0 - expected).max(f64::MIN_POSITIVE);
        // If all samples are alike, they count as one.
        let beyond = beyond.clamp(0.0, 1.0 - 2.0 / (samples + 1.0));
        (1.0 + beyond) / (1.0 - beyond)
    }
}

impl InRow {
    /// Probability that a sample and the next one are both of this row.
    fn stays(&self, samples: f64, period: f64) -> f64 {
        let share = self.samples / samples;
        let is_phase = self.recorded >= DIFF_PHASE_PERIODS * period * self.left;
        if is_phase {
            share
        } else {
            share * (share + (1.0 - share) * (-period * self.left / self.recorded).exp())
        }
    }
}

/// Number of faults at the start of a run that were all recorded.
fn leading(run: &Run) -> u64 {
    let mut bursts = Bursts::new(&run.recording.observation.windows);
    run.profile.faults.iter().take_while(|fault| bursts.at(fault.time_ns) == Some(0)).count() as u64
}

/// Runs of recorded windows, queried in the order of time.
struct Bursts {
    /// Begin, end, number.
    windows: Vec<(u64, u64, u32)>,
    next: usize,
}

impl Bursts {
    fn new(windows: &[Window]) -> Self {
        let mut number = 0;
        let mut windows: Vec<&Window> = windows.iter().collect();
        windows.sort_by_key(|window| window.begin_ns);
        let stretch = |window: &&Window| {
            number += u32::from(!window.recorded);
            window.recorded.then_some((window.begin_ns, window.end_ns, number))
        };
        Self { windows: windows.iter().filter_map(stretch).collect(), next: 0 }
    }

    fn at(&mut self, time_ns: u64) -> Option<u32> {
        while self.windows.get(self.next).is_some_and(|window| window.1 <= time_ns) {
            self.next += 1;
        }
        self.windows.get(self.next).filter(|window| window.0 <= time_ns).map(|window| window.2)
    }
}
