//! Short threads: each takes a stack and an arena, and gives them back.

use super::owner::Owner;
use super::{Proposed, Rule};

pub(super) const RULE: Rule = Rule {
    id: "thread_churn",
    title: "Threads come and go",
    about: "A thread that ends gives the touched part of its stack back (MADV_DONTNEED), and beyond 40 MiB \
            of cached stacks the whole of it. A new thread faults its stack and its arena in again.",
    by_hand: "`strace -f -e trace=clone3,madvise PROGRAM`",
    cures: &[
        ["keep threads in a pool", "their stacks", "-"],
        ["GLIBC_TUNABLES=glibc.pthread.stack_cache_size=...", "more cached stacks", "glibc 2.34, manual"],
    ],
    find: |scene| {
        let givers = scene.givers(|giver| giver.owner == Owner::Thread);
        let kept = super::kept_bytes(&givers);
        let cure = Proposed::keeps("keep threads, as a pool does", kept);
        let what = "threads end and give their stacks back, and new ones take them again".to_owned();
        scene.cycle(&givers, what, vec![cure]).into_iter().collect()
    },
};
