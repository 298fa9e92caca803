//! Memory that the process never had before.

use super::{Claim, Faults, Rule};

pub(super) const RULE: Rule = Rule {
    id: "first_touch",
    title: "First touch",
    about: "The process touches memory that it never had. No kept memory serves it. If it ends early, it is \
            the start of the program.",
    by_hand: "`perf stat -I 100 -e page-faults PROGRAM`",
    cures: &[
        [
            "huge pages: GLIBC_TUNABLES=glibc.malloc.hugetlb=1, MADV_HUGEPAGE",
            "one fault for 512 pages; memory that is used sparsely grows",
            "glibc 2.35, mallopt(3)",
        ],
        ["populate where later latency matters", "moves the time to the start", "madvise(2), Linux 5.14"],
    ],
    find: |scene| {
        let what = "memory that the process did not have before is touched for the first time";
        let claim = Claim {
            what: what.to_owned(),
            early: Some(
                "start: memory is touched for the first time, and hardly any later; nothing to cure, unless huge pages fit"
                    .to_owned(),
            ),
            faults: Faults::Of(Box::new(|fault| fault.kind.is_fresh())),
            ..Claim::default()
        };
        // Without the calls it may have been there before.
        if scene.given.is_known { vec![claim] } else { Vec::new() }
    },
};
