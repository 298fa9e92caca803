//! What a fault costs while it is watched: entry and end of every fault, in short bursts.
//!
//! In: the events, and the pair's offset ([`Calibration`]). Out: the mean time of a fault, overall and per
//! process. Waits are cut: a major fault is left out, and a reading far above the median counts as an upper
//! bound.
//!
//! It does not tell kinds of faults apart (`trace`).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use faultless_os::Result;
use faultless_os::perf::{Event, Software, Spec, Target};
use faultless_os::ring::Ring;
use faultless_trace::observation::Calibration;
use faultless_trace::stat::WAIT_LATENCY_RATIO;

use super::stacks::{Scope, ring};
use crate::calibrate::timed;
use crate::shape::{Shape, entry};
use crate::tuning as t;

/// The events of all processors; on only in a burst.
#[derive(Debug)]
pub(super) struct Pairs {
    buffers: Vec<PairBuffer>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct PairBuffer {
    /// At most one: the first leader's.
    rings: Vec<Ring>,
    leaders: Vec<Event>,
    _ends: Vec<Event>,
    /// By id: true for entries, false for minor ends.
    roles: HashMap<u64, bool>,
}

impl Pairs {
    /// Opens them.
    pub(super) fn open(scope: &Scope, cpus: &[u32]) -> Result<Self> {
        let buffers = |user_only| -> Result<Vec<PairBuffer>> {
            let spec = Spec { disabled: true, on_exec: false, ..scope.spec(entry(1), user_only) };
            cpus.iter().map(|&cpu| PairBuffer::open(&spec, &scope.tasks(), cpu)).collect()
        };
        let buffers =
            buffers(false).or_else(|error| if error.is_denied() { buffers(true) } else { Err(error) })?;
        Ok(Self { buffers, bytes: Vec::new() })
    }

    /// Whether this many tasks can be watched this way.
    pub(super) fn is_affordable(scope: &Scope, cpus: &[u32]) -> bool {
        const EVENTS: usize = 3; // entry, minor end, major end
        scope.tasks().len() * cpus.len() * EVENTS <= t::LIVE_EVENTS_MAX / 2
    }

    /// Sleeps for some milliseconds while faults are recorded. Returns process and duration in ns of each
    /// minor fault.
    pub(super) fn burst(&mut self) -> Vec<(u32, f64)> {
        // The kernel refuses this for no event that it has opened. An event that stayed off would give no
        // pairs.
        for leader in self.leaders() {
            let _ = leader.enable();
        }
        std::thread::sleep(Duration::from_nanos(t::LIVE_BURST_NS));
        for leader in self.leaders() {
            let _ = leader.disable();
        }
        let mut found = Vec::new();
        for buffer in &mut self.buffers {
            self.bytes.clear();
            buffer.rings.iter_mut().for_each(|ring| ring.drain_into(&mut self.bytes));
            let readings = timed(&self.bytes, |id| buffer.roles.get(&id).copied());
            found.extend(readings.map(|(pid, ns)| (pid, ns as f64)));
        }
        found
    }

    fn leaders(&self) -> impl Iterator<Item = &Event> {
        self.buffers.iter().flat_map(|buffer| &buffer.leaders)
    }
}

impl PairBuffer {
    fn open(spec: &Spec, tasks: &[i32], cpu: u32) -> Result<Self> {
        let (mut leaders, mut ends): (Vec<Event>, _) = (Vec::new(), Vec::new());
        let (mut mapped, mut roles) = (Vec::new(), HashMap::new());
        for (index, &pid) in tasks.iter().enumerate() {
            let target = Target { pid, cpu: Some(cpu) };
            let leader = match Event::open(spec, target, None) {
                // A thread that has just ended.
                Err(error) if error.is_gone() && index + 1 < tasks.len() => continue,
                Err(error) if error.is_gone() && !leaders.is_empty() => break,
                opened => opened?,
            };
            match leaders.first() {
                Some(owner) => leader.redirect_to(owner)?,
                None => mapped.push(ring(&leader, t::LIVE_PAIR_RING_PAGES)?),
            }
            roles.insert(leader.id()?, true);
            for event in [Software::MinorFaults, Software::MajorFaults] {
                let end = Spec { event, output: Shape::BARE.end(1), disabled: false, ..*spec };
                let end = Event::open(&end, target, Some(&leader))?;
                end.redirect_to(leaders.first().unwrap_or(&leader))?;
                if event == Software::MinorFaults {
                    roles.insert(end.id()?, false);
                }
                ends.push(end);
            }
            leaders.push(leader);
        }
        Ok(Self { rings: mapped, leaders, _ends: ends, roles })
    }
}

/// The current price of a fault.
#[derive(Debug, Default)]
pub(super) struct Prices {
    calibrated_ns: f64,
    offset_ns: f64,
    timed: VecDeque<(u32, f64)>,
    of_process: HashMap<u32, f64>,
    of_all: Option<f64>,
}

impl Prices {
    /// Only the start-up calibration so far.
    pub(super) fn new(calibration: Option<&Calibration>) -> Self {
        Self {
            calibrated_ns: calibration.map_or(0.0, |found| found.truth_p50_ns),
            offset_ns: calibration.map_or(0.0, Calibration::offset_ns),
            ..Self::default()
        }
    }

    /// Takes the readings of a burst.
    pub(super) fn add(&mut self, readings: Vec<(u32, f64)>) {
        if readings.is_empty() {
            return;
        }
        self.timed.extend(readings);
        self.timed.drain(..self.timed.len().saturating_sub(t::LIVE_TIMED_MAX));
        let mut all: Vec<f64> = self.timed.iter().map(|(_, ns)| *ns).collect();
        let middle = all.len() / 2;
        let most = *all.select_nth_unstable_by(middle, f64::total_cmp).1 * WAIT_LATENCY_RATIO;
        let mut sums: HashMap<u32, (f64, usize)> = HashMap::new();
        for (pid, ns) in &self.timed {
            let (sum, count) = sums.entry(*pid).or_default();
            (*sum, *count) = (*sum + (ns.min(most) - self.offset_ns).max(0.0), *count + 1);
        }
        let mean = |(sum, count): (f64, usize)| (count >= t::LIVE_TIMED_MIN).then(|| sum / count as f64);
        self.of_all = mean(sums.values().fold((0.0, 0), |all, one| (all.0 + one.0, all.1 + one.1)));
        self.of_process = sums.into_iter().filter_map(|(pid, one)| Some((pid, mean(one)?))).collect();
    }

    /// Nanoseconds per fault of a process; the overall price if too few of its faults were timed.
    pub(super) fn of(&self, pid: u32) -> f64 {
        self.of_process.get(&pid).copied().unwrap_or(self.of_all())
    }

    /// Nanoseconds per fault overall; the calibration if too few were timed.
    pub(super) fn of_all(&self) -> f64 {
        self.of_all.unwrap_or(self.calibrated_ns)
    }

    /// Timed faults behind [`Prices::of_all`]; 0: the price is the calibration's.
    pub(super) fn timed(&self) -> usize {
        self.of_all.map_or(0, |_| self.timed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_price_once_enough_of_its_faults_were_timed() {
        let calibration = Calibration {
            truth_p50_ns: 1000.0,
            pair_p50_ns: 1200.0,
            record_cost_ns: 0.0,
            pages: 9,
            offset_error_ns: 0.0,
            read_offset_ns: None,
            mapped_offset_ns: None,
        };
        let mut prices = Prices::new(Some(&calibration));
        assert_eq!((prices.of_all(), prices.of(7), prices.timed()), (1000.0, 1000.0, 0));
        prices.add(vec![(7, 1700.0); t::LIVE_TIMED_MIN]);
        prices.add(vec![(8, 700.0); t::LIVE_TIMED_MIN - 1]);
        prices.add(vec![(9, 700.0)]);
        assert_eq!((prices.of(7), prices.of_all()), (1500.0, 1000.0));
        assert_eq!(prices.of(8), 1000.0, "one too few");
    }

    #[test]
    fn a_wait_counts_as_a_bound_and_old_readings_go() {
        let mut prices = Prices::new(None);
        prices.add(vec![(7, 1e12)]);
        prices.add(vec![(7, 1000.0); t::LIVE_TIMED_MIN]);
        assert!(prices.of(7) < 4000.0, "{}", prices.of(7));
        prices.add(vec![(7, 500.0); t::LIVE_TIMED_MAX]);
        assert_eq!((prices.of(7), prices.timed()), (500.0, t::LIVE_TIMED_MAX));
    }
}
