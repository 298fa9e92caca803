//! glibc gives the top of the heap back when a block at the top is freed.

use super::owner::Owner;
use super::{Proposed, Rule, malloc_settings};
use crate::observation::Call;

pub(super) const RULE: Rule = Rule {
    id: "heap_top_trimmed",
    title: "The top of the heap is trimmed",
    about: "When `free` leaves more than `M_TRIM_THRESHOLD` bytes free at the top of the heap, glibc gives \
            them back with brk(2). The next allocation extends the heap and faults the same pages in again. \
            The threshold is 128 KiB at first; each freed block that had a mapping of its own raises it to \
            twice that block's length.",
    by_hand: "`strace -e trace=brk PROGRAM` shows a sawtooth: the argument rises and falls by the same \
              amount. `perf record -e page-faults -g` shows first writes to `[heap]`.",
    cures: &[
        [
            "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296",
            "what the heap has had at most; both together, because setting one stops the other from adapting",
            "mallopt(3), glibc 2.26",
        ],
        [
            "mallopt(M_TRIM_THRESHOLD, ...) and mallopt(M_MMAP_THRESHOLD, ...)",
            "the same, in the program",
            "mallopt(3)",
        ],
        ["faultless run -- PROGRAM, or another allocator", "for blocks from 64 KiB on", "this project"],
    ],
    find: |scene| {
        let givers = scene.givers(|giver| giver.call == Call::Brk && giver.owner == Owner::Malloc);
        let kept = super::kept_bytes(&givers);
        let cure = Proposed::set("GLIBC_TUNABLES", malloc_settings(scene.largest_block()), kept)
            .noted("both settings together; one alone is worse");
        let what = "glibc trims the top of the heap, and takes the same pages again".to_owned();
        scene.cycle(&givers, what, vec![cure]).into_iter().collect()
    },
};
