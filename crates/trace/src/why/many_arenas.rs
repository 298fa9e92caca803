//! Each thread takes an arena of malloc, and touches a heap of its own.

use std::collections::HashSet;

use super::{Claim, Faults, Proposed, Rule};
use crate::measurement::Count;

/// Arenas that are many.
const ARENAS: u64 = 8;
/// Memory of a thread in its arena that is little, bytes.
const LITTLE_BYTES: f64 = 1048576.0;

pub(super) const RULE: Rule = Rule {
    id: "many_arenas",
    title: "An arena for each thread",
    about: "glibc gives a thread that allocates while others do an arena of its own, up to eight times the processors. \
            Each maps 64 MiB of addresses, faults its own pages, and grows by mprotect(2), which takes mmap_lock. \
            Threads that do little pay for a heap each.",
    by_hand: "`strace -f -e trace=mmap,mprotect PROGRAM`: mappings of 134217728 bytes, one for each arena.",
    cures: &[
        [
            "GLIBC_TUNABLES=glibc.malloc.arena_max=2, or MALLOC_ARENA_MAX=2",
            "threads share locks",
            "mallopt(3), glibc 2.10",
        ],
        ["keep threads, as a pool does", "their stacks", "-"],
    ],
    find: |scene| {
        let makers = &scene.given.makers;
        let is_arena =
            |index: usize| scene.given.made_by[index].is_some_and(|maker| makers[maker as usize].is_arena());
        let arenas: u64 = makers.iter().filter(|maker| maker.is_arena()).map(|maker| maker.calls).sum();
        let (these, faults) = scene.faults_of(|index, fault| fault.kind.is_fresh() && is_arena(index));
        let touching = scene.profile.faults.iter().zip(&these).filter(|(_, of)| **of);
        let threads = touching.map(|(fault, _)| fault.tid).collect::<HashSet<_>>().len();
        let each_bytes = faults * scene.recording.observation.host.page_bytes as f64 / threads.max(1) as f64;
        if arenas < ARENAS || each_bytes > LITTLE_BYTES {
            return Vec::new();
        }
        let cure = Proposed::set("GLIBC_TUNABLES", "glibc.malloc.arena_max=2", 0.0)
            .saving([0.0, 0.6])
            .noted("threads then share the locks of malloc");
        vec![Claim {
            what: format!("each thread touches an arena of its own ({})", Count(arenas).of("arena")),
            faults: Faults::These(these),
            cures: vec![cure],
            ..Claim::default()
        }]
    },
};
