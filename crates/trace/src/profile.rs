//! Recording -> weighted faults: each says who touched, whose block it was, and what it stands for.
//!
//! Every view adds these up by what it groups by: their sums are the estimates for the whole run. With every fault recorded
//! each stands for itself and its own corrected time; otherwise a sampled one stands for many, with the mean time of its like.
//!
//! What it does not do: group, sort, or give intervals (`sites` does).

mod blocks;

use crate::fault::Faults;
use crate::recording::Recording;
use crate::stat::Kind;

pub use blocks::{Block, Blocks};

/// A fault and what it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    /// When it began.
    pub time_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Faulting data address.
    pub addr: u64,
    /// Who touched.
    pub stack: Option<u32>,
    /// Index into [`Blocks::blocks`]: the block that was touched, where allocations were recorded.
    pub block: Option<u32>,
    /// What it was.
    pub kind: Kind,
    /// Index into [`Profile::mappings`].
    pub mapping: u32,
    /// Taken in kernel mode.
    pub kernel: bool,
    /// Faults of the run that it stands for.
    pub faults: f64,
    /// Their time, corrected, ns.
    pub cost_ns: f64,
}

/// The faults of a recording, weighted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// In the order of time.
    pub faults: Vec<Weighted>,
    /// Blocks that the allocation recorder saw.
    pub blocks: Blocks,
    /// Names of mappings: a file, `[heap]`, `[stack]`, `//anon`.
    pub mappings: Vec<String>,
}

impl Profile {
    /// Weighs the faults of a recording.
    pub fn new(recording: &Recording) -> Self {
        let observation = &recording.observation;
        let found = Faults::from_observation(observation);
        let offset_ns = observation.calibration.map_or(0.0, |found| found.offset_ns());
        let blocks = Blocks::new(observation);
        let weigh = |fault: &crate::fault::Fault| Weighted {
            time_ns: fault.enter_ns,
            pid: fault.pid,
            tid: fault.tid,
            addr: fault.addr,
            stack: fault.stack,
            block: blocks.at(fault.pid, fault.addr, fault.enter_ns),
            kind: fault.kind,
            mapping: 0,
            kernel: fault.kernel,
            faults: 1.0,
            cost_ns: fault.duration_ns.map_or(0.0, |ns| (ns as f64 - offset_ns).max(0.0)),
        };
        let faults = found.faults.iter().map(weigh).collect();
        Self { faults, blocks, mappings: vec![String::from("//anon")] }
    }
}
