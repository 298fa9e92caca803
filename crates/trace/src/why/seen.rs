//! What several rules ask of a recording: what the kernel was doing, how dear faults are, and names.

use std::collections::HashMap;

use super::{Scene, named};
use crate::kind::Kind;
use crate::observation::{Call, Record, What};
use crate::profile::Weighted;
use crate::sites::NO_STACK;

/// Samples of the CPU clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sampled {
    pub(super) samples: f64,
    /// The CPU time for which they stand, ns.
    pub(super) ns: f64,
}

impl Sampled {
    /// The share of these in others, 0 to 1.
    pub(super) fn of(self, all: Self) -> f64 {
        if all.samples > 0.0 { self.samples / all.samples } else { 0.0 }
    }
}

/// Functions of the fault path, one of which is on each stack in it.
pub(super) const IN_FAULT: &[&str] =
    &["asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_user_addr_fault", "do_mem_abort"];

impl Scene<'_> {
    /// How far a counter of the machine has risen, with all whose names begin so.
    pub(super) fn machine(&self, begin: &str) -> u64 {
        let counters = &self.recording.observation.machine;
        let named = counters.iter().filter(|(name, _)| name.starts_with(begin));
        named.map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// Samples of which `is` holds, and that have a function of each of these lists on their stack. None without
    /// kernel stacks (root).
    pub(super) fn sampled(&self, lists: &[&[&str]], is: impl Fn(&Record) -> bool) -> Sampled {
        let hertz = self.recording.header.settings.cpu_hertz;
        let mut known: HashMap<u32, bool> = HashMap::new();
        let mut holds = |stack: u32| {
            *known.entry(stack).or_insert_with(|| {
                let labels = self.recording.stacks.labels(stack);
                lists.iter().all(|list| labels.iter().any(|label| has(label, list)))
            })
        };
        let records = self.recording.observation.records.iter();
        let samples = records.filter(|record| {
            matches!(record.what, What::Cpu { kernel: true, stack: Some(stack) } if holds(stack))
                && is(record)
        });
        let samples = samples.count() as f64;
        Sampled { samples, ns: if hertz > 0 { samples * 1e9 / hertz as f64 } else { 0.0 } }
    }

    /// The calibrated price of a first touch, ns.
    pub(super) fn price_ns(&self) -> Option<f64> {
        self.recording.observation.calibration.map(|found| found.truth_p50_ns).filter(|ns| *ns > 0.0)
    }

    /// Whether a fault lies in a file on a disk, and not in memory that has a file's name.
    pub(super) fn is_in_file(&self, fault: &Weighted) -> bool {
        const IN_MEMORY: [&str; 5] = ["//", "/dev/zero", "/dev/shm/", "/memfd:", "/SYSV"];
        let name = self.profile.mappings.get(fault.mapping as usize).map_or("", String::as_str);
        name.starts_with('/') && !IN_MEMORY.iter().any(|begin| name.starts_with(begin))
    }

    /// The program's function that led to a call, `madvise <- load (x.c:7)`.
    pub(super) fn called(&self, call: Call, stack: Option<u32>) -> String {
        let (site, place) = self.naming.site(stack, NO_STACK);
        format!("{} <- {}", call.name(), named(&site, place.as_deref()))
    }

    /// Who advised memory so, the last one.
    pub(super) fn advised(&self, advice: u64) -> Option<String> {
        self.recording.observation.records.iter().rev().find_map(|record| match record.what {
            What::Call { call: Call::Madvise, args, stack, .. } if args[2] == advice => {
                Some(self.called(Call::Madvise, stack))
            }
            _ => None,
        })
    }

    /// Names of threads, the last that each had.
    pub(super) fn threads(&self) -> HashMap<u32, &str> {
        let names = self.recording.observation.records.iter();
        names
            .filter_map(|record| match &record.what {
                What::Name(name) => Some((record.tid, name.as_str())),
                _ => None,
            })
            .collect()
    }
}

/// Whether a function is in a list; the compiler's copies of it are.
fn has(label: &str, list: &[&str]) -> bool {
    let bare = label.split('.').next().unwrap_or(label).trim_start_matches('_');
    list.contains(&bare)
}

/// CPU time of huge-page faults, ns, and how many.
pub(super) fn huge(scene: &Scene<'_>) -> (f64, f64) {
    let huge = scene.profile.faults.iter().filter(|fault| fault.kind == Kind::Thp);
    huge.fold((0.0, 0.0), |(ns, faults), fault| (ns + fault.cost_ns, faults + fault.faults))
}
