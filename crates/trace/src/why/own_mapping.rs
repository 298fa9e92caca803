//! The program, or a library without an allocator, maps, advises and unmaps for itself.

use super::owner::Owner;
use super::{Proposed, Rule};
use crate::observation::Call;

pub(super) const RULE: Rule = Rule {
    id: "own_mapping",
    title: "The program maps for itself",
    about: "Code calls mmap and munmap, or madvise(MADV_DONTNEED), for each piece of work, so every round \
            faults anew. No setting of malloc acts, and no interposer of malloc alone.",
    by_hand: "`strace -k -e trace=mmap,munmap,madvise PROGRAM` shows who calls.",
    cures: &[
        ["keep the mapping and use it again", "the largest piece of work", "-"],
        [
            "faultless run --mappings=recycle -- PROGRAM",
            "what `--retain` allows; for mmap by the C function, below 32 MiB",
            "this project",
        ],
        ["MADV_FREE instead of MADV_DONTNEED", "resident until the kernel wants it", "madvise(2), Linux 4.5"],
    ],
    find: |scene| {
        // Each caller is a place to change.
        let givers = scene.givers(|giver| matches!(giver.owner, Owner::Program | Owner::Own | Owner::Loader));
        let claim = |giver: &(u32, &super::Giver)| {
            let what = match giver.1.call {
                _ if giver.1.owner == Owner::Own => {
                    "the program's own malloc gives memory back and takes it again"
                }
                Call::Madvise => "the program gives memory back with madvise and takes it again",
                _ => "the program maps and unmaps memory for each piece of work",
            };
            let cure = Proposed::keeps("keep the mapping and use it again", giver.1.kept_bytes);
            scene.cycle(std::slice::from_ref(giver), what.to_owned(), vec![cure])
        };
        givers.iter().filter_map(claim).collect()
    },
};
