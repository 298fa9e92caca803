//! Memory is populated: what that costs, and why it faults all the same.

use std::collections::HashMap;

use super::given::Fate;
use super::{Caller, Claim, Faults, Proposed, Rule};
use crate::kind::Kind;
use crate::measurement::{Bytes, Count};

pub(super) const RULE: Rule = Rule {
    id: "populate",
    title: "Memory is populated",
    about: "MAP_POPULATE, MAP_LOCKED and MADV_POPULATE_WRITE fault pages inside the call: no fault is counted, and the \
            time is the call's. It is lost if the memory is given back before it is used. Nothing is populated where the \
            memory can't be accessed yet (PROT_NONE, then mprotect), or with MAP_NONBLOCK. Memory that can only be read \
            gets the zero page, so each write faults. mmap(2) does not tell.",
    by_hand: "`strace -T -k -e trace=mmap,madvise,mprotect,munmap PROGRAM`; mincore(2) after the call.",
    cures: &[
        [
            "madvise(MADV_POPULATE_WRITE) after mprotect, and look at its result",
            "nothing",
            "madvise(2), Linux 5.14",
        ],
        ["keep the populated mapping and use it again", "the mapping", "-"],
        ["no populate, where the memory is used sparsely or later", "faults where it is used", "-"],
    ],
    find: |scene| {
        let mut fates: HashMap<(u32, Fate), Vec<usize>> = HashMap::new();
        for (index, fault) in scene.profile.faults.iter().enumerate() {
            let is_its = fault.kind.is_fresh() || fault.kind == Kind::ZeroPageRead;
            if let Some(of) = scene.given.populated[index].filter(|_| is_its) {
                fates.entry(of).or_default().push(index);
            }
        }
        let mut found = Vec::new();
        for (number, caller) in (0..).zip(&scene.given.populaters) {
            let most = fates
                .iter()
                .filter(|((of, _), _)| *of == number)
                .max_by_key(|((_, fate), of)| (of.len(), *fate));
            let mut these = vec![false; scene.profile.faults.len()];
            let own = fates.iter().filter(|((of, _), _)| *of == number);
            own.flat_map(|(_, of)| of).for_each(|&index| these[index] = true);
            let (what, cure) = told(caller, most.map(|((_, fate), _)| *fate));
            found.push(Claim {
                what,
                faults: Faults::These(these),
                calls: (caller.calls, caller.ns as f64),
                caller: Some(scene.caller(caller)),
                cures: cure.into_iter().collect(),
                ..Claim::default()
            });
        }
        found
    },
};

/// What happens, and what can be done. `fate`: of most faults in its memory.
fn told(caller: &Caller, fate: Option<Fate>) -> (String, Option<Proposed>) {
    let all = Bytes(caller.bytes as u64);
    let cure = |how: &str| Some(Proposed::new(how, [0.3, 0.9]));
    match fate {
        Some(Fate::NoAccess) => (
            format!("{all} are to be populated before they can be accessed (PROT_NONE), so nothing is"),
            cure("madvise(MADV_POPULATE_WRITE) after mprotect"),
        ),
        Some(Fate::ReadOnly) => (
            format!("{all} are populated for reading, with the zero page: each write faults"),
            cure("madvise(MADV_POPULATE_WRITE) once it may be written"),
        ),
        Some(Fate::NonBlocking) => {
            (format!("MAP_NONBLOCK undoes MAP_POPULATE of {all}"), cure("leave MAP_NONBLOCK out"))
        }
        Some(Fate::Failed) => (
            format!("the kernel refuses to populate {all}: the call returns an error"),
            cure("look at its result"),
        ),
        Some(Fate::GivenBack) => (
            format!("{all} are populated, given back by madvise, and faulted in again"),
            cure("populate after the memory is given back, or do not give it back"),
        ),
        Some(Fate::Populated) => (
            format!("of {all} that are populated a part faults all the same: a limit, or too little memory"),
            None,
        ),
        None if caller.calls > 1 && 2.0 * caller.resident_bytes > caller.bytes => (
            format!("{} populate {all}, and it is unmapped again", Count(caller.calls).of("call")),
            Some(Proposed::keeps("keep the populated mapping and use it again", caller.longest_bytes as f64)),
        ),
        None => (
            format!("{all} are populated ahead of their use; that moves the time, and saves the traps"),
            None,
        ),
    }
}
