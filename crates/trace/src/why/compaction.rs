//! A fault of a huge page makes room for it first.

use super::cures::NO_HUGE_PAGES;
use super::given::MADV_HUGEPAGE;
use super::seen::{IN_FAULT, huge};
use super::{Claim, Faults, Proposed, Rule, Scene};
use crate::kind::Kind;
use crate::measurement::{Count, Percent};

/// Functions that move pages together, or clear them.
const COMPACTS: &[&str] = &["try_to_compact_pages", "alloc_pages_direct_compact", "compact_zone_order"];
const CLEARS: &[&str] =
    &["folio_zero_user", "clear_huge_page", "clear_page_erms", "clear_page_rep", "clear_page_orig"];
/// Least part of the time of huge-page faults that is worth a word.
const PART: f64 = 0.1;
/// Fewest samples that tell a part.
const SAMPLES: f64 = 10.0;

pub(super) const RULE: Rule = Rule {
    id: "huge_page_compaction",
    title: "Huge pages wait for compaction",
    about: "Where free memory is in pieces, a fault of a huge page moves other pages until 2 MiB are free, with the \
            setting `defrag` at `always`, or at `madvise` for memory that asked for huge pages. That takes longer than clearing the \
            page, and may fail.",
    by_hand: "compact_stall and compact_fail in /proc/vmstat; as root `perf record -g -e cpu-clock`: try_to_compact_pages.",
    cures: &[
        [
            "echo defer+madvise, or defer > /sys/kernel/mm/transparent_hugepage/defrag",
            "base pages until the kernel has compacted in the background",
            "kernel, admin-guide/mm/transhuge",
        ],
        [
            "no MADV_HUGEPAGE where it does not pay, or prctl(PR_SET_THP_DISABLE)",
            "a fault for each 4 KiB",
            "madvise(2), prctl(2)",
        ],
        ["hugetlb pages, reserved at boot", "their memory", "kernel, admin-guide/mm/hugetlbpage"],
    ],
    find: |scene| claim(scene).into_iter().collect(),
};

fn claim(scene: &Scene<'_>) -> Option<Claim<'static>> {
    let (huge_ns, huge_faults) = huge(scene);
    let stalls = scene.machine("compact_stall");
    let in_faults = scene.sampled(&[IN_FAULT], |_| true);
    let compacts = scene.sampled(&[IN_FAULT, COMPACTS], |_| true);
    let (part, how) = if in_faults.samples >= SAMPLES {
        let clears = scene.sampled(&[IN_FAULT, CLEARS], |_| true).of(in_faults);
        let part = compacts.of(in_faults);
        (part, format!("{} of the fault time, {} clears memory", Percent(part), Percent(clears)))
    } else {
        // Whoever stalled: the faults are dearer than those right after the run, and there were stalls enough.
        let usual_ns = scene.recording.observation.counts.huge_ns? as f64;
        let is_enough = stalls as f64 >= PART * huge_faults && huge_faults > 0.0;
        let part = if is_enough { 1.0 - usual_ns * huge_faults / huge_ns.max(1.0) } else { 0.0 };
        (part, format!("up to {} of the time of huge-page faults", Percent(part)))
    };
    (part >= PART && stalls > 0).then(|| Claim {
        what: format!(
            "huge pages wait for compaction inside the fault: {how} ({} of the machine meanwhile)",
            Count(stalls).of("stall")
        ),
        faults: Faults::of_kind(Kind::Thp),
        caller: scene.advised(MADV_HUGEPAGE),
        cures: vec![
            Proposed::new(
                "echo defer+madvise > /sys/kernel/mm/transparent_hugepage/defrag (root; without MADV_HUGEPAGE: defer)",
                [0.5 * part, part],
            ),
            Proposed::new(NO_HUGE_PAGES, [0.0, part])
                .noted("or no MADV_HUGEPAGE for this memory: more faults, each far cheaper"),
        ],
        ..Claim::default()
    })
}
