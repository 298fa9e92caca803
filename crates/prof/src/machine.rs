//! Counters that all programs of the machine share, and those of a control group.
//!
//! In: `/proc/vmstat`, `/proc/interrupts` and the files of the control group, at two times. Out: how far each has
//! risen, by name. They bound what one program can have caused; they do not tell who did.
//!
//! Sources: proc(5); Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.

use std::collections::BTreeMap;

use faultless_os::host::Cgroup;
use faultless_trace::observation::{GROUP_LIMIT, TLB_INTERRUPTS};

/// Beginnings of the names in `/proc/vmstat` that are kept.
const VMSTAT: [&str; 8] = [
    "compact_",
    "allocstall_",
    "pgscan_direct",
    "pgsteal_direct",
    "thp_fault_",
    "thp_collapse_",
    "thp_split_page",
    "pswp",
];

/// The counters at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    counts: BTreeMap<String, u64>,
    /// Those of interrupts and of the control group too.
    whole: bool,
}

impl Machine {
    /// Reads them. `whole`: with interrupts and the control group, which takes longer by a file for each.
    pub(crate) fn now(whole: bool) -> Self {
        let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let mut counts = kept(&vmstat);
        if whole {
            let interrupts = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
            counts.extend(Some(TLB_INTERRUPTS.to_owned()).zip(interrupted(&interrupts, "TLB:")));
            let hits = Cgroup::now().and_then(|group| group.limit_hits);
            counts.extend(Some(GROUP_LIMIT.to_owned()).zip(hits));
        }
        Self { counts, whole }
    }

    /// How far they have risen since. A counter that was not there is not in it.
    pub(crate) fn risen(&self) -> BTreeMap<String, u64> {
        let now = Self::now(self.whole).counts;
        let rise = |(name, then): (&String, &u64)| Some((name.clone(), now.get(name)?.saturating_sub(*then)));
        self.counts.iter().filter_map(rise).collect()
    }
}

/// Lines `NAME COUNT`.
fn kept(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        let is_kept = VMSTAT.iter().any(|begin| name.starts_with(begin));
        is_kept.then_some((name.to_owned(), count.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The sum over the processors in a line ` TLB:  12  34   TLB shootdowns`; `None` without such a line.
fn interrupted(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
    Some(line.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_counters_are_kept_and_interrupts_are_summed() {
        let kept = kept("pgfault 9\ncompact_stall 7\nthp_fault_alloc 3\npgscan_direct_throttle 0\nx\n");
        assert_eq!(
            kept.into_iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>(),
            ["compact_stall 7", "pgscan_direct_throttle 0", "thp_fault_alloc 3"]
        );
        let text =
            "           CPU0       CPU1\n  0:   3   4  IO-APIC  timer\n TLB:    14   13   TLB shootdowns\n";
        assert_eq!((interrupted(text, "TLB:"), interrupted(text, "CAL:")), (Some(27), None));
    }

    #[test]
    fn what_this_test_does_is_counted() {
        let before = Machine::now(true);
        let risen = before.risen();
        assert!(risen.keys().all(|name| before.counts.contains_key(name)), "{risen:?}");
        assert!(risen.values().all(|rise| *rise < 1 << 40), "{risen:?}");
    }
}
