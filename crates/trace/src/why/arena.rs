//! glibc shrinks the heap of a thread's arena.

use super::owner::Owner;
use super::{Proposed, Rule, malloc_settings};
use crate::observation::Call;

pub(super) const RULE: Rule = Rule {
    id: "arena_trimmed",
    title: "The arena of a thread is trimmed",
    about: "Threads other than the first allocate from arenas. When the top of one is free, glibc gives it \
            back with madvise(MADV_DONTNEED), or maps over it, and makes it usable again with mprotect(2). \
            That call takes mmap_lock for writing, so faults of other threads wait.",
    by_hand: "`strace -f -e trace=madvise,mprotect,mmap PROGRAM`",
    cures: &[
        [
            "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296",
            "what each arena has had at most",
            "mallopt(3)",
        ],
        ["GLIBC_TUNABLES=glibc.malloc.arena_max=1", "no arenas: all threads share one lock", "mallopt(3)"],
        ["jemalloc, mimalloc, tcmalloc", "their own delays", "their manuals"],
    ],
    find: |scene| {
        let givers = scene
            .givers(|giver| giver.owner == Owner::Malloc && matches!(giver.call, Call::Madvise | Call::Mmap));
        let kept = super::kept_bytes(&givers);
        let cure = Proposed::set("GLIBC_TUNABLES", malloc_settings(scene.largest_block()), kept)
            .noted("both settings together; one alone is worse");
        let what = "glibc trims the arenas of threads, and takes the same pages again".to_owned();
        scene.cycle(&givers, what, vec![cure]).into_iter().collect()
    },
};
