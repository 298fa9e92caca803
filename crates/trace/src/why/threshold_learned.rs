//! The first large block that is freed raises glibc's mmap threshold: those that follow stay in the heap.

use super::owner::Owner;
use super::{Claim, Faults, Proposed, Rule};
use crate::measurement::Bytes;
use crate::observation::Call;

/// The largest threshold that glibc adapts to, bytes (DEFAULT_MMAP_THRESHOLD_MAX; mallopt(3)), and what is added to a block.
const LEARNED_BYTES: u64 = (32 << 20) + (64 << 10);
/// Steps of learning: each block is longer than all before.
const CALLS: u64 = 16;

pub(super) const RULE: Rule = Rule {
    id: "threshold_learned",
    title: "malloc learns its threshold",
    about: "glibc raises its mmap threshold to the length of each mapped block that is freed, up to 32 MiB. So the first \
            round of work maps and unmaps its blocks, and later rounds take them from the heap. Of two benchmarks in one \
            process the first trains malloc for the second, and is the slower one for that.",
    by_hand: "`strace -r -e trace=mmap,munmap,brk PROGRAM`: a few munmap at the start, none later. Swap the benchmarks.",
    cures: &[
        [
            "run each benchmark in a process of its own, or warm up until no munmap follows",
            "nothing",
            "mallopt(3)",
        ],
        [
            "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296",
            "the same threshold from the start",
            "mallopt(3)",
        ],
    ],
    find: |scene| {
        let givers = scene.givers(|giver| {
            let half_ns = scene.run.run_ns.0 + scene.run.run_ns.1 / 2;
            giver.owner == Owner::Malloc && giver.call == Call::Munmap && giver.last_ns < half_ns
        });
        let longest = super::longest_bytes(&givers);
        let calls: u64 = givers.iter().map(|(_, giver)| giver.calls).sum();
        let others = scene.givers(|giver| giver.owner == Owner::Malloc && giver.call == Call::Munmap).len();
        if scene.run.lost
            || givers.is_empty()
            || others > givers.len()
            || calls > CALLS
            || longest > LEARNED_BYTES
        {
            return Vec::new();
        }
        let what = format!(
            "glibc learns: its first free of a mapped block (up to {}) raises the mmap threshold, and later blocks stay in the heap",
            Bytes(longest)
        );
        // The blocks that it learned from as well.
        let mapped = |index: usize| {
            scene.maker(index).is_some_and(|maker| {
                maker.owner == Owner::Malloc && maker.call == Call::Mmap && !maker.is_arena()
            })
        };
        let (these, _) = scene.faults_of(|index, fault| {
            let giver = scene.given.causes[index];
            giver.is_some_and(|giver| givers.iter().any(|(number, _)| *number == giver))
                || fault.kind.is_fresh() && mapped(index)
        });
        vec![Claim {
            what,
            faults: Faults::These(these),
            caller: givers.first().map(|(_, giver)| scene.caller(giver)),
            givers: givers.iter().map(|(number, _)| *number).collect(),
            cures: vec![
                Proposed::set("GLIBC_TUNABLES", super::malloc_settings(longest), super::kept_bytes(&givers))
                    .saving([0.4, 1.0])
                    .noted("once: all later rounds are as fast without it"),
            ],
            ..Claim::default()
        }]
    },
};
