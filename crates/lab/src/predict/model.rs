//! The input of a run, and its outcome.
//!
//! All times are in ns, all memory in pages. Every figure here is one number: ranges are the business of
//! [`super::range`].

use super::memory::Saturation;
use crate::Refusal;

/// A machine, its kernel and a program that faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What each thread does.
    pub threads: Vec<Work>,
    /// Whether all threads begin a map together.
    pub has_barrier: bool,
    /// Whether another thread unmaps for all at the barrier. Then freed pages go to its per-CPU list. The
    /// threads that fault do not see them again.
    pub unmaps_apart: bool,
    /// Pause of a thread between two maps.
    pub pause_ns: f64,
    /// Nodes. Threads are dealt to them in turns.
    pub nodes: usize,
    /// Processors of a node.
    pub processors: usize,
    /// How service times vary.
    pub service: Service,
    /// The fault outside of locks, without clearing.
    pub path_ns: f64,
    /// Clearing one page, alone on its node.
    pub clear_ns: f64,
    /// The program's touches of one page, alone on its node.
    pub touch_ns: f64,
    /// Unmapping one page.
    pub free_ns: f64,
    /// The lock that installs a page.
    pub lock: Section,
    /// How many threads share one such lock.
    pub lock_threads: usize,
    /// The memory of a node.
    pub zone: Zone,
    /// How streams on one node slow each other down.
    pub saturation: Saturation,
    /// How many times slower another node's memory is.
    pub far_times: f64,
    /// Scrubbers, if there are any.
    pub scrub: Option<Scrub>,
    /// Seed of everything random.
    pub seed: u64,
}

/// The work of one thread: it maps, faults every page, and unmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// How many maps.
    pub maps: u32,
    /// Their lengths.
    pub sizes: Sizes,
    /// Places for maps. A map goes to a random place, and the map that was there is unmapped before. With 0
    /// places each map is unmapped after its faults.
    pub slots: u32,
    /// Most pages that the thread keeps. A map that exceeds them is left out.
    pub room: u32,
}

/// The lengths of maps, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Uniform from the first to the second.
    Uniform(u32, u32),
    /// Uniform up to a power of two, which is uniform from 1 up to this power: small and large ones.
    Powers(u32),
}

impl Sizes {
    /// The longest map.
    pub fn most(self) -> u32 {
        match self {
            Self::Uniform(_, most) => most,
            Self::Powers(most) => 1 << most,
        }
    }
}

impl Work {
    /// Faults `pages`, unmaps them, and begins again.
    pub fn passes(maps: u32, pages: u32) -> Self {
        Self::uniform(maps, (pages, pages))
    }

    /// The same with a length from the first to the second.
    pub(crate) fn uniform(maps: u32, (least, most): (u32, u32)) -> Self {
        Self { maps, sizes: Sizes::Uniform(least, most), slots: 0, room: most }
    }
}

/// How service times vary about their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// They don't.
    Fixed,
    /// Exponentially.
    Exponential,
}

/// A section under a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Section {
    /// Time under the lock if its cache lines are in the holder's cache.
    pub section_ns: f64,
    /// Added if another processor of the node held it before.
    pub near_ns: f64,
    /// Added if a processor of another node held it before.
    pub far_ns: f64,
}

/// The memory of a node and its allocator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// The zone lock, for one batch.
    pub lock: Section,
    /// Pages that move between the zone and a per-CPU list at a time.
    pub batch: u32,
    /// Most pages of a per-CPU list.
    pub high: u32,
    /// Pages of the node, a multiple of the largest block.
    pub pages: u32,
    /// The largest order.
    pub most_order: u8,
    /// The share of the pages that is zeroed at the start.
    pub zeroed: f64,
    /// Whether zeroed blocks are kept apart from dirty ones.
    pub is_apart: bool,
    /// Whether the per-CPU lists hold a part of a batch at the start, so that threads don't refill together.
    pub is_prefilled: bool,
    /// Dirty pages of each per-CPU list at the start, from what ran before.
    pub dirty: u32,
}

/// Scrubbers: threads that clear free blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scrub {
    /// Scrubbers of a node.
    pub per_node: usize,
    /// A dirty block of this order wakes them.
    pub start_order: u8,
    /// They clear until no dirty block of this order or above is left.
    pub stop_order: u8,
    /// Clearing one page of a large block, alone on the node.
    pub page_ns: f64,
    /// The share of a processor that a scrubber takes while the node has an idle one.
    pub idle_share: f64,
    /// The same while all processors are busy.
    pub busy_share: f64,
    /// A sleeping scrubber looks this often, ns, and is not woken.
    pub poll_ns: Option<f64>,
}

impl Scrub {
    /// One scrubber a node, which clears blocks of 64 pages and more on idle processors only.
    pub(super) fn in_idle_time(page_ns: f64) -> Self {
        Self {
            per_node: 1,
            start_order: 6,
            stop_order: 6,
            page_ns,
            idle_share: 1.0,
            busy_share: 0.0,
            poll_ns: None,
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// From the start to the end of the last thread.
    pub wall_ns: f64,
    /// Time of the threads, waiting for locks included, waiting at a barrier not.
    pub busy_ns: f64,
    /// Faults.
    pub faults: u64,
    /// Faults that got a zeroed page.
    pub hits: u64,
    /// Pages that the scrubbers zeroed.
    pub zeroed: u64,
    /// The same up to the last fault.
    pub zeroed_before: u64,
    /// Time of the scrubbers.
    pub scrub_ns: f64,
    /// Faults and hits of each pass, over all threads; of the first passes only.
    pub passes: Vec<(u64, u64)>,
    /// Median latency of a fault.
    pub p50_ns: f64,
    /// The latency that one fault in 100 exceeds.
    pub p99_ns: f64,
}

impl Outcome {
    /// Faults per second of wall time.
    pub fn faults_per_s(&self) -> f64 {
        self.faults as f64 / self.wall_ns * 1e9
    }

    /// Faults per second of the threads' time.
    pub(crate) fn faults_per_busy_s(&self) -> f64 {
        self.faults as f64 / self.busy_ns * 1e9
    }

    /// The share of faults that got a zeroed page.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.faults.max(1) as f64
    }
}

impl Model {
    /// Checks that the run can end: the threads' pages and the per-CPU lists fit into the memory.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn check(&self) -> Result<(), Refusal> {
        let largest = 1_u32 << self.zone.most_order;
        let is_whole = self.zone.pages.is_multiple_of(largest) && self.zone.pages > 0;
        if self.threads.is_empty() || self.nodes == 0 || !is_whole || self.zone.batch == 0 {
            return Err(Refusal("the model has no thread, no node, no memory or no batch".into()));
        }
        let lists = u64::from(self.zone.high + 2 * self.zone.batch);
        let needed = self.threads.iter().map(|work| u64::from(work.room) + lists);
        let needed: u64 = needed.sum();
        let has = u64::from(self.zone.pages) * self.nodes as u64;
        if needed > has {
            return Err(Refusal(format!(
                "the model has {has} pages, and its threads and their lists need {needed}; \
                 give it more memory or fewer threads"
            )));
        }
        Ok(())
    }
}
