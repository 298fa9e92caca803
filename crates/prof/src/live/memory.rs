//! How much of a running process's faults could have been avoided.
//!
//! In: its fault counter and resident memory, several times a second, and the share of its faults in
//! anonymous memory. Out: the share that keeping freed pages would have saved, with bounds, and how much to
//! keep (`trace::avoid`).
//!
//! It does not follow children, or see a fall and a rise between two readings.

use std::collections::VecDeque;

use faultless_os::procfs::{self, Statm};
use faultless_trace::avoid::{self, Bound, Growth, Memory};
use faultless_trace::observation::Level;
use faultless_trace::stat::Point;

use crate::tuning as t;

/// One process that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pid: u32,
    statm: Option<Statm>,
    levels: VecDeque<Level>,
}

impl Followed {
    /// From now on.
    pub(super) fn new(pid: u32) -> Self {
        Self { pid, statm: Statm::open(pid), levels: VecDeque::new() }
    }

    /// The process.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Resident anonymous memory at the last reading.
    pub(super) fn anon_bytes(&self) -> Option<u64> {
        self.levels.back().map(|level| level.anon_bytes)
    }

    /// Reads once more.
    pub(super) fn read(&mut self, time_ns: u64) {
        let stat = procfs::stat(self.pid);
        let Some(anon_bytes) = self.statm.as_ref().and_then(Statm::anon_bytes) else { return };
        let Some(stat) = stat else { return };
        let faults = stat.own_faults();
        // After an exec, the counters start from zero.
        if self.levels.back().is_some_and(|last| last.faults > faults) {
            self.levels.clear();
        }
        if self.levels.len() == t::LIVE_LEVELS_MAX {
            self.levels.pop_front();
        }
        self.levels.push_back(Level { time_ns, faults, anon_bytes });
    }

    /// What keeping pages would have saved of the last half minute's faults; `None` while too little was
    /// seen. `anonymous`: share of faults in anonymous memory, if known.
    pub(super) fn avoidable(&self, cpus: u32, anonymous: Option<f64>) -> Option<Point> {
        let held_bytes = procfs::peak_rss_bytes(self.pid);
        avoidable(self.levels.iter().copied().collect(), held_bytes, cpus, anonymous)
    }
}

fn avoidable(
    mut levels: Vec<Level>,
    held_bytes: Option<u64>,
    cpus: u32,
    anonymous: Option<f64>,
) -> Option<Point> {
    let first = levels.first()?.faults;
    levels.iter_mut().for_each(|level| level.faults -= first);
    let faults = levels.last()?.faults;
    let page_bytes = faultless_os::page::size() as u64;
    let low_bytes = anonymous.unwrap_or(0.0) * page_bytes as f64;
    let high_bytes = anonymous.unwrap_or(1.0) * page_bytes as f64;
    let growth = |_| Growth { low_bytes, high_bytes, fresh_share: 1.0 };
    let memory = |all_pages| Memory {
        held_bytes: held_bytes.unwrap_or(u64::MAX),
        plateau: (None, None),
        levels: &levels,
        page_bytes,
        cpus,
        lifecycle: Vec::new(),
        growth: &growth,
        all_pages,
        fresh_share: 1.0,
    };
    // The first reading holds older faults. A huge page fault counts with all its pages.
    let pages: u64 = avoid::flows(&memory(1.0), Bound::High).iter().skip(1).map(|flow| flow.faults).sum();
    let all_pages = faults.max(pages) as f64;
    if all_pages == 0.0 {
        return None;
    }
    let curve = avoid::curve(&memory(all_pages)).ok()?;
    curve.knee.or(curve.points.last().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A program that allocates and frees 16 MiB again and again, seen in both states.
    fn sawtooth() -> Vec<Level> {
        let pages = 16 * MIB / faultless_os::page::size() as u64;
        let level = |step: u64| Level {
            time_ns: step * t::LIVE_TICK_NS,
            faults: 5000 + pages * step.div_ceil(2),
            anon_bytes: 100 * MIB + 16 * MIB * (step % 2),
        };
        (0..40).map(level).collect()
    }

    #[test]
    fn memory_that_comes_and_goes_is_avoidable_with_as_much_as_comes_and_goes() {
        let point = avoidable(sawtooth(), None, 2, Some(1.0)).unwrap();
        assert!(point.low > 0.85 && point.high <= 1.0, "{point:?}");
        assert!((16 * MIB..=18 * MIB).contains(&point.keep_bytes), "{point:?}");
        // Four hundred times in each interval.
        let fast = |level: &Level| Level { faults: level.faults * 400, ..*level };
        let point = avoidable(sawtooth().iter().map(fast).collect(), Some(120 * MIB), 2, Some(1.0)).unwrap();
        assert!(point.keep_bytes <= 120 * MIB, "never more than it held: {point:?}");
    }

    #[test]
    fn growth_alone_is_not_avoidable_and_few_readings_say_nothing() {
        let grown: Vec<Level> = sawtooth()
            .iter()
            .map(|level| Level { anon_bytes: level.faults * faultless_os::page::size() as u64, ..*level })
            .collect();
        assert!(avoidable(grown, None, 2, Some(1.0)).unwrap().high < 0.01);
        assert_eq!(avoidable(sawtooth()[..3].to_vec(), None, 2, Some(1.0)), None);
        assert_eq!(avoidable(Vec::new(), None, 2, None), None);
    }
}
