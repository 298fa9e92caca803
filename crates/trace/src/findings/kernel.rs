//! Samples of the CPU clock with kernel stacks -> seconds and phases, as in `stat`.

use std::collections::BTreeMap;

use crate::observation::{KernelSamples, What};
use crate::recording::{Recording, Stacks};
use crate::stat::{KernelTime, kernel_time as of_samples};

/// Kernel time from the samples of the footer or of the trace, and the reason if there are no phases.
pub(super) fn kernel_time(recording: &Recording) -> Option<(KernelTime, Option<String>)> {
    kernel_samples(recording).as_ref().map(of_samples)
}

/// Samples with kernel stacks, of the footer or of the trace.
pub(crate) fn kernel_samples(recording: &Recording) -> Option<KernelSamples> {
    recording.observation.kernel.clone().or_else(|| samples(recording))
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
