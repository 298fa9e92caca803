//! Memory is short: a fault, or a call, takes pages from others first.

use super::{Claim, Faults, Proposed, Rule, Scene};
use crate::kind::Kind;
use crate::measurement::Count;
use crate::observation::GROUP_LIMIT;
use crate::profile::Weighted;

const RECLAIMS: &[&str] =
    &["try_to_free_pages", "try_to_free_mem_cgroup_pages", "alloc_pages_direct_reclaim", "reclaim_high"];
/// Fewest samples that tell a time.
const SAMPLES: f64 = 5.0;
/// A fault so many times dearer than a calibrated one did more than fill a page.
const DEAR: f64 = 10.0;

pub(super) const RULE: Rule = Rule {
    id: "direct_reclaim",
    title: "Direct reclaim, or a control group at its limit",
    about: "Where memory is short, an allocation frees pages of others first: it writes them to swap or to their files, or drops \
            them. A control group that has reached its limit does so with its own pages, however much memory the machine has.",
    by_hand: "allocstall_* and pgscan_direct in /proc/vmstat; memory.events (v2) or memory.failcnt (v1) of the group; \
              /proc/pressure/memory.",
    cures: &[
        ["a higher limit: memory.max, memory.high", "memory", "kernel, admin-guide/cgroup-v2"],
        ["a smaller program: fewer threads, a heap limit (GOMEMLIMIT, -Xmx), less kept memory", "-", "-"],
        [
            "vm.min_free_kbytes, vm.watermark_scale_factor",
            "more free memory: the kernel reclaims in the background before",
            "kernel, admin-guide/sysctl/vm",
        ],
    ],
    find: |scene| claim(scene).into_iter().collect(),
};

fn claim<'a>(scene: &'a Scene<'_>) -> Option<Claim<'a>> {
    let hits = scene.machine(GROUP_LIMIT);
    let stalls = scene.machine("allocstall_");
    let (what, how) = match (hits, stalls) {
        (0, 0) => return None,
        (0, _) => (
            format!(
                "memory is short, and faults free pages first ({} of the machine meanwhile)",
                Count(stalls).of("stall")
            ),
            "more memory, or a smaller program",
        ),
        _ => (
            format!(
                "the control group is at its limit of memory, and frees pages first: {}",
                Count(hits).of("time")
            ),
            "a higher limit (memory.max, memory.high), or a smaller program",
        ),
    };
    // Samples tell the time of all reclaim. Without them faults that are far dearer than others are it.
    let seen = scene.sampled(&[RECLAIMS], |_| true);
    let price_ns = scene.price_ns().unwrap_or(f64::INFINITY);
    let is_dear = move |fault: &Weighted| {
        !matches!(fault.kind, Kind::Thp | Kind::Major) && fault.time_ns() > DEAR * price_ns * fault.faults
    };
    let (faults, ns) = match seen.samples {
        SAMPLES.. => (Faults::None, seen.ns),
        _ => (Faults::Of(Box::new(is_dear)), 0.0),
    };
    Some(Claim {
        what,
        faults,
        is_blocked: true,
        calls: (0, ns),
        cures: vec![Proposed::new(how, [0.5, 1.0])],
        ..Claim::default()
    })
}
