//! phases: what the kernel does in a first touch: zeroing, page allocation, memcg, LRU, page table, locks,
//! entry; by number of threads.
//!
//! One report gives three shares of a profile: clearing pages, `do_anonymous_page`, and LRU with cgroups. Another
//! shows a profile of 1 to 40 threads that touch one array: work against the spin lock. Here `threads` threads
//! touch new memory of one mapping, each its own part. One of them gives it back, and they touch it again, while
//! the CPU clock samples the kernel stacks of each. `trace` sorts them by function, as for `faultless stat`. The
//! number of rounds follows from the price of a fault, measured beforehand, so that enough samples come together
//! on any machine. Samples are taken only while pages are touched, not while they go back.
//!
//! It needs root, to sample the kernel and to read the names of its functions. It refuses to compute shares
//! from too few samples. A sample costs the kernel a timer interrupt, which lengthens all phases alike. Code
//! that runs with interrupts off is counted at the instruction that switches them on again: the shares of the
//! locks of zone and LRU include the work below them. So compare numbers of threads, not locks.

mod claims;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};

use faultless_os::touch::{Region, Shared, time_first_touches};
use faultless_os::{counters, page};
use faultless_prof::Sampler;
use faultless_trace::observation::KernelSamples;
use faultless_trace::stat::{LOCKS, kernel_time, lock_of};

use super::team;
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{
    Chart, Column, Experiment, Notes, Parameter, Phase, Scope, Sheet, Step, Steps, Trial,
};
use crate::results::{Quantities, values};

pub(super) struct Phases;

/// Bytes touched in one round, and at least so many by each thread.
const REGION: usize = 32 << 20;
const EACH: usize = 8 << 20;
/// Bytes of a sampler's ring.
const RING: usize = 8 << 20;
/// Samples per second of CPU time: a prime. One interrupt every 20 us would cost far more.
const HERTZ: u64 = 9973;
/// Rounds are made for this many times the wanted samples: not every sample lies in the fault path.
const MORE: f64 = 1.1;
/// Most rounds: 64 GiB of touches.
const MOST_ROUNDS: usize = 2048;
/// Faults of reading the names of the kernel's functions: ten to thirty MB of text and tables.
const NAMES: u64 = 1 << 16;

static SHEET: Sheet = Sheet {
    name: "phases",
    about: "What does the kernel spend the time of a first touch on, and what of it on locks?",
    documents: &[Document::Hardware, Document::Prefault, Document::Prezeroing],
    parameters: &[
        Parameter::named("threads", "threads that touch one mapping, each its own part"),
        Parameter::named("samples", "samples that must lie in the fault path"),
    ],
    columns: COLUMNS,
    charts: CHARTS,
    claims: claims::claims,
    unjudged: claims::unjudged,
    ..Sheet::BLANK
};

impl Experiment for Phases {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let samples = scope.pick([450, 5_000, 10_000, 10_000]);
        let mut counts = vec![1, scope.processors.min(2), scope.processors];
        counts.dedup();
        counts.into_iter().map(|count| SHEET.cell(&format!("threads={count} samples={samples}"))).collect()
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        cell.number("samples")?;
        let threads = cell.number("threads")?;
        let rings = threads.saturating_mul(RING);
        Ok(region_bytes(threads).saturating_add(rings).saturating_add(64 << 20) as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let (threads, samples) = (cell.number("threads")?, cell.number("samples")?);
        // Without the right to sample there is nothing to prepare.
        drop(Sampler::of_this_thread(HERTZ).map_err(Refusal)?);
        let len_bytes = region_bytes(threads);
        let region = Shared::new(Region::base_pages(len_bytes, page::size())?);
        let rounds = rounds(samples, page_ns()? * (len_bytes / page::size()) as f64);
        let sampled = Sampled { region, threads, rounds, samples, samplers: Vec::new() };
        Ok(Steps::of(sampled, Sampled::steps))
    }
}

fn region_bytes(threads: usize) -> usize {
    threads.saturating_mul(EACH).max(REGION)
}

/// The time of touching a page: the median of a few touches.
fn page_ns() -> Result<f64, Refusal> {
    const PAGES: usize = 256;
    let mut ticks = Vec::with_capacity(PAGES);
    time_first_touches(PAGES, &mut ticks)?;
    ticks.sort_unstable();
    Ok(ticks[ticks.len() / 2] as f64 * counters::tick_ns())
}

fn rounds(samples: usize, round_ns: f64) -> usize {
    let per_round = round_ns.max(1.0) * HERTZ as f64 / 1e9;
    ((samples as f64 * MORE / per_round).ceil() as usize).clamp(1, MOST_ROUNDS)
}

struct Sampled {
    region: Shared,
    threads: usize,
    rounds: usize,
    samples: usize,
    samplers: Vec<Sampler>,
}

impl Sampled {
    fn steps(&self) -> Vec<Step<Self>> {
        let touches = self.touches();
        let touch = Phase::new("touch", touches, self.threads).touches(touches).sum(touches as u64);
        // Reading a ring maps its pages.
        let rings = (self.threads * (RING / page::size() + 2)) as u64;
        vec![(touch, Self::touch), (Phase::new(NAMES_PHASE, 0, 0).up_to(NAMES + rings), Self::name)]
    }

    fn touches(&self) -> usize {
        self.region.atomics().len() / page::size() * self.rounds
    }

    fn touch(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        team::note_processors(notes);
        let (gate, samplers) = (Barrier::new(self.threads), Mutex::new(Vec::new()));
        let region = &self.region;
        let pages: Vec<&AtomicU8> = region.atomics().iter().step_by(page::size()).collect();
        let done = team::together(team::parts(pages.len(), self.threads), |part| {
            let mine = &pages[part];
            let opened = Sampler::of_this_thread(HERTZ).map_err(Refusal);
            let (mut sum, mut went) = (0, Ok(()));
            // Every thread passes the gate equally often, whatever one of them is refused.
            for _ in 0..self.rounds {
                gate.wait();
                if let Ok(sampler) = &opened {
                    went = went.and(sampler.enable());
                    mine.iter().for_each(|page| page.store(1, Ordering::Relaxed));
                    went = went.and(sampler.disable());
                }
                sum += mine.iter().map(|page| u64::from(page.load(Ordering::Relaxed))).sum::<u64>();
                if gate.wait().is_leader() {
                    went = went.and(region.give_back());
                }
                gate.wait();
            }
            went?;
            samplers.lock().unwrap_or_else(PoisonError::into_inner).push(opened?);
            Ok(sum)
        })?;
        self.samplers = samplers.into_inner().unwrap_or_else(PoisonError::into_inner);
        notes.add("touches", self.touches() as f64);
        Ok(done.sum)
    }

    fn name(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let samples = Sampler::finish(std::mem::take(&mut self.samplers)).map_err(Refusal)?;
        let (time, why_not) = kernel_time(&samples);
        let in_faults = time.fault_samples as f64;
        notes.add("samples", samples.total as f64);
        notes.add("fault_samples", in_faults);
        notes.add("fault_share", in_faults / samples.total.max(1) as f64);
        if in_faults < self.samples as f64 * LEAST {
            return Err(Refusal(format!(
                "phases: {in_faults:.0} samples fell into the fault path, {} were asked for; {}",
                self.samples,
                why_not.unwrap_or_else(|| "the machine was busy with something else: try again".into())
            )));
        }
        let Some(phases) = time.phases else { return Ok(0) };
        for phase in &phases {
            if let Some((.., name)) = SHARES.iter().find(|(known, ..)| *known == phase.phase) {
                notes.add(name, phase.share.value);
            }
        }
        for (name, count) in LOCK_SHARES.into_iter().zip(at_locks(&samples)) {
            notes.add(name, count as f64 / in_faults);
        }
        // A phase without a sample is not among them.
        let share = |wanted: &str| {
            phases.iter().find(|phase| phase.phase == wanted).map_or(0.0, |phase| phase.share.value)
        };
        let fault_ns = in_faults * samples.period_ns as f64 / self.touches() as f64;
        let (zeroing, locks) = (share("zeroing"), share("locks"));
        notes.add("fault_ns", fault_ns);
        for ((.., name), share) in COSTS.into_iter().zip([zeroing, locks, 1.0 - zeroing - locks]) {
            notes.add(name, share * fault_ns);
        }
        Ok(0)
    }
}

/// Samples at each of the locks that [`lock_of`] tells apart.
fn at_locks(samples: &KernelSamples) -> [u64; LOCKS.len()] {
    let mut counts = [0; LOCKS.len()];
    for (stack, count) in &samples.stacks {
        if let Some(lock) = lock_of(stack) {
            counts[lock] += count;
        }
    }
    counts
}

/// The share of the wanted samples that must have come together.
const LEAST: f64 = 0.8;

/// The phases of `trace`, the phase of the notes, and the names of their shares.
const SHARES: [(&str, &str, &str); 8] = [
    ("zeroing", NAMES_PHASE, "zeroing_share"),
    ("page allocation", NAMES_PHASE, "page_allocation_share"),
    ("memcg", NAMES_PHASE, "memcg_share"),
    ("LRU", NAMES_PHASE, "lru_share"),
    ("page table", NAMES_PHASE, "page_table_share"),
    ("locks", NAMES_PHASE, "locks_share"),
    ("entry", NAMES_PHASE, "entry_share"),
    ("other", NAMES_PHASE, "other_share"),
];
/// Those of [`LOCKS`], which together are the phase "locks".
const LOCK_SHARES: [&str; LOCKS.len()] =
    ["mmap_lock_share", "page_table_lock_share", "zone_lock_share", "lru_lock_share", "other_lock_share"];
/// CPU time per touched page, work against locks.
const COSTS: [(&str, &str, &str); 3] = [
    ("zeroing", NAMES_PHASE, "zeroing_ns"),
    ("locks", NAMES_PHASE, "locks_ns"),
    ("rest", NAMES_PHASE, "rest_ns"),
];
const NAMES_PHASE: &str = "names";

fn percent(found: &Quantities, share: &str) -> Vec<f64> {
    values(found, NAMES_PHASE, share).unwrap_or_default().iter().map(|share| share * 100.0).collect()
}

const COLUMNS: &[Column] = &[
    Column {
        head: "ns/page",
        values: |_, found| values(found, NAMES_PHASE, "fault_ns").unwrap_or_default().to_vec(),
    },
    Column { head: "zeroing %", values: |_, found| percent(found, "zeroing_share") },
    Column { head: "locks %", values: |_, found| percent(found, "locks_share") },
    Column { head: "mmap lock %", values: |_, found| percent(found, "mmap_lock_share") },
    Column { head: "page-table lock %", values: |_, found| percent(found, "page_table_lock_share") },
    Column { head: "zone lock %", values: |_, found| percent(found, "zone_lock_share") },
    Column { head: "LRU lock %", values: |_, found| percent(found, "lru_lock_share") },
    Column { head: "page table %", values: |_, found| percent(found, "page_table_share") },
    Column { head: "allocation %", values: |_, found| percent(found, "page_allocation_share") },
    Column { head: "entry %", values: |_, found| percent(found, "entry_share") },
];

const CHARTS: &[Chart] = &[
    Chart {
        id: "phases-shares",
        title: "What the kernel does in a first touch",
        x: "part",
        x_label: "part of the fault path",
        y_label: "share of the fault path's time",
        parts: &SHARES,
        document: || vec![("zeroing", 0.0, 0.1125 / 0.6)],
        remark: "The document's shares are of all the kernel's time, 60 % of that run; its LRU and cgroups are one, 0.2.",
        ..Chart::BLANK
    },
    Chart {
        id: "phases-cost",
        title: "Work against locks, by threads that touch one mapping",
        x: "part",
        x_label: "part of the fault path",
        y_label: "ns of CPU time per page",
        parts: &COSTS,
        remark: "Without waiting, a page costs as much CPU time with many threads as with one. Threads beyond the \
                 processors take turns, so they add little waiting.",
        ..Chart::BLANK
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Effort;
    use faultless_os::host::Host;

    #[test]
    fn enough_rounds_are_made_for_the_samples_wanted() {
        // 10 ms per round are 100 samples.
        assert_eq!(rounds(1000, 1e7), (1000.0 * MORE / (HERTZ as f64 / 100.0)).ceil() as usize);
        assert_eq!((rounds(1, 1e12), rounds(1 << 40, 1.0)), (1, MOST_ROUNDS));
    }

    #[test]
    fn one_two_and_all_processors_touch() {
        let host = Host::default();
        let of = |processors| {
            let scope = Scope { host: &host, processors, effort: Effort::Default };
            Phases.cells(&scope).iter().map(|cell| cell.number("threads").unwrap()).collect::<Vec<_>>()
        };
        assert_eq!([of(1), of(2), of(16)], [vec![1], vec![1, 2], vec![1, 2, 16]]);
        assert!(region_bytes(16) == 16 * EACH && region_bytes(2) == REGION);
    }
}
