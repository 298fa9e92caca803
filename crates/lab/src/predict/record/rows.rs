//! The rows of a record that are held out: the model predicts them, and the kernel has counted them.
//!
//! In: the plans `pool` and `threads` of the patched kernel with scrubbing. Out: hit ratios, and pages zeroed for
//! each hit, as intervals beside the counts. The model reads these inputs:
//!
//! * the path and the clearing of one thread's fault (plan `lines`), and unmapping;
//! * the pages that were cleared before the first test of the boot;
//! * the processors, the scrub orders, and the kernel's rule for the size of per-CPU lists.
//!
//! These inputs are ranges: free pages that are not cleared, the length of the per-CPU lists, dirty pages in them at
//! the start, and the scrubber's share of a processor. The scrubber's policy is SCHED_IDLE. So it gets next to nothing
//! beside a thread on the same processor, and all of an idle one. Beside threads on other virtual processors its speed
//! is a range too ([`TURNS`]).

use faultless_trace::stat::Interval;
use serde::Serialize;

use super::super::memory::Saturation;
use super::super::model::{Model, Outcome, Scrub, Section, Service, Sizes, Work, Zone};
use super::super::parallel;
use super::super::range::{Draws, Range, interval};
use super::{Counted, Found};
use crate::Refusal;
use crate::cell::Cell;
use crate::kernel::plan::{ARMS, Arm, PLANS, Plan};
use crate::kernel::session::{CLEARED, HIT, MISS, PAGE_BYTES, PATH, SCRUBBED, SETTLE, USER};

/// Free pages that the scrubber leaves, as a share of those that it clears: blocks below its order, and pages on
/// per-CPU lists.
const NOT_CLEARED: Range = Range::new(0.0, 0.05);
/// The largest order of a block.
const MOST_ORDER: u8 = 10;
/// The kernel's divisor of a zone for the longest per-CPU lists.
const LONGEST_LISTS: f64 = 8.0;
/// A counted share may be outside the interval by this much. A page in a hundred has users that the model lacks,
/// such as page tables, the kernel's stacks and its slabs.
const OTHERS: f64 = 0.01;
/// The same for pages zeroed per hit.
const OTHERS_PER_HIT: f64 = 0.05;
/// With a smaller share of hits, pages zeroed per hit are the noise of a few blocks.
const LEAST_HITS: f64 = 0.05;
/// The scrubber's speed beside threads on other virtual processors. They take turns on one clock, and their turns
/// are not equally long: in a trial of five tests the scrubber got from 0.16 to 2.3 times an equal share.
const TURNS: Range = Range::new(0.15, 2.5);

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// The share of the faults that found a zeroed page.
    HitRatio,
    /// Pages that were zeroed during the test, for each hit.
    ZeroedPerHit,
}

impl Figure {
    /// The figure in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::HitRatio => "hits, share",
            Self::ZeroedPerHit => "zeroed per hit",
        }
    }
}

/// A row beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The subject.
    pub figure: Figure,
    /// The model's range.
    pub predicted: Interval,
    /// The count.
    pub counted: f64,
    /// Whether the count is inside the range.
    pub holds: bool,
}

/// Predicts all rows that the record has.
pub(super) fn predict(record: &Counted, samples: usize, seed: u64) -> Result<Vec<Row>, Refusal> {
    let mut rows = Vec::new();
    for arm in ARMS.iter().filter(|arm| arm.scrubs()) {
        for plan in PLANS.iter().filter(|plan| plan.name == "pool" || plan.name == "threads") {
            let Some(boot) = Boot::read(record, arm, plan) else { continue };
            for test in plan.tests() {
                rows.extend(boot.rows(record, test, samples, seed)?);
            }
        }
    }
    Ok(rows)
}

/// The facts of a boot before its tests; times in instructions.
struct Boot {
    arm: &'static str,
    plan: &'static str,
    processors: usize,
    /// Free pages: those that were cleared in the idle time before the first test.
    free_pages: f64,
    hit_ns: f64,
    clear_ns: f64,
    free_ns: f64,
    scrub_ns: f64,
    start_order: u8,
    stop_order: u8,
}

impl Boot {
    fn read(record: &Counted, arm: &'static Arm, plan: &'static Plan) -> Option<Self> {
        let settled =
            record.find(&[("arm", arm.name), ("plan", plan.name), ("test", SETTLE), ("before", "1")])?;
        let free_pages = settled.guest(SCRUBBED);
        let lines = record.lines("on");
        let hit = lines.iter().find(|found| found.cell.text("lines") == Ok("1"))?;
        let base = record.lines("base");
        let miss = base.iter().find(|found| found.cell.text("lines") == Ok("1"))?;
        let per_page = |found: &Found, quantity: &str| found.section(quantity) / found.pages();
        let freed = record.find(&[("arm", "base"), ("kind", "munmap")])?;
        let order = |name: &str| {
            let setting = arm.settings.iter().find(|(path, _)| path.ends_with(name));
            setting.and_then(|(_, value)| value.parse().ok())
        };
        (free_pages > 0.0).then_some(Self {
            arm: arm.name,
            plan: plan.name,
            processors: plan.vcpus as usize,
            free_pages,
            hit_ns: per_page(hit, PATH) + per_page(hit, USER),
            clear_ns: per_page(miss, CLEARED),
            free_ns: per_page(&freed, PATH),
            scrub_ns: hit.guest(PAGE_BYTES),
            start_order: order("scrub_start")?,
            stop_order: order("scrub_stop")?,
        })
    }

    fn rows(&self, record: &Counted, test: &str, samples: usize, seed: u64) -> Result<Vec<Row>, Refusal> {
        let mut wanted = vec![("arm", self.arm), ("plan", self.plan)];
        wanted.extend(test.split_whitespace().filter_map(|word| word.split_once('=')));
        let Some(found) = record.find(&wanted) else { return Ok(Vec::new()) };
        let Some(load) = Load::of(found.cell, found.guest(PAGE_BYTES)) else { return Ok(Vec::new()) };
        let draws = Draws::new(samples, 6, seed);
        let outcomes = parallel::map(samples, |index| self.model(&load, &draws, index).run())?;
        let [hit, miss, scrubbed] = [HIT, MISS, SCRUBBED].map(|quantity| found.guest(quantity));
        let row = |figure, counted: f64, others: f64, of: &dyn Fn(&Outcome) -> f64| {
            let values: Vec<f64> = outcomes.iter().map(of).collect();
            let predicted = interval(&values, 1.0).unwrap_or_default();
            let holds = (predicted.low - others..=predicted.high + others).contains(&counted);
            Row { cell: found.cell.words().join(" "), figure, predicted, counted, holds }
        };
        let share = hit / (hit + miss);
        let mut rows = vec![row(Figure::HitRatio, share, OTHERS, &|outcome| load.hit_ratio(outcome))];
        let least = rows.first().map_or(0.0, |row| row.predicted.low);
        if share.min(least) >= LEAST_HITS && scrubbed >= LEAST_HITS * hit {
            let per_hit = |outcome: &Outcome| {
                let zeroed = if load.ends_mapped { outcome.zeroed_before } else { outcome.zeroed };
                zeroed as f64 / outcome.hits.max(1) as f64
            };
            rows.push(row(Figure::ZeroedPerHit, scrubbed / hit, OTHERS_PER_HIT, &per_hit));
        }
        Ok(rows)
    }

    fn model(&self, load: &Load, draws: &Draws, index: usize) -> Model {
        let mut sample = draws.sample(index);
        let block = 1_u32 << MOST_ORDER;
        let free_pages = self.free_pages * (1.0 + sample.take(NOT_CLEARED));
        let pages = (free_pages as u32).div_ceil(block) * block;
        let batch = batch(self.free_pages);
        let longest = self.free_pages / LONGEST_LISTS / self.processors as f64;
        let high = if load.has_short_lists {
            f64::from(4 * batch)
        } else {
            sample.take(Range::new(0.5, 1.0)) * longest
        };
        // The test before left its pages in the list of the processor that unmapped them.
        let dirty = sample.take(Range::new(0.0, 1.0)) * high / load.threads.len() as f64;
        let dirty = if load.has_short_lists { 0 } else { dirty as u32 };
        let turns = sample.take(TURNS);
        let turns = if self.processors > 1 { turns } else { 1.0 };
        Model {
            threads: load.threads.clone(),
            has_barrier: load.has_barrier,
            unmaps_apart: load.has_barrier,
            pause_ns: load.pause_ns,
            nodes: 1,
            processors: self.processors,
            service: Service::Fixed,
            path_ns: self.hit_ns,
            clear_ns: self.clear_ns,
            touch_ns: 0.0,
            free_ns: self.free_ns,
            lock: Section::default(),
            lock_threads: load.threads.len(),
            zone: Zone {
                lock: Section::default(),
                batch,
                high: high as u32,
                pages,
                most_order: MOST_ORDER,
                zeroed: self.free_pages / f64::from(pages),
                is_apart: true,
                is_prefilled: false,
                dirty,
            },
            saturation: Saturation::Streams(1e9),
            far_times: 1.0,
            scrub: Some(Scrub {
                per_node: 1,
                start_order: self.start_order,
                stop_order: self.stop_order,
                page_ns: self.scrub_ns / turns,
                idle_share: sample.take(Range::new(0.8, 1.0)),
                busy_share: sample.take(Range::new(0.001, 0.01)),
                poll_ns: None,
            }),
            seed: index as u64,
        }
    }
}

/// Pages that move at a time: the kernel's rule (`zone_batchsize`) for so many managed pages.
fn batch(pages: f64) -> u32 {
    const MOST: u32 = 256;
    let quarter = ((pages as u32) >> 10).min(MOST) / 4;
    let quarter = quarter.max(1);
    let batch = quarter + quarter / 2;
    (1_u32 << batch.ilog2()).saturating_sub(1).max(1)
}

/// The load of a test.
struct Load {
    threads: Vec<Work>,
    has_barrier: bool,
    pause_ns: f64,
    has_short_lists: bool,
    /// Whether only the second pass is counted.
    is_second: bool,
    /// Whether the count ends with the last fault, before the last map is unmapped.
    ends_mapped: bool,
}

impl Load {
    /// The load of a cell; nothing for a test that the model does not know.
    fn of(cell: &Cell, page_bytes: f64) -> Option<Self> {
        let number = |name: &str| cell.text(name).ok()?.parse::<u32>().ok();
        let page_kib = (page_bytes / 1024.0) as u32;
        let pages = |mib: u32| mib * 1024 / page_kib;
        let passes = |threads: u32, work: Work| Self {
            threads: vec![work; threads as usize],
            has_barrier: threads > 1,
            pause_ns: 0.0,
            has_short_lists: cell.text("pcp") == Ok("short"),
            is_second: false,
            ends_mapped: false,
        };
        Some(match cell.text("test").ok()? {
            // The first half is not counted. It comes back dirty.
            "dry" => Self { is_second: true, ..passes(1, Work::passes(2, pages(number("mib")?) / 2)) },
            "burst" => Self {
                pause_ns: f64::from(number("ms")?) * 1e6,
                ends_mapped: true,
                ..passes(1, Work::passes(number("rep")?, pages(number("mib")?)))
            },
            "hot" => passes(1, Work::passes(number("rep")?, number("kib")? / page_kib)),
            "churn" => {
                let threads = number("threads")?;
                let room = pages(number("mib")?) / threads;
                let work = Work { maps: number("rep")?, sizes: Sizes::Powers(12), slots: 64, room };
                Self { has_barrier: false, ..passes(threads, work) }
            }
            "pft" => {
                let threads = number("threads")?;
                let work = Work::passes(number("rep").unwrap_or(1), pages(number("mib")?) / threads);
                Self { ends_mapped: true, ..passes(threads, work) }
            }
            _ => return None,
        })
    }

    fn hit_ratio(&self, outcome: &Outcome) -> f64 {
        if self.is_second {
            outcome.passes.get(1).map_or(f64::NAN, |(faults, hits)| *hits as f64 / (*faults).max(1) as f64)
        } else {
            outcome.hit_ratio()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_follow_the_kernels_rule() {
        assert_eq!([57_436.0, 120_000.0, 262_144.0, 1e7].map(batch), [15, 31, 63, 63]);
    }
}
