//! What the kernel counts of the whole machine: huge pages, compaction, reclaim, waits for memory.
//!
//! In: `/proc/vmstat` and `/proc/pressure/memory`. Out: [`Machine`]. The counters begin with the machine, not with the
//! agent. What the kernel lacks is `None`, and has no series.

/// Counters since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Machine {
    pub(crate) huge_faults: Option<u64>,
    /// A fault wanted a huge page and got a base page.
    pub(crate) huge_fallbacks: Option<u64>,
    pub(crate) collapses: Option<u64>,
    pub(crate) splits: Option<u64>,
    /// An allocation waited for compaction.
    pub(crate) compaction_stalls: Option<u64>,
    /// An allocation reclaimed pages itself, in any zone.
    pub(crate) reclaim_stalls: Option<u64>,
    /// Time in which some task waited for memory, s.
    pub(crate) some_waited_s: Option<f64>,
    /// Time in which all tasks did, s.
    pub(crate) all_waited_s: Option<f64>,
}

impl Machine {
    /// Reads the counters.
    pub(crate) fn now() -> Self {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&text("/proc/vmstat"), &text("/proc/pressure/memory"))
    }

    fn parse(vmstat: &str, pressure: &str) -> Self {
        let value = |name: &str| {
            let line = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
            vmstat.lines().find_map(line)
        };
        let stalls: Vec<u64> = vmstat
            .lines()
            .filter(|line| line.starts_with("allocstall"))
            .filter_map(|line| line.split_once(' ')?.1.trim().parse().ok())
            .collect();
        let waited_s = |name: &str| {
            let line = pressure.lines().find(|line| line.starts_with(name))?;
            let micros: u64 = line.split_once(" total=")?.1.trim().parse().ok()?;
            Some(micros as f64 / 1e6)
        };
        Self {
            huge_faults: value("thp_fault_alloc"),
            huge_fallbacks: value("thp_fault_fallback"),
            collapses: value("thp_collapse_alloc"),
            splits: value("thp_split_page"),
            compaction_stalls: value("compact_stall"),
            reclaim_stalls: (!stalls.is_empty()).then(|| stalls.iter().sum()),
            some_waited_s: waited_s("some "),
            all_waited_s: waited_s("full "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_whole_names_and_zones_are_added_up() {
        let vmstat = "allocstall_dma 1\nallocstall_normal 4\nthp_fault_alloc 7\nthp_fault_fallback 2\n\
                      thp_fault_fallback_charge 9\ncompact_stall 3\n";
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=5\n";
        let found = Machine::parse(vmstat, pressure);
        let expected = Machine {
            huge_faults: Some(7),
            huge_fallbacks: Some(2),
            compaction_stalls: Some(3),
            reclaim_stalls: Some(5),
            some_waited_s: Some(1.5),
            all_waited_s: Some(5e-6),
            ..Machine::default()
        };
        assert_eq!(found, expected);
        assert_eq!(Machine::parse("", ""), Machine::default());
    }
}
