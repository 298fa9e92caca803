//! Samples of the CPU clock with kernel stacks -> seconds and phases, as in `stat`.

use std::collections::BTreeMap;

use crate::clock::{KernelTime, is_in_fault_path, kernel_time as of_samples};
use crate::observation::{KernelSamples, What};
use crate::recording::{Recording, Stacks};

/// Kernel time from the samples of the footer or of the trace, and the reason if there are no phases.
pub(super) fn kernel_time(recording: &Recording) -> Option<(KernelTime, Option<String>)> {
    kernel_samples(recording).as_ref().map(of_samples)
}

/// Samples with kernel stacks, of the footer or of the trace.
pub(crate) fn kernel_samples(recording: &Recording) -> Option<KernelSamples> {
    recording.observation.kernel.clone().or_else(|| samples(recording))
}

/// Parts of the names of functions that only the recorder runs in a fault.
const RECORDER: [&str; 2] = ["perf_", "_perf"];

/// The sampled stacks of the fault path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPath {
    /// CPU time of the process tree per sample, ns.
    pub period_ns: u64,
    /// Functions, leaf first, and how often. Samples inside perf are left out: they are the recorder's own.
    pub stacks: Vec<(Vec<String>, u64)>,
}

impl FaultPath {
    /// The fault path of a recording; `None` without kernel stacks, which only root's have.
    pub fn of(recording: &Recording) -> Option<Self> {
        let KernelSamples { period_ns, mut stacks, .. } = kernel_samples(recording)?;
        let is_recorder = |function: &String| RECORDER.iter().any(|part| function.contains(part));
        stacks.retain(|(stack, _)| is_in_fault_path(stack) && !stack.iter().any(is_recorder));
        Some(Self { period_ns, stacks })
    }
}

/// A function's name without the compiler's copies of it: `.isra.0`, `.constprop.0`, `.part.0`, `.cold`.
pub fn bare(name: &str) -> &str {
    name.find('.').filter(|&at| at > 0).map_or(name, |at| &name[..at])
}

fn samples(recording: &Recording) -> Option<KernelSamples> {
    let hertz = recording.header.settings.cpu_hertz;
    let (mut total, mut by_stack) = (0_u64, BTreeMap::new());
    for record in &recording.observation.records {
        if let What::Cpu { kernel, stack } = record.what {
            total += 1;
            if let Some(stack) = stack.filter(|_| kernel) {
                *by_stack.entry(stack).or_insert(0_u64) += 1;
            }
        }
    }
    let stacks: Vec<(Vec<String>, u64)> =
        by_stack.into_iter().map(|(stack, n)| (functions(&recording.stacks, stack), n)).collect();
    (hertz > 0 && !stacks.is_empty()).then(|| KernelSamples {
        period_ns: 1_000_000_000 / hertz,
        total,
        stacks,
    })
}

/// The kernel's functions of a stack, leaf first.
fn functions(stacks: &Stacks, stack: u32) -> Vec<String> {
    let in_kernel = stacks
        .frames_of(stack)
        .take_while(|frame| stacks.module(frame).is_some_and(|module| module.path.starts_with("[kernel")));
    in_kernel.flat_map(|frame| frame.names.iter().map(|name| name.function.clone())).collect()
}
