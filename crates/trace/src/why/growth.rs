//! A buffer grows by copies: each step maps a longer block, fills it, and gives the old one back.

use super::owner::Owner;
use super::{Caller, Claim, Faults, Proposed, Rule, malloc_settings};

use crate::measurement::Bytes;
use crate::observation::Call;

/// Steps that make a growth.
const STEPS: u64 = 3;

pub(super) const RULE: Rule = Rule {
    id: "growth_by_copy",
    title: "A buffer grows by copies",
    about: "A vector that is full asks for a block one and a half or two times as long, copies, and frees the old one. \
            Above the mmap threshold each step maps fresh memory, so a buffer of n bytes faults up to 2n bytes. \
            glibc's realloc(3) moves the pages of such a block instead (mremap(2)); operator new can't, and other \
            allocators often don't.",
    by_hand: "`strace -k -e trace=mmap,munmap,mremap PROGRAM`: lengths of munmap that rise by one factor.",
    cures: &[
        ["reserve the final length, or a bound of it", "the bound", "-"],
        ["realloc(3) of glibc, or mremap(2)", "nothing", "mremap(2)"],
        [
            "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296",
            "the old blocks stay in the heap",
            "mallopt(3)",
        ],
    ],
    find: |scene| {
        let grows = |giver: &Caller| {
            matches!(giver.owner, Owner::Malloc | Owner::Program | Owner::Own | Owner::Allocator(..))
                && giver.call == Call::Munmap
                && giver.steps >= STEPS
                && 3 * giver.steps >= giver.calls
        };
        let claim = |giver: &(u32, &Caller)| {
            let (number, Caller { owner, site, longest_bytes, kept_bytes, .. }) = giver;
            // The longer blocks as well, which the copies are made to.
            let made = |index: usize| {
                scene.maker(index).is_some_and(|maker| maker.owner == *owner && maker.site == *site)
            };
            let (these, _) = scene.faults_of(|index, fault| {
                scene.given.causes[index] == Some(*number) || fault.kind.is_fresh() && made(index)
            });
            let what = format!(
                "a buffer grows by copies into new mappings (the last old one: {})",
                Bytes(*longest_bytes)
            );
            let mut cures = vec![Proposed::new("reserve the final length", [0.3, 0.6])];
            if *owner == Owner::Malloc {
                let value = malloc_settings(2 * longest_bytes);
                let set = Proposed::set("GLIBC_TUNABLES", value, *kept_bytes);
                cures.insert(0, set.saving([0.4, 0.9]));
            }
            let claim = scene.cycle(std::slice::from_ref(giver), what, cures)?;
            Some(Claim { faults: Faults::These(these), ..claim })
        };
        scene.givers(grows).iter().filter_map(claim).collect()
    },
};
