//! Recording -> weighted faults: each with its touching stack, its block, and the number of faults that it
//! represents.
//!
//! Every view groups and adds these faults. Their sums are the estimates for the whole run; all user-mode
//! faults add up to the exact count. `weigh` finds the number of faults that each represents, `price` their
//! time, `totals` the figures of the run.
//!
//! It does not group, sort, or give intervals (`sites` does).

mod alike;
mod blocks;
mod cold;
mod huge;
mod in_kernel;
mod kinds;
mod price;
mod rows;
mod selection;
mod spread;
mod strata;
mod time;
mod totals;
mod weigh;

use crate::fault::{Fault, Faults};
use crate::kind::Kind;
use crate::observation::Observation;
use crate::recording::{Recording, Stacks};

pub(crate) use blocks::births_and_deaths;
pub use blocks::{Block, Blocks};
pub use rows::BeyondWait4;
pub use selection::{Selected, Selection};
pub(crate) use spread::{Tally, Whole};
pub(crate) use strata::{Strata, Stratum};
pub use time::FaultTime;
pub use totals::Totals;
pub use weigh::Huge;

/// A fault, and the faults that it represents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weighted {
    /// When it began.
    pub time_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Faulting data address.
    pub addr: u64,
    /// The touching stack.
    pub stack: Option<u32>,
    /// Index into [`Blocks::blocks`]: the touched block, if allocations were recorded.
    pub block: Option<u32>,
    /// Its kind.
    pub kind: Kind,
    /// Index into [`Profile::mappings`].
    pub mapping: u32,
    /// Taken in kernel mode.
    pub kernel: bool,
    /// Faults of the run that it represents.
    pub faults: f64,
    /// Their CPU time, corrected, ns.
    pub cost_ns: f64,
    /// How long they waited: for a disk, for a lock, ns.
    pub wait_ns: f64,
}

impl Weighted {
    /// CPU time and waits, ns.
    pub fn time_ns(&self) -> f64 {
        self.cost_ns + self.wait_ns
    }
}

/// The evidence behind a [`Weighted`] fault, for intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Basis {
    /// The number of its burst: faults of one burst are alike. `None`: it was sampled.
    pub burst: Option<u32>,
    /// The counted faults among those that it represents. The others are assumed to be like it.
    pub exact: f64,
    /// Weight of its time in means: the faults that it resembles; in a burst a part of them.
    pub alike: f64,
    /// Its own time, corrected, ns.
    pub reading_ns: Option<f64>,
    /// The part of `cost_ns` that is the mean of similar faults, ns.
    pub assumed_ns: f64,
    /// Error at 95 % of `cost_ns` that all samples of its period share, ns.
    pub shared_ns: f64,
    /// The probability that the same mapping had its page before: the program gave it back.
    pub again: f64,
}

/// The faults of a recording, weighted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// In the order of time.
    pub faults: Vec<Weighted>,
    /// The evidence behind each of them.
    pub basis: Vec<Basis>,
    /// Error at 95 % of the faults that all samples together represent; the bursts represent the rest.
    pub doubt: f64,
    /// Faults of huge pages in user mode, if anything is known of them.
    pub huge: Option<Huge>,
    /// Huge pages that khugepaged brought, without faults.
    pub collapsed: f64,
    /// Blocks that the allocation recorder saw.
    pub blocks: Blocks,
    /// The figures of the whole run. Every view takes its totals from here.
    pub totals: Totals,
    /// Names of mappings: a file, `[heap]`, `[stack]`, `[bss]`, `//anon`; the first is `[unknown]`.
    pub mappings: Vec<String>,
    /// What a filter left of the run, if there was one.
    pub selected: Option<Selected>,
}

impl Profile {
    /// Weighs the faults of a recording.
    pub fn new(recording: &Recording) -> Self {
        let observation = &recording.observation;
        Self::of(&Faults::from_observation(observation), observation, &recording.stacks)
    }

    /// Weighs the faults found in an observation.
    pub(crate) fn of(found: &Faults, observation: &Observation, stacks: &Stacks) -> Self {
        let mut weights = weigh::weights(found, observation);
        huge::settle(found, &mut weights, observation);
        let mut prices = price::Prices::new(found, &weights, observation, stacks);
        let mut profile = Self { blocks: Blocks::new(observation), ..Self::default() };
        let bursts = bursts(found);
        let mut both = Vec::new();
        for (fault, weight) in found.faults.iter().zip(&weights.recorded).filter(|(_, w)| w.faults() > 0.0) {
            let (cost_ns, reading_ns, assumed_ns) = prices.cost(fault, weight);
            let basis = Basis {
                burst: fault.window.map(|window| bursts[window]),
                exact: weight.exact,
                alike: weight.alike * prices.burst_part,
                reading_ns,
                assumed_ns,
                shared_ns: 0.0,
                again: fault.again,
            };
            let wait_ns = weight.faults() * prices.wait_ns(fault, fault.kind);
            both.push((profile.weighted(fault, fault.kind, weight.faults(), [cost_ns, wait_ns]), basis));
        }
        for ((fault, period), faults) in found.samples.iter().zip(&weights.samples).filter(|(_, w)| **w > 0.0)
        {
            let kind = prices.kind_of_sample(fault);
            let cost_ns = faults * prices.mean_ns(fault, kind);
            let reading_ns = prices.sample_ns(fault, *period);
            let again = fault.again;
            let shared_ns = faults * prices.shared_spread_ns(fault, *period);
            let basis = Basis {
                alike: *faults,
                reading_ns,
                assumed_ns: cost_ns,
                shared_ns,
                again,
                ..Basis::default()
            };
            let wait_ns = faults * prices.wait_ns(fault, kind);
            both.push((profile.weighted(fault, kind, *faults, [cost_ns, wait_ns]), basis));
        }
        if let Some(first) = found.faults.first().filter(|_| weights.huge_unseen > 0.0) {
            let unseen = Fault { ip: 0, stack: None, mapping: 0, kernel: false, ..first.clone() };
            let cost_ns = weights.huge_unseen * prices.mean_ns(&unseen, Kind::Thp);
            let basis = Basis { assumed_ns: cost_ns, ..Basis::default() };
            both.push((profile.weighted(&unseen, Kind::Thp, weights.huge_unseen, [cost_ns, 0.0]), basis));
        }
        both.sort_by_key(|(fault, _)| fault.time_ns);
        (profile.faults, profile.basis) = both.into_iter().unzip();
        profile.mappings.clone_from(&found.mappings);
        (profile.doubt, profile.huge, profile.collapsed) = (weights.doubt, weights.huge, weights.collapsed);
        Totals::settle(&mut profile, found, observation);
        profile
    }

    /// Faults of the totals that no recorded or sampled fault represents: one entry a kind, without a stack, at
    /// the end of the run.
    pub fn unplaced(&self) -> Vec<Weighted> {
        self.totals.unplaced(self.faults.last())
    }

    /// The allocating stack of the block that a fault touched.
    pub(crate) fn allocated_by(&self, fault: &Weighted) -> Option<u32> {
        self.blocks.blocks.get(fault.block? as usize)?.stack
    }

    fn weighted(&self, fault: &Fault, kind: Kind, faults: f64, [cost_ns, wait_ns]: [f64; 2]) -> Weighted {
        Weighted {
            time_ns: fault.enter_ns,
            pid: fault.pid,
            tid: fault.tid,
            addr: fault.addr,
            stack: fault.stack,
            block: self.blocks.touched(fault.pid, fault.addr, fault.enter_ns),
            kind,
            mapping: fault.mapping,
            kernel: fault.kernel,
            faults,
            cost_ns,
            wait_ns,
        }
    }
}

/// For each window the number of its burst. Pieces of one burst are one cluster.
fn bursts(found: &Faults) -> Vec<u32> {
    let mut burst = 0;
    let number = |window: &crate::observation::Window| {
        burst += u32::from(!window.recorded);
        burst
    };
    found.windows.iter().map(number).collect()
}
