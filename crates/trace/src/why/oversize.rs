//! An allocator gives blocks above a length of its own back at once, whatever its decay is.

use super::owner::Owner;
use super::{Caller, Proposed, Rule};
use crate::measurement::Bytes;
use crate::observation::Call;

/// With a finite decay jemalloc 5.3 purges what exceeds a limit that it learns from pages that it did not purge: none, if all
/// that the program frees is such blocks (measured: decays of 10 and 100 s change nothing there).
const JEMALLOC_KEEPS: &str = "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1";

pub(super) const RULE: Rule = Rule {
    id: "oversize_blocks",
    title: "Blocks above an allocator's largest class",
    about: "jemalloc takes blocks of 8 MiB and more from an arena of their own and purges them when they are freed, \
            whatever `dirty_decay_ms` is (`oversize_threshold`). mimalloc gives blocks above its largest segment \
            a mapping of their own.",
    by_hand: "`strace -k -e trace=madvise,munmap PROGRAM`: ranges of 8 MiB and more, one for each free.",
    cures: &[
        [
            "MALLOC_CONF=oversize_threshold:0,dirty_decay_ms:-1",
            "all that was freed; a decay of 10000 keeps less, and nothing where such blocks are all that is freed. \
             The name has the prefix with which jemalloc was built",
            "jemalloc(3), 5.2; measured",
        ],
        ["keep such blocks in the program", "the largest of them", "-"],
        [
            "faultless run -- PROGRAM, where the allocator is the program's malloc",
            "what `--retain` allows",
            "this project",
        ],
    ],
    find: |scene| {
        let is_its = |giver: &Caller| {
            giver.is_oversize() && matches!(giver.call, Call::Madvise | Call::Munmap | Call::Mmap)
        };
        let mut found = Vec::new();
        for name in crate::heaps::ALLOCATORS {
            let givers = scene.givers(|giver| {
                is_its(giver) && matches!(giver.owner, Owner::Allocator(of, _) if of == name)
            });
            let longest = super::longest_bytes(&givers);
            let kept = super::kept_bytes(&givers);
            let what =
                format!("{name} gives each large block (up to {}) back when it is freed", Bytes(longest));
            let keep = Proposed::keeps("keep such blocks in the program", kept);
            let cures = match name {
                "jemalloc" => {
                    let variable = super::purge::jemalloc_variable(scene, &givers);
                    let set = Proposed::set(&variable, JEMALLOC_KEEPS, kept);
                    vec![
                        set.noted("keeps all that is freed for ever; with a decay of 10000 less, or nothing"),
                        keep,
                    ]
                }
                "mimalloc" if givers.iter().any(|(_, giver)| giver.call == Call::Madvise) => {
                    vec![Proposed::set(super::purge::mimalloc_variable(scene), "10000", kept), keep]
                }
                _ => vec![keep],
            };
            found.extend(scene.cycle(&givers, what, cures));
        }
        found
    },
};
