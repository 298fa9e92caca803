//! A runtime with a heap of its own gives memory back: Go's scavenger, CPython's arenas, the collector of .NET.

use super::owner::Owner;
use super::{Claim, Proposed, Rule, Scene};

pub(super) const GO: Rule = Rule {
    id: "go_scavenger",
    title: "Go's scavenger",
    about: "Go's scavenger gives free spans back in the background, and before the heap would pass \
            GOMEMLIMIT, with MADV_DONTNEED. The next cycle takes them again.",
    by_hand: "GODEBUG=scavtrace=1, or gctrace=1",
    cures: &[
        [
            "GODEBUG=madvdontneed=0",
            "MADV_FREE: resident until the kernel wants it",
            "pkg.go.dev/runtime, Go 1.16",
        ],
        ["GOGC=200 or more; GOMEMLIMIT", "a larger heap, fewer collections", "pkg.go.dev/runtime, Go 1.19"],
    ],
    find: |scene| {
        let note = "the memory shows as resident until the kernel wants it";
        own(
            scene,
            Owner::Go,
            "Go's scavenger gives free spans back, and the next collection cycle takes them again",
            |kept| vec![Proposed::set("GODEBUG", "madvdontneed=0", kept).saving([0.45, 0.95]).noted(note)],
        )
    },
};

pub(super) const PYTHON: Rule = Rule {
    id: "pymalloc_arenas",
    title: "CPython unmaps its arenas",
    about: "CPython unmaps arenas of small objects when they are empty (256 KiB each, 1 MiB since 3.10). A program that \
            makes and drops many objects maps them anew each time.",
    by_hand: "`strace -f -e trace=munmap python3 ...`: ranges of 1 MiB",
    cures: &[[
        "PYTHONMALLOC=malloc",
        "malloc keeps small objects, and is slower for each: a loss where they are many",
        "CPython, using/cmdline",
    ]],
    find: |scene| {
        own(scene, Owner::Python, "CPython maps and unmaps arenas of small objects", |kept| {
            let note = "no faults by arenas, but malloc is slower for small objects: try it";
            vec![Proposed::set("PYTHONMALLOC", "malloc", kept).saving_unknown().noted(note)]
        })
    },
};

pub(super) const DOTNET: Rule = Rule {
    id: "dotnet_decommit",
    title: "The collector of .NET decommits",
    about: "The collector of .NET gives free regions back after collections, and commits them again.",
    by_hand: "`strace -f -e trace=madvise,munmap dotnet ...`; dotnet-counters, GC committed",
    cures: &[["DOTNET_GCRetainVM=1", "free regions stay for later ones", "learn.microsoft.com, GC settings"]],
    find: |scene| {
        own(
            scene,
            Owner::DotNet,
            "the collector of .NET gives regions back, and commits them again",
            |kept| vec![Proposed::set("DOTNET_GCRetainVM", "1", kept)],
        )
    },
};

/// The memory that a runtime gave back.
pub(super) fn own(
    scene: &Scene<'_>,
    owner: Owner,
    what: &str,
    cures: impl Fn(f64) -> Vec<Proposed>,
) -> Vec<Claim<'static>> {
    let givers = scene.givers(|giver| giver.owner == owner);
    let kept = super::kept_bytes(&givers);
    scene.cycle(&givers, what.to_owned(), cures(kept)).into_iter().collect()
}
