//! phases: what the kernel does in a first touch: zeroing, page allocation, memcg, LRU, page table, locks,
//! entry.
//!
//! The report gives three shares of a profile: clearing pages, `do_anonymous_page`, and LRU with cgroups. Here
//! the calling thread touches new memory, gives it back and touches it again, while the CPU clock samples its
//! kernel stacks. `trace` sorts them by function, as for `faultless stat`. The number of rounds follows from
//! the price of a fault, measured beforehand, so that enough samples come together on any machine. Samples are
//! taken only while pages are touched, not while they go back.
//!
//! It needs root, to sample the kernel and to read the names of its functions. It refuses to compute shares
//! from too few samples. A sample costs the kernel a timer interrupt, which lengthens all phases alike. Code
//! that runs with interrupts off is counted at the instruction that switches them on again.

use faultless_os::touch::{Advice, Region, time_first_touches, time_write};
use faultless_os::{counters, page};
use faultless_prof::Sampler;
use faultless_trace::stat::kernel_time;

use super::memory;
use crate::cell::{Cell, Refusal};
use crate::experiment::{Chart, Document, Effort, Experiment, Notes, Phase, Remark, Scope, Trial};

pub(super) struct Phases;

/// Bytes touched in one round.
const REGION: usize = 32 << 20;
/// Samples per second of CPU time: a prime. One interrupt every 20 us would cost far more.
const HERTZ: u64 = 9973;
/// Rounds are made for this many times the wanted samples: not every sample lies in the fault path.
const MORE: f64 = 1.1;
/// Most rounds: 64 GiB of touches.
const MOST_ROUNDS: usize = 2048;
/// Faults of reading the names of the kernel's functions: ten to thirty MB of text and tables.
const NAMES: u64 = 1 << 16;

impl Experiment for Phases {
    fn name(&self) -> &'static str {
        "phases"
    }

    fn about(&self) -> &'static str {
        "What does the kernel spend the time of a first touch on?"
    }

    fn documents(&self) -> &'static [Document] {
        &[Document::Prefault, Document::Prezeroing]
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let samples = scope.pick([450, 5_000, 10_000, 10_000]);
        let has_thp = scope.host.thp.as_ref().is_some_and(|thp| thp.available());
        let pages: &[&str] =
            if has_thp && scope.effort >= Effort::Default { &["base", "thp"] } else { &["base"] };
        pages.iter().map(|page| Cell::of("phases").with("page", page).with("samples", samples)).collect()
    }

    fn charts(&self) -> &'static [Chart] {
        CHARTS
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        cell.number("samples")?;
        Ok(REGION as u64 + (64 << 20))
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let is_huge = cell.choice("page", &[("base", false), ("thp", true)])?;
        let samples = cell.number("samples")?;
        let page_bytes = if is_huge { memory::thp_bytes(cell)? } else { page::size() };
        let sampler = Sampler::of_this_thread(HERTZ).map_err(Refusal)?;
        let region =
            if is_huge { Region::thp(REGION, page_bytes)? } else { Region::base_pages(REGION, page_bytes)? };
        let rounds = rounds(samples, round_ns(page_bytes)?);
        Ok(Box::new(Sampled { region, page_bytes, rounds, samples, sampler: Some(sampler) }))
    }
}

/// The time of touching the region once: the median of a few touches.
fn round_ns(page_bytes: usize) -> Result<f64, Refusal> {
    const PAGES: usize = 256;
    const HUGE_PAGES: usize = 8;
    let mut ticks = Vec::with_capacity(PAGES);
    if page_bytes > page::size() {
        let mut region = Region::thp(HUGE_PAGES * page_bytes, page_bytes)?;
        let slots = region.bytes_mut().iter_mut().step_by(page_bytes);
        ticks.extend(slots.map(|slot| time_write(slot, 1)));
    } else {
        time_first_touches(PAGES, &mut ticks)?;
    }
    ticks.sort_unstable();
    Ok(ticks[ticks.len() / 2] as f64 * counters::tick_ns() * (REGION / page_bytes) as f64)
}

fn rounds(samples: usize, round_ns: f64) -> usize {
    let per_round = round_ns.max(1.0) * HERTZ as f64 / 1e9;
    ((samples as f64 * MORE / per_round).ceil() as usize).clamp(1, MOST_ROUNDS)
}

struct Sampled {
    region: Region,
    page_bytes: usize,
    rounds: usize,
    samples: usize,
    sampler: Option<Sampler>,
}

impl Trial for Sampled {
    fn phases(&self) -> Vec<Phase> {
        let touches = self.region.len_bytes() / self.page_bytes * self.rounds;
        let mut touch = Phase::new("touch", touches, 0).touches(touches).sum(touches as u64);
        if self.page_bytes > page::size() {
            touch = memory::mostly_huge(touch, self.region.len_bytes() / page::size() * self.rounds);
        }
        vec![touch, Phase::new(NAMES_PHASE, 0, 0).faults(0..=NAMES)]
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        if phase == 0 { self.touch(notes) } else { self.name(notes) }
    }
}

impl Sampled {
    fn touch(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let (len, page_bytes) = (self.region.len_bytes(), self.page_bytes);
        let sampler = self.sampler.as_ref().ok_or_else(|| Refusal("phases: no sampler".into()))?;
        let mut sum = 0;
        for _ in 0..self.rounds {
            sampler.enable()?;
            self.region.touch_write(page_bytes);
            sampler.disable()?;
            sum += self.region.touch_read(page_bytes);
            self.region.advise(0..len, Advice::DontNeed)?;
        }
        notes.add("touches", (len / page_bytes * self.rounds) as f64);
        Ok(sum)
    }

    fn name(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let sampler = self.sampler.take().ok_or_else(|| Refusal("phases: no sampler".into()))?;
        let samples = sampler.finish().map_err(Refusal)?;
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
        for phase in time.phases.into_iter().flatten() {
            if let Some((.., name)) = SHARES.iter().find(|(known, ..)| *known == phase.phase) {
                notes.add(name, phase.share.value);
            }
        }
        Ok(0)
    }
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
const NAMES_PHASE: &str = "names";

const CHARTS: &[Chart] = &[Chart {
    id: "phases-shares",
    title: "What the kernel does in a first touch",
    x: "part",
    x_label: "part of the fault path",
    y_label: "share of the fault path's time",
    parts: &SHARES,
    document: &[("zeroing", 0.0, 0.1125 / 0.6)],
    remark: |_| {
        Remark::new(
            "The document's shares are of all the kernel's time, 60 % of that run; its LRU and cgroups are one, 0.2.",
        )
    },
    ..Chart::BLANK
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_rounds_are_made_for_the_samples_wanted() {
        // 10 ms per round are 100 samples.
        assert_eq!(rounds(1000, 1e7), (1000.0 * MORE / (HERTZ as f64 / 100.0)).ceil() as usize);
        assert_eq!((rounds(1, 1e12), rounds(1 << 40, 1.0)), (1, MOST_ROUNDS));
    }
}
