//! Guest-cold memory: first touches of pages that the hypervisor has not backed yet. They fault twice, once in
//! the host.
//!
//! A guest can't ask which pages are cold. So memory is held until touching more of it costs clearly more:
//! there warm memory ends. Then fresh memory beyond it is touched in groups, and groups that cost clearly more
//! than warm ones are cold. Without any, nothing can be said: all of the memory may have been touched before.
//! Memory that this cell has touched stays warm, unless the host takes it back.

use faultless_os::host::{Host, Memory};
use faultless_os::page;
use faultless_os::touch::{Advice, Region, time_groups};
use faultless_prof::price::cold::{COLD_TIMES, GROUP_BYTES, cold_groups};
use faultless_trace::measurement::median;

use crate::cell::{Cell, Refusal};
use crate::experiment::{Notes, Phase, Trial};

/// Most bytes that are held for each byte that is touched beyond them.
const HELD_TIMES: usize = 64;
/// Bytes of held memory between two readings of their cost.
const STEP_BYTES: usize = 64 << 20;
/// This part of the fresh memory is touched first, as warm memory: what was given back last is handed out
/// first.
const WARM_SHARE: usize = 4;

/// Memory that the runner warms would not be cold, so the cell asks for its memory here.
pub(super) fn trial(cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
    let fresh_bytes = cell.mib("mib")?;
    if !fresh_bytes.is_multiple_of(WARM_SHARE * GROUP_BYTES) {
        return Err(Refusal(format!("{cell}: mib={}: take a multiple of 8", fresh_bytes >> 20)));
    }
    if Host::read_basics().hypervisor.is_none() {
        return Err(Refusal("no hypervisor shows itself, so no host backs this memory lazily".into()));
    }
    let there = Memory::now().available_bytes.map_or(0, |bytes| bytes as usize / 2);
    if fresh_bytes > there / 4 {
        let (needed, there) = ((fresh_bytes * 4) >> 20, there >> 20);
        return Err(Refusal(format!("needs {needed} MiB, and may take {there} MiB: take a smaller mib=")));
    }
    let held_bytes = (fresh_bytes * HELD_TIMES).min(there - 2 * fresh_bytes);
    let mut held = Region::new(held_bytes, GROUP_BYTES)?;
    // Only to hold memory sooner.
    let _ = held.advise(0..held.len_bytes(), Advice::HugePage);
    Ok(Box::new(Cold {
        warm: Region::base_pages(fresh_bytes / WARM_SHARE, GROUP_BYTES)?,
        held,
        fresh: Region::base_pages(fresh_bytes, GROUP_BYTES)?,
        warm_ns: 0.0,
    }))
}

struct Cold {
    warm: Region,
    held: Region,
    fresh: Region,
    /// ns per page of the warm part.
    warm_ns: f64,
}

impl Trial for Cold {
    fn phases(&self) -> Vec<Phase> {
        let pages = |region: &Region| region.len_bytes() / page::size();
        // Base pages or larger ones, up to where they become cold.
        let hold = Phase::new("hold", pages(&self.held), 0);
        let most = *hold.faults.end();
        vec![
            Phase::new("setup", pages(&self.warm), 0).touches(pages(&self.warm)),
            hold.faults(1..=most),
            Phase::new("timed", pages(&self.fresh), 0).touches(pages(&self.fresh)),
        ]
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        match phase {
            0 => {
                let groups = time_groups(self.warm.bytes_mut(), GROUP_BYTES);
                self.warm_ns = median(&groups).unwrap_or(0.0);
            }
            1 => notes.add("held_bytes", self.hold() as f64),
            _ => {
                let groups = time_groups(self.fresh.bytes_mut(), GROUP_BYTES);
                let (cold_ns, share) = judge(&groups, self.warm_ns)?;
                notes.add("pages", (self.fresh.len_bytes() / page::size()) as f64);
                notes.add("warm_ns_per_page", self.warm_ns);
                notes.add("cold_ns_per_page", cold_ns);
                notes.add("cold_share", share);
            }
        }
        Ok(0)
    }
}

impl Cold {
    /// Touches memory until it costs clearly more than the cheapest of it; returns the bytes touched.
    fn hold(&mut self) -> usize {
        let (mut held, mut least_ns) = (0, f64::MAX);
        for step in self.held.bytes_mut().chunks_mut(STEP_BYTES) {
            held += step.len();
            let ns = median(&time_groups(step, GROUP_BYTES)).unwrap_or(f64::MAX);
            if ns > COLD_TIMES * least_ns {
                break;
            }
            least_ns = least_ns.min(ns);
        }
        held
    }
}

/// ns per page of the cold groups, and their share of all groups.
fn judge(groups: &[f64], warm_ns: f64) -> Result<(f64, f64), Refusal> {
    let cold = cold_groups(groups, warm_ns)
        .map_err(|why| Refusal(format!("{why}: try again after a restart of this machine")))?;
    Ok((median(&cold).unwrap_or(warm_ns), cold.len() as f64 / groups.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_cost_clearly_more_are_cold() {
        assert_eq!(judge(&[1000.0, 1100.0, 5000.0, 6000.0], 1000.0), Ok((5500.0, 0.5)));
    }

    #[test]
    fn warm_memory_gives_no_figure() {
        assert!(judge(&[1000.0; 50], 1000.0).unwrap_err().0.contains("the host had backed it"));
        assert!(judge(&[], 1000.0).is_err());
    }

    #[test]
    fn memory_that_is_not_there_is_refused() {
        let refused = trial(&Cell::of("price").with("mib", 1 << 24)).err().unwrap().0;
        assert!(refused.contains("take a smaller mib") || refused.contains("no hypervisor"), "{refused}");
    }
}
