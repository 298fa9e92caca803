//! A Java machine: its heap is touched for the first time, given back, and grown again.

use super::owner::Owner;
use super::runtime::own;
use super::{Claim, Faults, Proposed, Rule};
use crate::kind::Kind;

pub(super) const UNCOMMIT: Rule = Rule {
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
        let what = "the Java machine gives heap back after collections, and grows it again";
        own(scene, Owner::Java, what, |kept| {
            vec![Proposed::keeps("JAVA_TOOL_OPTIONS=-Xms equal to -Xmx", kept)]
        })
    },
};

pub(super) const HEAP: Rule = Rule {
    id: "java_heap_growth",
    title: "The Java heap is touched for the first time",
    about: "A Java machine reserves its heap and touches it as the program allocates: the young generation soon, the rest \
            as it grows from -Xms towards -Xmx. Without huge pages each 4 KiB fault singly, in the threads that allocate \
            or collect.",
    by_hand: "-Xlog:gc+heap, -Xlog:gc+init (huge pages); `perf trace -F all --no-syscalls java ...`",
    cures: &[
        [
            "JAVA_TOOL_OPTIONS=-XX:+UseTransparentHugePages",
            "one fault for 512 pages; up to 2 MiB a region more memory",
            "java(1)",
        ],
        [
            "JAVA_TOOL_OPTIONS='-XX:+AlwaysPreTouch -Xms...', -Xms equal to -Xmx",
            "all of -Xmx resident from the start, and a longer start; no fault later",
            "java(1)",
        ],
    ],
    find: |scene| {
        let is_java = |index: usize| scene.maker(index).is_some_and(|maker| maker.owner == Owner::Java);
        let (these, faults) = scene.faults_of(|index, fault| fault.kind.is_fresh() && is_java(index));
        if faults == 0.0 {
            return Vec::new();
        }
        let (_, huge) = scene.faults_of(|index, fault| fault.kind == Kind::Thp && is_java(index));
        let host = &scene.recording.observation.host;
        let mut cures = Vec::new();
        if 2.0 * huge < faults && host.thp_bytes > 0 && host.thp != "never" {
            let thp = Proposed::set("JAVA_TOOL_OPTIONS", "-XX:+UseTransparentHugePages", 0.0)
                .keeping_nothing()
                .saving([0.0, 0.8]);
            cures.push(thp.noted("one fault for 512 pages, if the kernel finds huge pages without compaction; memory grows where the heap is used sparsely"));
        }
        cures.push(
            Proposed::new("-XX:+AlwaysPreTouch with -Xms equal to -Xmx, in JAVA_TOOL_OPTIONS", [0.0, 0.3])
                .noted("moves the time to the start, and touches all of -Xmx"),
        );
        vec![Claim {
            what: "the Java heap is touched for the first time, as it grows".to_owned(),
            early: Some("start: the Java heap is touched for the first time; nothing to cure".to_owned()),
            faults: Faults::These(these),
            cures,
            ..Claim::default()
        }]
    },
};
