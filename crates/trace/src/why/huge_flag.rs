//! A request for huge pages on a block of the heap outlives the block.

use super::cures::NO_HUGE_PAGES;
use super::{Claim, Faults, Proposed, Rule, numpy};
use crate::kind::Kind;
use crate::measurement::{Bytes, Count};

/// Huge pages that are worth a word.
const FAULTS: f64 = 4.0;

pub(super) const RULE: Rule = Rule {
    id: "huge_page_flag_outlives_block",
    title: "A request for huge pages outlives its block",
    about: "madvise(MADV_HUGEPAGE) marks addresses, not a block. If malloc takes the block from its heap, the mark stays \
            after `free`, and whoever gets that memory next touches 2 MiB with each first touch. Sparse tables then take \
            many times the memory. A block with a mapping of its own takes the mark along when it is unmapped.",
    by_hand: "`strace -k -e trace=madvise PROGRAM`; VmFlags `hg` and AnonHugePages of `[heap]` in /proc/PID/smaps.",
    cures: &[
        ["madvise(MADV_NOHUGEPAGE) on the range before free", "base pages for the next owner", "madvise(2)"],
        ["mmap(2) for blocks that get the advice", "a mapping each", "-"],
        [
            "NUMPY_MADVISE_HUGEPAGE=0, where NumPy asks",
            "base pages for its arrays",
            "numpy.org, global state",
        ],
    ],
    find: |scene| {
        let mut found = Vec::new();
        for (number, adviser) in (0..).zip(&scene.given.advisers) {
            let of_block = |block: u32| {
                // A block that was born after the advice did not ask for it.
                let block = scene.profile.blocks.blocks.get(block as usize);
                block.is_some_and(|block| block.born_ns > adviser.last_ns)
            };
            let is_numpy = scene.passes(adviser.stack, numpy::FILE, &[]);
            let (these, faults) = scene.faults_of(|index, fault| {
                fault.kind == Kind::Thp
                    && scene.given.advised_by[index] == Some(number)
                    && scene.maker(index).is_some_and(|maker| maker.is_heap())
                    && fault.block.map_or(scene.profile.blocks.blocks.is_empty(), of_block)
                    && scene.naming.site(fault.stack, "").0 != adviser.site
                    // NumPy asks for each of its arrays anew.
                    && !(is_numpy && scene.passes(fault.stack, numpy::FILE, &[]))
            });
            if faults < FAULTS {
                continue;
            }
            let bytes = faults * scene.recording.observation.host.thp_bytes as f64;
            let what = format!(
                "huge pages by advice on the heap, which outlives its block: {} took {}",
                Count(faults.round() as u64).of("fault"),
                Bytes(bytes as u64)
            );
            found.push(Claim {
                what,
                faults: Faults::These(these),
                calls: (adviser.calls, adviser.ns as f64),
                caller: Some(scene.caller(adviser)),
                cures: vec![
                    Proposed::new(
                        "madvise(MADV_NOHUGEPAGE) on the range before free, or mmap for such blocks",
                        [0.0, 0.5],
                    )
                    .noted("memory falls to what is touched, and the faults become more and shorter"),
                    Proposed::new(NO_HUGE_PAGES, [0.0, 0.5]).noted("the same for all memory of the program"),
                ],
                ..Claim::default()
            });
        }
        found
    },
};
