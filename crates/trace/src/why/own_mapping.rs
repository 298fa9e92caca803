//! The program, or a library without an allocator, maps, advises and unmaps for itself.

use super::cures::NO_HUGE_PAGES;
use super::owner::Owner;
use super::{Proposed, Rule, Scene};
use crate::kind::Kind;
use crate::observation::Call;

/// Whether most of what a giver's memory costs is huge pages.
fn is_huge(scene: &Scene<'_>, giver: u32) -> bool {
    let cost_ns = |is: fn(Kind) -> bool| -> f64 {
        let faults = scene.profile.faults.iter().zip(&scene.given.causes);
        let its = faults.filter(|(fault, cause)| **cause == Some(giver) && is(fault.kind));
        its.map(|(fault, _)| fault.cost_ns).sum()
    };
    2.0 * cost_ns(|kind| kind == Kind::Thp) > cost_ns(|_| true)
}

/// `faultless run --mappings=recycle` serves shorter mappings, bytes.
const RECYCLED_BELOW_BYTES: u64 = 32 << 20;

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
        let claim = |giver: &(u32, &super::Caller)| {
            let what = match giver.1.call {
                _ if giver.1.owner == Owner::Own => {
                    "the program's own malloc gives memory back and takes it again"
                }
                Call::Madvise => "the program gives memory back with madvise and takes it again",
                _ => "the program maps and unmaps memory for each piece of work",
            };
            let keep = |how| Proposed::keeps(how, giver.1.kept_bytes);
            let recycle = || keep("faultless run --mappings=recycle -- CMD");
            let is_whole = giver.1.call == Call::Munmap
                && giver.1.owner == Owner::Program
                && giver.1.longest_bytes < RECYCLED_BELOW_BYTES;
            let mut cures = vec![keep("keep the mapping and use it again")];
            cures.extend(is_whole.then(recycle));
            cures.extend(is_huge(scene, giver.0).then(|| {
                Proposed::new(NO_HUGE_PAGES, [0.0, 1.0])
                    .noted("a gain only where the huge pages are used sparsely")
            }));
            scene.cycle(std::slice::from_ref(giver), what.to_owned(), cures)
        };
        givers.iter().filter_map(claim).collect()
    },
};
