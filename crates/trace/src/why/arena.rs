//! glibc shrinks the heap of a thread's arena.

use super::owner::Owner;
use super::{Proposed, Rule, Scene};
use crate::cure::tunables;
use crate::observation::Call;

pub(super) const RULE: Rule = Rule {
    id: "arena_trimmed",
    about: "Threads other than the first allocate from arenas. When the top of one is free, glibc gives it back by \
            madvise(MADV_DONTNEED) or a new mapping, and makes it usable again by mprotect(2), which waits for mmap_lock \
            and lets the faults of other threads wait. The trim threshold governs it, as for the heap (mallopt(3)). \
            By hand: `strace -f -e madvise,mprotect`.",
    find: |scene: &Scene<'_>| {
        let givers =
            scene.givers(|giver| giver.owner == Owner::Malloc && matches!(giver.call, Call::Madvise | Call::Mmap));
        let kept = givers.iter().map(|(_, giver)| giver.kept_bytes).sum();
        let cure = Proposed::keeps(tunables(scene.largest_block()), kept)
            .noted("both settings together; one alone is worse");
        let what = "glibc trims the arenas of threads, and takes the same pages again".to_owned();
        scene.cycle(&givers, what, vec![cure]).into_iter().collect()
    },
};
