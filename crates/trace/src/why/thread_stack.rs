//! Short threads: each takes a stack and an arena, and gives them back.

use super::owner::Owner;
use super::{Proposed, Rule, Scene};

pub(super) const RULE: Rule = Rule {
    id: "thread_churn",
    about: "A thread that ends gives the touched part of its stack back (MADV_DONTNEED), beyond 40 MiB of cached stacks the \
            whole stack (munmap). Each new thread faults anew. A pool of threads keeps them; \
            GLIBC_TUNABLES=glibc.pthread.stack_cache_size raises the cache (glibc 2.34). By hand: `strace -f -e clone3,madvise`.",
    find: |scene: &Scene<'_>| {
        let givers = scene.givers(|giver| giver.owner == Owner::Thread);
        let kept = givers.iter().map(|(_, giver)| giver.kept_bytes).sum();
        let cure = Proposed::keeps("keep threads, as a pool does".to_owned(), kept);
        let what = "threads end and give their stacks back, and new ones take them again".to_owned();
        scene.cycle(&givers, what, vec![cure]).into_iter().collect()
    },
};
