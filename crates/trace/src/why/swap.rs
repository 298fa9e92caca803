//! Anonymous memory comes back from swap.

use super::{Claim, Faults, Proposed, Rule};
use crate::kind::Kind;
use crate::measurement::Count;

pub(super) const RULE: Rule = Rule {
    id: "swap_in",
    title: "Memory comes back from swap",
    about: "The kernel has written pages of the program to swap, and a touch reads one back: a major fault on memory without a file.",
    by_hand: "pswpin in /proc/vmstat; VmSwap in /proc/PID/status; `vmstat 1`, column si.",
    cures: &[
        ["a smaller working set, or more memory", "-", "-"],
        [
            "mlock(2), or memory.swap.max=0 for the group",
            "memory that others can't have",
            "mlock(2), kernel, admin-guide/cgroup-v2",
        ],
        [
            "zswap or zram before the disk; vm.page-cluster=0 for random access",
            "processor time",
            "kernel, admin-guide/mm/zswap",
        ],
    ],
    find: |scene| {
        let pages = scene.machine("pswpin");
        if pages == 0 {
            return Vec::new();
        }
        vec![Claim {
            what: format!(
                "memory comes back from swap: {} of the machine meanwhile",
                Count(pages).of("page")
            ),
            faults: Faults::Of(Box::new(move |fault| fault.kind == Kind::Major && !scene.is_in_file(fault))),
            is_blocked: true,
            cures: vec![Proposed::new(
                "a smaller working set or more memory; mlock(2) for what must not wait",
                [0.5, 1.0],
            )],
            ..Claim::default()
        }]
    },
};
