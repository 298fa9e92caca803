//! Which cell is measured when: shuffled rounds, until the intervals are narrow enough or the time is up.
//!
//! In: experiments, effort, a record (new or resumed), a way to measure a cell. Out: the record, and how the
//! run ended. Every round measures each unfinished cell once, in a new order. A cell is finished when the
//! intervals of its wall times are narrow enough; phases below a tenth of the cell's time do not count.
//!
//! It does not start processes (`process`), and it does not judge.

use std::collections::BTreeSet;
use std::ffi::OsString;

use faultless_os::touch::{Advice, Region, time_groups};
use faultless_os::{counters, page};
use faultless_trace::measurement::{Rng, median_interval};
use faultless_trace::stat::Interval;

use crate::cell::{Cell, Refusal};
use crate::experiment::{Effort, Experiment, Scope};
use crate::record::{FINISHED, INTERRUPTED, OUT_OF_TIME, Record, WallTimes};
use crate::sample::Sample;
use crate::sample::{FIRST_TOUCH, MACHINE};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// No cell is started after this time, ns, once each was measured once.
    pub ns: u64,
    /// Rounds that are made if the time allows.
    pub least_rounds: u32,
    /// Most rounds.
    pub most_rounds: u32,
    /// A cell is finished when half of an interval's width is below this share of the median.
    pub precision: f64,
}

impl Budget {
    /// What an effort allows.
    pub fn of(effort: Effort) -> Self {
        const MINUTE_NS: u64 = 60_000_000_000;
        let (ns, least_rounds, most_rounds, precision) = match effort {
            Effort::Verify => (MINUTE_NS, 1, 1, 1.0),
            Effort::Quick => (MINUTE_NS * 4 / 5, 3, 5, 0.1),
            Effort::Default => (40 * MINUTE_NS, 5, 15, 0.05),
            Effort::Full => (300 * MINUTE_NS, 9, 51, 0.02),
        };
        Self { ns, least_rounds, most_rounds, precision }
    }
}

/// How measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every cell is finished, or can't be measured here.
    Finished,
    /// The time was up.
    OutOfTime,
    /// A request to end.
    Interrupted,
}

impl Ended {
    /// As the record writes it.
    fn words(self) -> &'static str {
        match self {
            Self::Finished => FINISHED,
            Self::OutOfTime => OUT_OF_TIME,
            Self::Interrupted => INTERRUPTED,
        }
    }
}

/// What the run is doing, for a progress bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress<'a> {
    /// The round, from 1.
    pub round: u32,
    /// Samples taken by this run.
    pub done: usize,
    /// Samples that it will take if no cell needs more than the least number of rounds.
    pub planned: usize,
    /// The cell.
    pub cell: &'a Cell,
}

/// Experiments to run, and how.
pub struct Runner<'a> {
    experiments: Vec<&'a dyn Experiment>,
    scope: Scope<'a>,
    budget: Budget,
    rng: Rng,
}

impl<'a> Runner<'a> {
    /// Runs experiments; `seed` decides the order of the cells.
    pub fn new(experiments: Vec<&'a dyn Experiment>, scope: Scope<'a>, budget: Budget, seed: u64) -> Self {
        Self { experiments, scope, budget, rng: Rng::from_seed(seed) }
    }

    /// All cells, with the bytes of memory that each needs.
    ///
    /// # Errors
    /// A cell's parameters are wrong.
    pub fn cells(&self) -> Result<Vec<(Cell, u64)>, Refusal> {
        let (mut cells, mut seen) = (Vec::new(), BTreeSet::new());
        for experiment in &self.experiments {
            // Two parts of an experiment may have a cell in common.
            for cell in experiment.cells(&self.scope).into_iter().filter(|cell| seen.insert(cell.clone())) {
                let bytes = experiment.memory_bytes(&cell)?;
                cells.push((cell, bytes));
            }
        }
        Ok(cells)
    }

    /// Measures until the end, and notes in the record how it ended. `measure` returns `None` after a request
    /// to end.
    ///
    /// # Errors
    /// A sample could not be taken or written.
    pub fn run(
        mut self,
        record: &mut Record,
        measure: impl FnMut(&Cell, &[(OsString, OsString)]) -> Result<Option<Sample>, Refusal>,
        progress: impl FnMut(&Progress),
    ) -> Result<Ended, Refusal> {
        let ended = self.rounds(record, measure, progress);
        match &ended {
            Ok(ended) => record.end(ended.words())?,
            // If the record itself can't be written this note can't either, and the error says so.
            Err(refusal) => drop(record.end(&format!("stopped by an error: {refusal}"))),
        }
        ended
    }

    fn rounds(
        &mut self,
        record: &mut Record,
        mut measure: impl FnMut(&Cell, &[(OsString, OsString)]) -> Result<Option<Sample>, Refusal>,
        mut progress: impl FnMut(&Progress),
    ) -> Result<Ended, Refusal> {
        let cells = self.cells()?;
        let begin_ns = counters::now_ns();
        let rounds = |cell| self.budget.least_rounds.saturating_sub(record.rounds(cell)) as usize;
        let (mut done, mut planned) = (0, cells.iter().map(|(cell, _)| rounds(cell)).sum::<usize>());
        loop {
            let mut wanted: Vec<_> = cells.iter().filter(|(cell, _)| self.is_wanted(record, cell)).collect();
            if wanted.is_empty() {
                return Ok(Ended::Finished);
            }
            planned = planned.max(done + wanted.len());
            self.rng.shuffle(&mut wanted);
            let mut is_out_of_time = false;
            for (cell, bytes) in wanted {
                if counters::now_ns() - begin_ns > self.budget.ns && record.rounds(cell) > 0 {
                    is_out_of_time = true;
                    continue;
                }
                progress(&Progress { round: record.rounds(cell) + 1, done, planned, cell });
                let sample = match lacks_memory(*bytes) {
                    Some(refused) => Sample { refused: Some(refused), ..Sample::default() },
                    None => {
                        let first_touch_ns = self.warm(*bytes);
                        let Some(mut sample) = measure(cell, &self.environment(cell))? else {
                            return Ok(Ended::Interrupted);
                        };
                        if let (Some(ns), None) = (first_touch_ns, &sample.refused) {
                            sample.add(MACHINE, FIRST_TOUCH, ns);
                        }
                        sample
                    }
                };
                record.add(cell, &sample)?;
                done += 1;
            }
            record.sync()?;
            if is_out_of_time {
                return Ok(Ended::OutOfTime);
            }
        }
    }

    fn environment(&self, cell: &Cell) -> Vec<(OsString, OsString)> {
        let own = self.experiments.iter().find(|experiment| experiment.name() == cell.experiment);
        own.map(|experiment| experiment.environment(cell)).unwrap_or_default()
    }

    fn is_wanted(&self, record: &Record, cell: &Cell) -> bool {
        let rounds = record.rounds(cell);
        if record.is_refused(cell) || rounds >= self.budget.most_rounds {
            return false;
        }
        rounds < self.budget.least_rounds
            || record.wall_ns(cell).is_none_or(|phases| !is_narrow(phases, self.budget.precision))
    }

    /// Touches as much memory as the cell will, and gives it back. In a virtual machine whose host takes free
    /// memory back, the next touch of a page would otherwise fault in the host too. Returns the price of a
    /// first touch afterwards, ns per base page: it shows whether the warming helped.
    fn warm(&self, bytes: u64) -> Option<f64> {
        const EXTRA_BYTES: usize = 16 << 20;
        const PROBE_BYTES: usize = 2 << 20;
        self.scope.host.hypervisor.as_ref()?;
        if let Ok(mut region) = Region::new(bytes as usize + EXTRA_BYTES, page::size()) {
            // Only for speed.
            let _ = region.advise(0..region.len_bytes(), Advice::HugePage);
            region.touch_write(page::size());
        }
        let mut probe = Region::base_pages(PROBE_BYTES, page::size()).ok()?;
        time_groups(probe.bytes_mut(), PROBE_BYTES).pop()
    }
}

/// Whether the wall time of every phase that matters is known to within this share.
fn is_narrow(phases: &WallTimes, precision: f64) -> bool {
    const LEAST_SHARE: f64 = 0.1;
    let found: Vec<Interval> = phases.values().filter_map(|samples| median_interval(samples)).collect();
    let all_ns: f64 = found.iter().map(|phase| phase.value).sum();
    let mut telling = found.iter().filter(|phase| phase.value >= LEAST_SHARE * all_ns);
    telling.all(|phase| phase.high - phase.low <= 2.0 * precision * phase.value)
}

/// Why a cell that touches so much memory can't be measured now: the machine, or the limit of its control
/// group, leaves less.
pub fn lacks_memory(bytes: u64) -> Option<String> {
    /// Memory of the lab itself, and what warming takes beyond the need of a cell.
    const OWN_BYTES: u64 = 48 << 20;
    let most_bytes = faultless_os::host::Memory::most_bytes()?;
    let (needed, there) = (bytes >> 20, most_bytes >> 20);
    (bytes.saturating_add(OWN_BYTES) > most_bytes / 8 * 7).then(|| {
        format!("needs {needed} MiB of memory, and {there} MiB are available: free some and start again")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use crate::record::{Asked, SCHEMA};
    use faultless_os::host::Host;
    use std::collections::BTreeMap;

    fn open(folder: &std::path::Path) -> Record {
        let asked = Asked {
            schema: SCHEMA,
            version: "0".into(),
            effort: "quick".into(),
            experiments: vec![],
            parameters: vec![],
            seed: 1,
        };
        Record::open(folder, &asked, "").unwrap()
    }

    fn sample(wall_ns: f64) -> Sample {
        let mut sample = Sample::default();
        sample.add("first", "wall_ns", wall_ns);
        sample
    }

    fn runner(host: &Host) -> Runner<'_> {
        let touch = experiments::find("touch").unwrap();
        let budget = Budget { ns: u64::MAX, least_rounds: 2, most_rounds: 6, precision: 0.05 };
        Runner::new(vec![touch], Scope { host, processors: 1, effort: Effort::Verify }, budget, 1)
    }

    #[test]
    fn a_cell_is_repeated_until_its_interval_is_narrow() {
        let host = Host::default();
        let folder = tempfile::tempdir().unwrap();
        let mut record = open(folder.path());
        let cells = runner(&host).cells().unwrap();
        let wild = cells[0].0.clone();
        let mut count = 0_u32;
        let ended = runner(&host).run(
            &mut record,
            |cell, _| {
                count += 1;
                Ok(Some(sample(if *cell == wild { f64::from(count) } else { 100.0 })))
            },
            |_| {},
        );
        assert_eq!(ended, Ok(Ended::Finished));
        assert_eq!(record.rounds(&wild), 6);
        assert!(cells[1..].iter().all(|(cell, _)| record.rounds(cell) == 2));
    }

    #[test]
    fn no_cell_is_left_out_because_others_were_measured_before_the_time_was_spent() {
        let host = Host::default();
        let folder = tempfile::tempdir().unwrap();
        let mut record = open(folder.path());
        let cells = runner(&host).cells().unwrap();
        record.add(&cells[0].0, &sample(1.0)).unwrap();
        let spent = Runner { budget: Budget { ns: 0, ..runner(&host).budget }, ..runner(&host) };
        assert_eq!(spent.run(&mut record, |_, _| Ok(Some(sample(1.0))), |_| {}), Ok(Ended::OutOfTime));
        assert!(cells.iter().all(|(cell, _)| record.rounds(cell) == 1));
    }

    #[test]
    fn every_phase_that_takes_a_tenth_of_the_time_must_be_known() {
        let phases = |noisy_ns: f64| {
            let steady = ("look".to_owned(), vec![100.0; 4]);
            let noisy = ("first".to_owned(), [0.8, 1.2, 1.0, 1.0].map(|times| times * noisy_ns).to_vec());
            BTreeMap::from([steady, noisy])
        };
        assert!(!is_narrow(&phases(100.0), 0.05));
        assert!(is_narrow(&phases(5.0), 0.05), "a twentieth of the time");
        assert!(!is_narrow(&BTreeMap::from([("first".to_owned(), vec![100.0])]), 0.05), "one sample");
    }

    #[test]
    fn what_no_machine_has_is_refused_with_the_remedy() {
        assert!(lacks_memory(1 << 60).is_some_and(|text| text.contains("free some")));
        assert_eq!(lacks_memory(0), None);
    }
}
