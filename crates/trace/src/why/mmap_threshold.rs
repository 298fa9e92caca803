//! glibc maps a large block and unmaps it when it is freed.

use super::owner::Owner;
use super::{Proposed, Rule, Scene};
use crate::cure::tunables;
use crate::measurement::Bytes;
use crate::observation::Call;

pub(super) const RULE: Rule = Rule {
    id: "block_above_mmap_threshold",
    about: "glibc serves blocks of at least `M_MMAP_THRESHOLD` bytes by mmap(2) and gives them back by munmap(2), so each \
            such block faults anew. The threshold is 128 KiB at first and follows the largest freed one up to 32 MiB \
            (mallopt(3)); larger blocks are always mapped. By hand: `strace -e munmap`, lengths a page longer than the blocks.",
    find: |scene: &Scene<'_>| {
        let givers = scene.givers(|giver| {
            giver.owner == Owner::Malloc && matches!(giver.call, Call::Munmap | Call::Mremap)
        });
        let longest = givers.iter().map(|(_, giver)| giver.longest_bytes).max().unwrap_or(0);
        let kept = givers.iter().map(|(_, giver)| giver.kept_bytes).sum();
        let what = format!("glibc maps and unmaps each large block (up to {})", Bytes(longest));
        let cures = vec![
            Proposed::keeps(tunables(longest), kept),
            Proposed::keeps("faultless run -- CMD".to_owned(), kept),
        ];
        scene.cycle(&givers, what, cures).into_iter().collect()
    },
};
