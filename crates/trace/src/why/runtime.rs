//! A runtime with a heap of its own gives memory back: Go's scavenger, a Java machine, V8, CPython's arenas.

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
            |kept| vec![Proposed::set("GODEBUG", "madvdontneed=0", kept).noted(note)],
        )
    },
};

pub(super) const JAVA: Rule = Rule {
    id: "java_uncommit",
    title: "A Java machine uncommits",
    about: "G1, ZGC and Shenandoah give free heap back after collections, and grow it again when the \
            program allocates.",
    by_hand: "-Xlog:gc+heap",
    cures: &[
        ["-Xms equal to -Xmx, in JAVA_TOOL_OPTIONS", "the largest heap, always", "java(1)"],
        ["-XX:-ZUncommit", "as ZGC's largest heap", "JEP 351, JDK 13"],
        ["-XX:+UseTransparentHugePages", "one fault for 512 pages", "java(1)"],
    ],
    find: |scene| {
        own(
            scene,
            Owner::Java,
            "the Java machine gives heap back after collections, and grows it again",
            |kept| vec![Proposed::keeps("JAVA_TOOL_OPTIONS=-Xms equal to -Xmx", kept)],
        )
    },
};

pub(super) const OTHERS: Rule = Rule {
    id: "runtime_arenas",
    title: "A runtime unmaps its arenas",
    about: "CPython unmaps arenas of small objects when they are empty (256 KiB each, 1 MiB since 3.10). V8 \
            gives pages of its heap back after collections.",
    by_hand: "`strace -f -e trace=munmap,madvise PROGRAM`",
    cures: &[
        ["PYTHONMALLOC=malloc", "malloc keeps small objects; a little slower each", "CPython, using/cmdline"],
        [
            "NODE_OPTIONS=--max-semi-space-size=64",
            "MiB for each of three semi-spaces; fewer collections",
            "node(1)",
        ],
    ],
    find: |scene| {
        let python = own(scene, Owner::Python, "CPython maps and unmaps arenas of small objects", |kept| {
            vec![Proposed::set("PYTHONMALLOC", "malloc", kept)]
        });
        let v8 = own(
            scene,
            Owner::V8,
            "V8 unmaps pages of its heap after collections, and maps new ones",
            |kept| vec![Proposed::set("NODE_OPTIONS", "--max-semi-space-size=64", kept)],
        );
        python.into_iter().chain(v8).collect()
    },
};

fn own(
    scene: &Scene<'_>,
    owner: Owner,
    what: &str,
    cures: impl Fn(f64) -> Vec<Proposed>,
) -> Vec<Claim<'static>> {
    let givers = scene.givers(|giver| giver.owner == owner);
    let kept = givers.iter().map(|(_, giver)| giver.kept_bytes).sum();
    scene.cycle(&givers, what.to_owned(), cures(kept)).into_iter().collect()
}
