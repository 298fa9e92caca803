//! A runtime with a heap of its own gives memory back: Go's scavenger, a Java machine, V8, CPython's arenas.

use super::owner::Owner;
use super::{Claim, Proposed, Rule, Scene};

pub(super) const GO: Rule = Rule {
    id: "go_scavenger",
    about: "Go's scavenger returns free spans in the background, and before the heap would pass GOMEMLIMIT, with \
            MADV_DONTNEED; the next allocation faults. GODEBUG=madvdontneed=0 uses MADV_FREE, which the kernel honours only \
            under pressure. A higher GOGC, or GOMEMLIMIT, collects less often (pkg.go.dev/runtime). \
            By hand: GODEBUG=scavtrace=1.",
    find: |scene| {
        let note = "the memory shows as resident until the kernel wants it";
        own(scene, Owner::Go, "Go's scavenger gives free spans back, and the next collection cycle takes them again", |kept| {
            vec![Proposed::keeps("GODEBUG=madvdontneed=0".to_owned(), kept).noted(note)]
        })
    },
};

pub(super) const JAVA: Rule = Rule {
    id: "java_uncommit",
    about: "G1, ZGC and Shenandoah uncommit free heap after collections, and grow it again. A start size equal to the \
            largest size (-Xms = -Xmx) never shrinks; ZGC has -XX:-ZUncommit. By hand: -Xlog:gc+heap.",
    find: |scene| {
        own(scene, Owner::Java, "the Java machine gives heap back after collections, and grows it again", |kept| {
            vec![Proposed::keeps("JAVA_TOOL_OPTIONS=-Xms equal to -Xmx".to_owned(), kept)]
        })
    },
};

pub(super) const OTHERS: Rule = Rule {
    id: "runtime_arenas",
    about: "CPython frees arenas of 256 KiB (1 MiB since 3.10) when they are empty; V8 discards pages of its young \
            generation. PYTHONMALLOC=malloc lets malloc keep small objects; node --max-semi-space-size makes collections rarer.",
    find: |scene| {
        let python = own(scene, Owner::Python, "CPython maps and unmaps arenas of small objects", |kept| {
            vec![Proposed::keeps("PYTHONMALLOC=malloc".to_owned(), kept)]
        });
        let v8 = own(scene, Owner::V8, "V8 unmaps pages of its heap after collections, and maps new ones", |kept| {
            vec![Proposed { saves: [0.3, 1.0], ..Proposed::keeps("NODE_OPTIONS=--max-semi-space-size=64".to_owned(), kept) }]
        });
        python.into_iter().chain(v8).collect()
    },
};

fn own(scene: &Scene<'_>, owner: Owner, what: &str, cures: impl Fn(f64) -> Vec<Proposed>) -> Vec<Claim> {
    let givers = scene.givers(|giver| giver.owner == owner);
    let kept = givers.iter().map(|(_, giver)| giver.kept_bytes).sum();
    scene.cycle(&givers, what.to_owned(), cures(kept)).into_iter().collect()
}
