//! Memory is read before it is written.

use super::{Claim, Faults, Proposed, Rule};
use crate::kind::Kind;

pub(super) const RULE: Rule = Rule {
    id: "read_before_write",
    title: "Memory is read before it is written",
    about: "A read of memory that nobody has written maps the shared zero page. The write that follows \
            faults a second time. A benchmark that only reads such memory measures one page in the cache.",
    by_hand: "`perf record -e page-faults -d` shows two faults on one address.",
    cures: &[["write before the first read, or do not read what is known to be zero", "nothing", "-"]],
    find: |_| {
        let cure =
            Proposed::new("write before the first read, or do not read what is known to be zero", [0.3, 1.0]);
        vec![Claim {
            what: "memory is read before it is written: each read maps the zero page".to_owned(),
            faults: Faults::of_kind(Kind::ZeroPageRead),
            cures: vec![cure],
            ..Claim::default()
        }]
    },
};
