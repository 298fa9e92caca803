//! V8: the pages of its own heap, and the Buffers beside it.

use super::owner::Owner;
use super::runtime::own;
use super::{Proposed, Rule, malloc_settings};

/// Functions that make and free what lies behind a Buffer.
const BUFFERS: [&str; 3] = ["BackingStore", "ArrayBuffer", "node::Buffer"];

pub(super) const HEAP: Rule = Rule {
    id: "v8_heap",
    title: "V8's heap shrinks and grows",
    about: "V8 allocates young objects in semi-spaces, and gives pages of its heap back after collections. Small \
            semi-spaces are collected often, and what survives is copied into fresh pages.",
    by_hand: "`node --trace-gc`; `strace -f -e trace=munmap,madvise node ...`",
    cures: &[[
        "NODE_OPTIONS=--max-semi-space-size=64",
        "MiB for each of three semi-spaces; fewer collections",
        "node(1)",
    ]],
    find: |scene| {
        let what = "V8 unmaps pages of its heap after collections, and maps new ones";
        own(scene, Owner::V8, what, |kept| {
            let note = "it changes how often V8 collects";
            vec![
                Proposed::set("NODE_OPTIONS", "--max-semi-space-size=64", kept)
                    .saving([0.1, 1.0])
                    .noted(note),
            ]
        })
    },
};

pub(super) const BUFFERS_RULE: Rule = Rule {
    id: "v8_buffers",
    title: "Buffers of Node",
    about: "A Buffer above half of `Buffer.poolSize` (8 KiB) has a block of malloc of its own, zeroed unless it is \
            `allocUnsafe`. The collector frees it some time later, so many are alive at once, and above the mmap \
            threshold each is mapped and unmapped.",
    by_hand: "`perf trace -F all --no-syscalls node ...`: faults in `node::Buffer`; `strace -k -e trace=munmap`.",
    cures: &[
        ["use one Buffer again", "that Buffer", "nodejs.org, Buffer"],
        [
            "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296",
            "blocks up to 32 MiB stay in the heap",
            "mallopt(3)",
        ],
    ],
    find: |scene| {
        let givers =
            scene.givers(|giver| giver.owner == Owner::Malloc && scene.passes(giver.stack, "", &BUFFERS));
        let longest = super::longest_bytes(&givers);
        let kept = super::kept_bytes(&givers);
        let cures = vec![
            Proposed::set("GLIBC_TUNABLES", malloc_settings(longest), kept),
            Proposed::keeps("use one Buffer again", kept),
        ];
        let what = "the memory of Buffers is freed after a collection, and new ones take it again".to_owned();
        scene.cycle(&givers, what, cures).into_iter().collect()
    },
};
