//! Memory that the process never had before.

use super::{Claim, Faults, Rule, Scene};

pub(super) const RULE: Rule = Rule {
    id: "first_touch",
    about: "The first touch of memory that the process never had. No kept memory serves it. Huge pages take one fault for \
            512 pages; populating moves the time. If it ends early, it is the start of the program, and nothing to cure.",
    find: |scene: &Scene<'_>| {
        let what = if scene.given.is_known {
            "memory that the process did not have before is touched for the first time"
        } else {
            "memory is touched for the first time, or again: who gave it back was not recorded"
        };
        vec![Claim { what: what.to_owned(), faults: Faults::Fresh, ..Claim::default() }]
    },
};
