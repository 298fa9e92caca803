//! An allocator other than the C library's gives memory back after a decay, or at once.

use std::collections::BTreeMap;

use super::owner::Owner;
use super::{Caller, Claim, Proposed, Rule, Scene};
use crate::observation::Call;

pub(super) const RULE: Rule = Rule {
    id: "allocator_purge",
    title: "An allocator purges",
    about: "jemalloc purges freed pages after `dirty_decay_ms`, mimalloc after `purge_delay`, tcmalloc at \
            its release rate. What is purged too early faults again. Programs that link jemalloc often set \
            a decay of 0 or 1 s.",
    by_hand: "`strace -f -e trace=madvise,munmap PROGRAM`; MALLOC_CONF=stats_print:true for jemalloc, \
              MIMALLOC_SHOW_STATS=1 for mimalloc.",
    cures: &[
        [
            "MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1",
            "what is freed stays; the name has a prefix where the program built jemalloc with one \
          (_RJEM_MALLOC_CONF in Rust)",
            "jemalloc 5, TUNING.md",
        ],
        [
            "MALLOC_CONF=dirty_decay_ms:10000,muzzy_decay_ms:10000",
            "what is freed stays for up to 10 s; where all is freed at once it is purged all the same",
            "jemalloc 5, TUNING.md; measured",
        ],
        [
            "MIMALLOC_PURGE_DELAY=10000, before 2.1 MIMALLOC_DECOMMIT_DELAY",
            "the same, ms",
            "mimalloc, readme and options.c",
        ],
        ["TCMALLOC_RELEASE_RATE=0", "never gives back", "gperftools, docs/tcmalloc.html"],
    ],
    find: |scene| {
        let mut by_allocator: BTreeMap<&str, Vec<(u32, &Caller)>> = BTreeMap::new();
        for (number, giver) in scene.givers(|giver| !giver.is_oversize()) {
            if let Owner::Allocator(name, _) = giver.owner {
                by_allocator.entry(name).or_default().push((number, giver));
            }
        }
        by_allocator.into_iter().filter_map(|(name, givers)| claim(scene, name, &givers)).collect()
    },
};

/// The variable that holds jemalloc's settings: its name depends on the prefix with which it was built.
pub(super) fn jemalloc_variable(scene: &Scene<'_>, givers: &[(u32, &Caller)]) -> String {
    let is_rust = givers.iter().any(|(_, giver)| giver.owner == Owner::Allocator("jemalloc", "_rjem_"));
    let usual = if is_rust { "_RJEM_MALLOC_CONF" } else { "MALLOC_CONF" };
    scene.variable("jemalloc").unwrap_or(usual).to_owned()
}

/// The variable that delays mimalloc's purges.
pub(super) fn mimalloc_variable<'a>(scene: &'a Scene<'_>) -> &'a str {
    scene.variable("mimalloc").unwrap_or("MIMALLOC_PURGE_DELAY")
}

fn claim(scene: &Scene<'_>, name: &str, givers: &[(u32, &Caller)]) -> Option<Claim<'static>> {
    let kept = super::kept_bytes(givers);
    // What an allocator unmaps at once has no delay.
    let is_delayed = givers.iter().any(|(_, giver)| giver.call == Call::Madvise);
    const KEEPS: &str = "dirty_decay_ms:-1,muzzy_decay_ms:-1";
    let cure = match name {
        _ if !is_delayed => {
            Proposed::keeps("keep such blocks in the program: the allocator unmaps them at once", kept)
        }
        "jemalloc" => Proposed::set(&jemalloc_variable(scene, givers), KEEPS, kept),
        "mimalloc" => Proposed::set(mimalloc_variable(scene), "10000", kept),
        "tcmalloc" => Proposed::set("TCMALLOC_RELEASE_RATE", "0", kept),
        _ => Proposed::keeps("a longer delay in the allocator's settings", kept),
    };
    let what = format!("{name} purges freed pages, and takes them again");
    let note = match name {
        "jemalloc" => "keeps what is freed for ever; a decay of 10000 keeps it for 10 s, or less",
        _ => "keeps what is freed for longer",
    };
    let cure = if is_delayed { cure.noted(note) } else { cure };
    scene.cycle(givers, what, vec![cure])
}
