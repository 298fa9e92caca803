//! How long to sleep between two polls of the program.
//!
//! In: what a poll cost, and whether it found anything. Out: a pause. Polls may take a small share of one
//! processor. They become rarer while nothing faults, and are frequent while the program is young. A ring
//! that fills wakes the recorder anyway.
//!
//! It does not sleep.

use crate::tuning as t;

/// The pause and its inputs.
#[derive(Debug)]
pub(crate) struct PollInterval {
    /// Shortest pause that keeps to the share.
    base_ns: u64,
    pause_ns: u64,
    polls: u32,
    cpu_ns: u64,
    /// Recorded faults were drained since the last check, so the poll cost more than a plain one.
    busy: bool,
}

impl PollInterval {
    /// Starts with the shortest pause. `cpu_ns`: the recorder's CPU time so far.
    pub(crate) fn new(cpu_ns: u64) -> Self {
        Self { base_ns: t::TICK_MIN_NS, pause_ns: t::TICK_MIN_NS, polls: 0, cpu_ns, busy: false }
    }

    /// How long to sleep now.
    pub(crate) fn pause_ns(&self) -> u64 {
        self.pause_ns
    }

    /// A reading of the levels found a change or not, after the list has been thinned this often.
    pub(crate) fn level_read(&mut self, changed: bool, thinned: u32) {
        let base = (self.base_ns << thinned.min(20)).min(t::TICK_MAX_NS.max(self.base_ns));
        self.pause_ns =
            if changed { base } else { (self.pause_ns * 2).clamp(base, t::TICK_MAX_NS.max(base)) };
    }

    /// A poll is over, at this age of the program. `busy`: it took many recorded faults. `cpu_ns` reads the
    /// recorder's CPU time; called now and then.
    pub(crate) fn polled(&mut self, age_ns: u64, busy: bool, cpu_ns: impl FnOnce() -> u64) {
        self.pause_ns = self.pause_ns.max(self.base_ns);
        if age_ns < t::EARLY_CPU_NS {
            self.pause_ns = self.pause_ns.min(t::TICK_EARLY_NS);
        }
        self.busy |= busy;
        self.polls += 1;
        if self.polls < t::TICKS_PER_COST_CHECK {
            return;
        }
        let cpu_ns = cpu_ns();
        if !std::mem::take(&mut self.busy) {
            let each = (cpu_ns - self.cpu_ns) as f64 / f64::from(self.polls);
            self.base_ns = ((each / t::TICK_SHARE) as u64).clamp(t::TICK_MIN_NS, t::TICK_COSTLY_NS);
        }
        (self.cpu_ns, self.polls) = (cpu_ns, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_looks_become_rarer_until_they_keep_to_the_share() {
        let mut interval = PollInterval::new(0);
        let mut cpu = 0;
        for _ in 0..100 {
            cpu += 60_000;
            interval.level_read(true, 0);
            interval.polled(1 << 40, false, || cpu);
        }
        assert_eq!(interval.pause_ns(), (60_000.0 / t::TICK_SHARE) as u64);
    }

    #[test]
    fn nothing_to_see_doubles_the_pause_and_a_change_ends_that() {
        let mut interval = PollInterval::new(0);
        for _ in 0..20 {
            interval.level_read(false, 0);
        }
        assert_eq!(interval.pause_ns(), t::TICK_MAX_NS);
        interval.level_read(true, 0);
        assert_eq!(interval.pause_ns(), t::TICK_MIN_NS);
        interval.level_read(true, 2);
        assert_eq!(interval.pause_ns(), 4 * t::TICK_MIN_NS, "twice as rare after each thinning");
    }
}
