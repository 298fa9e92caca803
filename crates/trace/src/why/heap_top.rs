//! glibc gives the top of the heap back when a block at the top is freed.

use super::owner::Owner;
use super::{Proposed, Rule, Scene};
use crate::cure::tunables;
use crate::observation::Call;

pub(super) const RULE: Rule = Rule {
    id: "heap_top_trimmed",
    about: "When `free` leaves more than `M_TRIM_THRESHOLD` bytes free at the top of the heap, glibc gives them back with \
            brk(2), and the next allocation takes the same pages again. The threshold is 128 KiB at first, and twice the \
            largest freed block that had a mapping of its own (mallopt(3)). \
            By hand: `strace -e brk`, a sawtooth. Setting one threshold stops the other from adapting, so both are needed.",
    find: |scene: &Scene<'_>| {
        let givers = scene.givers(|giver| giver.call == Call::Brk && giver.owner == Owner::Malloc);
        let kept = givers.iter().map(|(_, giver)| giver.kept_bytes).sum();
        let cure = Proposed::keeps(tunables(scene.largest_block()), kept)
            .noted("both settings together; one alone is worse");
        let what = "glibc trims the top of the heap, and takes the same pages again".to_owned();
        scene.cycle(&givers, what, vec![cure]).into_iter().collect()
    },
};
