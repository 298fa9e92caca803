//! Memory that the process never had before.

use std::collections::HashMap;

use super::owner::Owner;
use super::{Claim, Faults, Proposed, Rule, Scene};
use crate::kind::Kind;
use crate::observation::Call;
use crate::profile::Weighted;
use crate::program::Memory;
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
        let mut what = match scene.given.is_known {
            true => "memory that the process did not have before is touched for the first time",
            false => "memory is touched for the first time, or again: who gives memory back was not recorded",
        }
        .to_owned();
        if scene.run.no_huge_pages {
            what += "; the program has switched huge pages off (prctl PR_SET_THP_DISABLE)";
        }
        let how = match scene.run.memory {
            Memory::Malloc => {
                "huge pages: madvise(MADV_HUGEPAGE), or GLIBC_TUNABLES=glibc.malloc.hugetlb=1 for malloc"
            }
            _ => "huge pages: madvise(MADV_HUGEPAGE)",
        };
        let saves = is_dense(scene).then_some([THP_SAVES[0] * WHOLE_SHARE, THP_SAVES[2]]);
        vec![claim(&what, Faults::Of(Box::new(is_fresh)), saves.map(|saves| Proposed::new(how, saves)))]
    },
};

pub(super) const MAPPED: Rule = Rule {
    id: "first_touch_of_mappings",
    title: "First touch of the program's own mappings",
    about: "The same, of memory that the program maps for itself: no setting of malloc acts on it.",
    by_hand: "`strace -k -e trace=mmap PROGRAM`, and a page fault on those addresses.",
    cures: &[
        [
            "madvise(MADV_HUGEPAGE)",
            "one fault for 512 pages; memory that is used sparsely grows",
            "madvise(2)",
        ],
        ["faultless run --mappings=thp -- PROGRAM", "the same, for mmap by the C function", "this project"],
    ],
    find: |scene| {
        let is_own = |index: usize| {
            scene.maker(index).is_some_and(|maker| maker.owner == Owner::Program && maker.call == Call::Mmap)
        };
        let (these, _) = scene.faults_of(|index, fault| is_fresh(fault) && is_own(index));
        let what = "memory that the program maps for itself is touched for the first time";
        // A trial costs no more than two runs, so it need not be likely.
        let low = if is_dense(scene) { THP_SAVES[0] * WHOLE_SHARE } else { 0.0 };
        let ask = || Proposed::new("faultless run --mappings=thp -- CMD", [low, THP_SAVES[2]]);
        vec![claim(what, Faults::These(these), is_asked(scene).then(ask))]
    },
};

fn is_fresh(fault: &Weighted) -> bool {
    fault.kind.is_fresh() || fault.kind == Kind::BssFirstWrite
}

/// Whether a program gets huge pages where it asks for them.
fn is_asked(scene: &Scene<'_>) -> bool {
    scene.recording.observation.host.thp == "madvise" && !scene.run.no_huge_pages
}

/// Whether huge pages are to be asked for, and would be filled.
fn is_dense(scene: &Scene<'_>) -> bool {
    is_asked(scene) && filled(scene).is_some_and(|share| share >= WHOLE_SHARE)
}

fn claim<'a>(what: &str, faults: Faults<'a>, cure: Option<Proposed>) -> Claim<'a> {
    let cure = cure.map(|cure| cure.noted("huge pages; memory that is used sparsely grows"));
    Claim {
        what: what.to_owned(),
        early: Some(
            "start: memory is touched for the first time, and hardly any later; nothing to cure, unless huge pages fit"
                .to_owned(),
        ),
        faults,
        cures: cure.into_iter().collect(),
        ..Claim::default()
    }
}

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
