//! A file, or shared memory, is mapped and unmapped for each piece of work.

use super::owner::Owner;
use super::{Claim, Faults, Proposed, Rule};
use crate::kind::Kind;
use crate::observation::Call;

/// Fewest mappings by one caller that are many.
const MAPPINGS: u64 = 4;

pub(super) const RULE: Rule = Rule {
    id: "file_remapped",
    title: "A file or shared memory is mapped anew each time",
    about: "munmap(2) of a file takes the page tables away, not the pages: they stay in the page cache, and the next mapping \
            faults once for each 16 of them (fault-around), or for each one where access is random. New shared memory for \
            each message faults each page, which the kernel zeroes.",
    by_hand: "`strace -k -e trace=mmap,munmap PROGRAM`: pairs on one file, or on a new memfd.",
    cures: &[
        ["keep the mapping and use it again", "its addresses; for shared memory, its pages", "-"],
        ["read(2) or pread(2) into a kept buffer", "the buffer", "-"],
    ],
    find: |scene| {
        let givers = scene.given.givers.iter().zip(0..).filter(|(giver, _)| {
            giver.call == Call::Munmap && giver.owner == Owner::Program && giver.resident_bytes <= 0.0
        });
        let givers: Vec<u32> = givers.map(|(_, number)| number).collect();
        let mut found = Vec::new();
        for (number, maker) in (0..).zip(&scene.given.makers) {
            if maker.owner != Owner::Program || maker.calls < MAPPINGS {
                continue;
            }
            let claim = |kinds: &[Kind], what: &str, how: &str| {
                let is_its = |index: usize| scene.given.made_by[index] == Some(number);
                let (these, faults) =
                    scene.faults_of(|index, fault| kinds.contains(&fault.kind) && is_its(index));
                (faults > 0.0).then(|| Claim {
                    what: format!("{what} is mapped anew for each piece of work"),
                    faults: Faults::These(these),
                    givers: givers.clone(),
                    caller: Some(scene.caller(maker)),
                    cures: vec![Proposed::keeps(how, maker.longest_bytes as f64)],
                    ..Claim::default()
                })
            };
            let file = "keep the mapping and use it again, or read(2) into a kept buffer";
            found.extend(claim(&[Kind::FileRead, Kind::FilePrivateWrite], "a file", file));
            found.extend(claim(&[Kind::Shared], "shared memory", "keep the shared memory and use it again"));
        }
        found
    },
};
