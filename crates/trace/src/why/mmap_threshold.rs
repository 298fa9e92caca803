//! glibc maps a large block and unmaps it when it is freed.

use super::owner::Owner;
use super::{Proposed, Rule, malloc_settings};
use crate::measurement::Bytes;
use crate::observation::Call;

pub(super) const RULE: Rule = Rule {
    id: "block_above_mmap_threshold",
    title: "A large block is mapped and unmapped",
    about: "glibc serves blocks of at least `M_MMAP_THRESHOLD` bytes with mmap(2) and gives them back with \
            munmap(2), so each such block faults anew. The threshold is 128 KiB at first and follows the \
            largest freed block up to 32 MiB. Larger blocks always have a mapping of their own. A block of \
            calloc(3) that is used sparsely is better off so: kept, it would be zeroed whole.",
    by_hand: "`strace -e trace=mmap,munmap PROGRAM` shows pairs of equal length, a page longer than the \
              block.",
    cures: &[
        [
            "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296",
            "blocks up to 32 MiB stay in the heap",
            "mallopt(3)",
        ],
        [
            "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4294967296",
            "blocks of any length stay in the heap; a block at its top keeps all below it",
            "mallopt(3)",
        ],
        ["faultless run -- PROGRAM", "keeps at most what `--retain` allows", "this project"],
    ],
    find: |scene| {
        let givers = scene.givers(|giver| {
            giver.owner == Owner::Malloc && matches!(giver.call, Call::Munmap | Call::Mremap)
        });
        let longest = super::longest_bytes(&givers);
        let kept = super::kept_bytes(&givers);
        let what = format!("glibc maps and unmaps each large block (up to {})", Bytes(longest));
        let cures = vec![
            Proposed::set("GLIBC_TUNABLES", malloc_settings(longest), kept),
            Proposed::keeps("faultless run -- CMD", kept),
        ];
        let is_sparse = super::Scene::is_sparse(&givers);
        let (what, cures) = match is_sparse {
            true => (
                format!("{what}, and the program touches little of them: kept ones would be zeroed whole"),
                Vec::new(),
            ),
            false => (what, cures),
        };
        scene.cycle(&givers, what, cures).into_iter().collect()
    },
};
