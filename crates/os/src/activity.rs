//! What all processors did: `/proc/stat`.
//!
//! In: two moments. Out: the share of the processors' time that other programs and the hypervisor took in
//! between. The kernel counts in clock ticks, mostly 10 ms. Shares below the rounding error are dropped, so
//! over short times only large shares show.
//!
//! Source: proc(5).

/// Time of all processors since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Not idle, ns.
    busy_ns: u64,
    /// In user mode, ns; part of the above.
    user_ns: u64,
    /// Taken by the hypervisor for others, ns.
    steal_ns: u64,
    /// Total, ns.
    all_ns: u64,
    /// Upper bound of the rounding error of all processors' times, ns.
    grain_ns: u64,
}

impl Activity {
    /// Reads the times until now; `None` where /proc does not tell.
    pub fn now() -> Option<Self> {
        // SAFETY: sysconf takes an integer.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?, u64::try_from(per_second).ok()?)
    }

    fn parse(text: &str, per_second: u64) -> Option<Self> {
        let processors = text.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1);
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let ticks: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
        let [user, nice, _, idle, iowait, _, _, steal] = ticks[..] else { return None };
        let ns = |ticks: u64| ticks.saturating_mul(1_000_000_000 / per_second.max(1));
        let all: u64 = ticks.iter().sum();
        Some(Self {
            busy_ns: ns(all - idle - iowait - steal),
            user_ns: ns(user + nice),
            steal_ns: ns(steal),
            all_ns: ns(all),
            grain_ns: ns(processors as u64),
        })
    }

    /// Time since `before` in which processors were not idle, summed over all of them, ns.
    pub fn busy_ns_since(&self, before: &Self) -> u64 {
        self.busy_ns.saturating_sub(before.busy_ns)
    }

    /// Busy time since `before` in user mode and in the kernel, ns.
    pub fn times_since(&self, before: &Self) -> (u64, u64) {
        let user_ns = self.user_ns.saturating_sub(before.user_ns);
        (user_ns, self.busy_ns_since(before).saturating_sub(user_ns))
    }

    /// Shares of the processors' time since `before`: of other programs (this one used `own_ns`), and of the
    /// hypervisor. 0 to 1 each; 0 if no time has passed.
    pub fn shares_since(&self, before: &Self, own_ns: u64) -> (f64, f64) {
        let all = self.all_ns.saturating_sub(before.all_ns) as f64;
        let share = |ns: u64| if all > 0.0 { (ns as f64 / all).min(1.0) } else { 0.0 };
        let busy_ns = self.busy_ns.saturating_sub(before.busy_ns);
        (
            share(busy_ns.saturating_sub(own_ns + self.grain_ns)),
            share(self.steal_ns.saturating_sub(before.steal_ns)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_from_the_first_line() {
        let at = |text: &str| Activity::parse(text, 100).unwrap();
        let before = at("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n");
        let after = at("cpu  150 0 70 900 60 0 0 20 0 0\ncpu0 1 2 3\n");
        // 200 ticks: 70 busy, 20 stolen. Of the 70 the program used 50, and one may be the rounding error of
        // the one processor.
        let (others, steal) = after.shares_since(&before, 500_000_000);
        assert!((others - 19.0 / 200.0).abs() < 1e-9 && (steal - 0.1).abs() < 1e-9, "{others} {steal}");
        assert_eq!(after.shares_since(&after, 0), (0.0, 0.0));
        assert_eq!(Activity::parse("intr 1 2\n", 100), None);
        assert_eq!(Activity::parse("cpu 1 2\n", 100), None);
    }

    #[test]
    fn this_machine_tells() {
        let begin = Activity::now();
        assert!(begin.is_some_and(|begin| begin.all_ns > begin.busy_ns));
    }
}
