//! When single faults are recorded: all of them at first, then in bursts that cost a bounded share of the
//! program's CPU time.
//!
//! In: how many faults have been recorded, and how much CPU time the program has used. Out: whether to switch
//! recording. It is a token bucket: CPU time fills it, recorded faults empty it. A program that faults rarely
//! is recorded all the time. One that only faults is recorded about 1 % of the time. During the first 60 ms
//! of CPU time, bursts are short and close together, because short programs have phases too.
//!
//! The cost on the recorder's side is measured burst by burst: a deep stack takes ten times as long to unwind
//! as a flat one. The decision never depends on the kind of the faults.
//!
//! It does not read a clock, or touch an event.

use crate::tuning as t;

/// What recording single faults may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Share of the program's CPU time.
    share: f64,
    /// First estimate of what a recorded fault costs the recorder, ns.
    own_ns: f64,
    /// Cost before recording is paced, ns.
    free_ns: f64,
    /// Mean pause between bursts, ns.
    pause_ns: u64,
}

impl Limits {
    /// For bare faults.
    pub(crate) const BARE: Self = Self {
        share: t::RECORD_SHARE,
        own_ns: t::DRAIN_COST_NS,
        free_ns: t::RECORD_FREE_NS,
        pause_ns: t::RECORD_PAUSE_NS,
    };
    /// For faults with their stacks.
    pub(crate) const STACKS: Self = Self {
        share: t::STACKS_SHARE,
        own_ns: t::RECORD_DRAIN_COST_NS,
        free_ns: t::STACKS_FREE_NS,
        pause_ns: t::STACKS_PAUSE_NS,
    };
}

/// The bucket and the switch.
#[derive(Debug)]
pub(crate) struct Budget {
    on: bool,
    /// It stays as it is.
    fixed: bool,
    credit_ns: f64,
    /// The cost of a recorded fault, for the program and for the recorder.
    cost_ns: f64,
    own_ns: f64,
    limits: Limits,
    /// The free credit has been spent.
    is_throttled: bool,
    recorded: u64,
    cpu_ns: u64,
    resume_ns: u64,
    random: fastrand::Rng,
}

impl Budget {
    /// Recording, with the free credit. `cost_ns`: what one recorded fault costs the program. `seed` varies the pauses.
    pub(crate) fn new(cost_ns: f64, limits: Limits, seed: u64) -> Self {
        Self {
            on: true,
            fixed: false,
            credit_ns: limits.free_ns,
            cost_ns,
            own_ns: limits.own_ns,
            limits,
            is_throttled: false,
            recorded: 0,
            cpu_ns: 0,
            resume_ns: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Recording without end, whatever it costs.
    pub(crate) fn always() -> Self {
        Self { fixed: true, ..Self::new(0.0, Limits::BARE, 1) }
    }

    /// Drops the rest of the free credit: from now on recording is throttled. Credit that the program earns
    /// can still be spent.
    pub(crate) fn throttle(&mut self) {
        self.credit_ns = self.credit_ns.min(0.0);
    }

    /// From now on nothing is recorded.
    pub(crate) fn stop(&mut self) {
        (self.on, self.fixed) = (false, true);
    }

    /// Whether faults are being recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// More faults have been recorded.
    pub(crate) fn spend(&mut self, faults: u64) {
        self.recorded += faults;
        self.credit_ns -= faults as f64 * (self.cost_ns + self.own_ns);
    }

    /// A burst of this many faults took this much of the recorder's CPU time. One burst changes the estimate
    /// by a factor of two at most: the first stack in a large file takes 30 ms, once.
    pub(crate) fn learn(&mut self, faults: u64, own_ns: u64) {
        if faults > 0 {
            let each_ns = own_ns as f64 / faults as f64;
            self.own_ns = each_ns.clamp(self.own_ns / 2.0, self.own_ns * 2.0);
        }
    }

    /// Whether to switch now. `cpu_ns` reads the program's CPU time; it is called only if the answer depends
    /// on it.
    pub(crate) fn should_switch(&mut self, now_ns: u64, cpu_ns: impl FnOnce() -> u64) -> bool {
        if self.fixed || self.on && self.credit_ns > 0.0 || !self.on && now_ns < self.resume_ns {
            return false;
        }
        self.fill(cpu_ns());
        let burst_ns = if self.is_early() { t::EARLY_BURST_NS } else { t::RECORD_BURST_NS };
        if self.on { self.credit_ns <= 0.0 } else { self.credit_ns >= burst_ns }
    }

    /// It was switched.
    pub(crate) fn switched(&mut self, now_ns: u64) {
        self.on = !self.on;
        if !std::mem::replace(&mut self.is_throttled, true) {
            // The first stretch may overdraw its credit. Without this reset, a short program would never be
            // recorded again.
            self.credit_ns = self.credit_ns.max(0.0);
        }
        let pause_ns = if self.is_early() { t::EARLY_PAUSE_NS } else { self.limits.pause_ns };
        self.resume_ns = now_ns + pause_ns / 2 + self.random.u64(..pause_ns);
    }

    fn is_early(&self) -> bool {
        self.cpu_ns < t::EARLY_CPU_NS
    }

    fn fill(&mut self, cpu_ns: u64) {
        let share = self.limits.share * (t::RECORD_FAULTS_FULL_SHARE / self.recorded.max(1) as f64).min(1.0);
        let early_ns = cpu_ns.min(t::EARLY_CPU_NS).saturating_sub(self.cpu_ns);
        let late_ns = cpu_ns.saturating_sub(self.cpu_ns.max(t::EARLY_CPU_NS));
        self.credit_ns += early_ns as f64 * t::EARLY_SHARE + late_ns as f64 * share;
        self.credit_ns = self.credit_ns.min(t::RECORD_CREDIT_MAX_NS);
        self.cpu_ns = cpu_ns.max(self.cpu_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of the time on, and share of CPU time spent on recording, for a program that faults `per_s`
    /// times per second of CPU.
    fn play(per_s: f64, seconds: f64) -> (f64, f64) {
        let (cost_ns, step_ns) = (1_200.0, 500_000_u64);
        let mut budget = Budget::new(cost_ns, Limits::BARE, 42);
        let (mut on_ns, mut faults, mut now_ns) = (0, 0.0, 0);
        while (now_ns as f64) < seconds * 1e9 {
            now_ns += step_ns;
            if budget.is_on() {
                on_ns += step_ns;
                let new = per_s * step_ns as f64 / 1e9;
                faults += new;
                budget.spend(new as u64);
            }
            if budget.should_switch(now_ns, || now_ns) {
                budget.switched(now_ns);
            }
        }
        (on_ns as f64 / now_ns as f64, faults * (cost_ns + t::DRAIN_COST_NS) / now_ns as f64)
    }

    #[test]
    fn a_program_that_hardly_faults_is_recorded_all_the_time() {
        assert_eq!(play(2_000.0, 5.0).0, 1.0);
    }

    #[test]
    fn a_program_that_only_faults_costs_the_share_and_no_more() {
        let (on, cost) = play(700_000.0, 5.0);
        assert!((0.004..0.05).contains(&on), "on {on}");
        assert!(cost < t::RECORD_SHARE * 1.15, "cost {cost}");
        assert!(cost > t::RECORD_SHARE * 0.5, "cost {cost}");
    }

    #[test]
    fn stacks_that_take_long_to_unwind_are_recorded_less_and_one_slow_burst_changes_little() {
        let after = |own_ns: u64, bursts: usize| {
            let mut budget = Budget::new(1_000.0, Limits::STACKS, 42);
            budget.learn(100, 100_000_000);
            (0..bursts).for_each(|_| budget.learn(100, 100 * own_ns));
            budget.spend(1);
            t::STACKS_FREE_NS - budget.credit_ns
        };
        assert_eq!(after(0, 0), 1_000.0 + 2.0 * t::RECORD_DRAIN_COST_NS, "a millisecond a fault, once");
        assert_eq!(after(2_500, 3), 3_500.0);
        assert_eq!(after(60_000, 6), 61_000.0);
    }

    #[test]
    fn what_is_fixed_never_switches() {
        let mut budget = Budget::always();
        budget.spend(u64::MAX);
        assert!(!budget.should_switch(1 << 40, || 1 << 40) && budget.is_on());
        budget.stop();
        assert!(!budget.should_switch(1 << 50, || 1 << 50) && !budget.is_on());
    }
}
