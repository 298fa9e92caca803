//! khugepaged makes huge pages of memory that is used sparsely.

use super::given::MADV_HUGEPAGE;
use super::{Claim, Proposed, Rule};
use crate::measurement::Count;

pub(super) const RULE: Rule = Rule {
    id: "khugepaged",
    title: "khugepaged adds memory",
    about: "khugepaged replaces 2 MiB of which a part is resident with a huge page, in the background. With the default of \
            max_ptes_none, 511, one touched page of 512 is enough. Memory grows without a fault of the program.",
    by_hand: "thp_collapse_alloc in /proc/vmstat; AnonHugePages in /proc/PID/smaps.",
    cures: &[
        [
            "echo 64 > /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
            "only ranges that are mostly resident are collapsed",
            "kernel, admin-guide/mm/transhuge",
        ],
        ["no MADV_HUGEPAGE for sparse memory, or MADV_NOHUGEPAGE", "its huge pages", "madvise(2)"],
        ["prctl(PR_SET_THP_DISABLE)", "all huge pages of the program", "prctl(2)"],
    ],
    find: |scene| {
        let host = &scene.recording.observation.host;
        let grown_bytes = scene.profile.collapsed * host.thp_bytes as f64;
        if scene.profile.collapsed < 1.0 || scene.machine("thp_collapse_alloc") == 0 {
            return Vec::new();
        }
        vec![Claim {
            what: format!(
                "khugepaged makes {} of memory that is used sparsely, without a fault",
                Count(scene.profile.collapsed.round() as u64).of("huge page")
            ),
            grown_bytes,
            caller: scene.advised(MADV_HUGEPAGE),
            cures: vec![
                Proposed::new(
                    "echo 64 > /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none (root)",
                    [0.0; 2],
                ),
                Proposed::new(
                    "no MADV_HUGEPAGE there, MADV_NOHUGEPAGE, or faultless run --no-huge-pages",
                    [0.0; 2],
                ),
            ],
            ..Claim::default()
        }]
    },
};
