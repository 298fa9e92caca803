//! Memory that the process never had before.

use std::collections::HashMap;

use super::{Claim, Faults, Proposed, Rule, Scene};
use crate::kind::Kind;
use crate::tuning::{THP_SAVES, WHOLE_SHARE};

/// Recorded faults of each huge page's range from which on it is known how much of them is touched.
const RECORDS_PER_RANGE: usize = 3;

pub(super) const RULE: Rule = Rule {
    id: "first_touch",
    title: "First touch",
    about: "The process touches memory that it never had. No kept memory serves it. If it ends early, it is \
            the start of the program.",
    by_hand: "`perf stat -I 100 -e page-faults PROGRAM`",
    cures: &[
        [
            "huge pages: GLIBC_TUNABLES=glibc.malloc.hugetlb=1, MADV_HUGEPAGE",
            "one fault for 512 pages; memory that is used sparsely grows",
            "glibc 2.35, mallopt(3)",
        ],
        ["populate where later latency matters", "moves the time to the start", "madvise(2), Linux 5.14"],
    ],
    find: |scene| {
        let what = match scene.given.is_known {
            true => "memory that the process did not have before is touched for the first time",
            false => "memory is touched for the first time, or again: who gives memory back was not recorded",
        };
        let cure = || {
            let [low, _, high] = THP_SAVES;
            let how =
                "huge pages: madvise(MADV_HUGEPAGE), or GLIBC_TUNABLES=glibc.malloc.hugetlb=1 for malloc";
            Proposed::new(how, [low * WHOLE_SHARE, high]).noted("memory that is used sparsely grows")
        };
        let is_dense = scene.recording.observation.host.thp == "madvise"
            && filled(scene).is_some_and(|share| share >= WHOLE_SHARE);
        vec![Claim {
            what: what.to_owned(),
            early: Some(
                "start: memory is touched for the first time, and hardly any later; nothing to cure, unless huge pages fit"
                    .to_owned(),
            ),
            faults: Faults::Of(Box::new(|fault| {
                fault.kind.is_fresh() || fault.kind == Kind::BssFirstWrite
            })),
            cures: is_dense.then(cure).into_iter().collect(),
            ..Claim::default()
        }]
    },
};

/// Share of the huge pages in whose ranges base pages are touched that these fill; `None` if too few faults were
/// recorded.
fn filled(scene: &Scene<'_>) -> Option<f64> {
    let thp_bytes = scene.recording.observation.host.thp_bytes.max(1);
    let page_bytes = scene.recording.observation.host.page_bytes as f64;
    let mut ranges: HashMap<(u32, u64), f64> = HashMap::new();
    let mut records = 0;
    for fault in &scene.profile.faults {
        if matches!(fault.kind, Kind::HeapFirstWrite | Kind::MmapFirstWrite) {
            records += 1;
            *ranges.entry((fault.pid, fault.addr / thp_bytes)).or_default() += fault.faults * page_bytes;
        }
    }
    let filled: f64 = ranges.values().map(|bytes| bytes.min(thp_bytes as f64)).sum();
    (!ranges.is_empty() && records >= RECORDS_PER_RANGE * ranges.len())
        .then(|| filled / (ranges.len() as f64 * thp_bytes as f64))
}
