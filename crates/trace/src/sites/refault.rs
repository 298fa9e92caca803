//! Faults and blocks -> the faults on memory that the program had given back.
//!
//! A fault counts if an earlier block of the same allocating site, freed by then, had covered its page: a
//! pool would have kept the page. It is not known how long the page was gone.

use std::collections::{BTreeMap, HashMap};

use crate::profile::{Block, Profile};
use crate::recording::touching::Touching;

/// Owner of a block: process, and the named function of its stack.
type Owner = (u32, Option<(u32, u32)>);

/// Whether each fault of the profile is a refault.
pub(super) fn refaulted(profile: &Profile, touching: &Touching, page_bytes: u64) -> Vec<bool> {
    let page_bytes = page_bytes.max(1);
    let blocks = &profile.blocks.blocks;
    let owner =
        |block: &Block| -> Owner { (block.pid, block.stack.and_then(|stack| touching.function(stack))) };
    let mut died: Vec<(u64, &Block)> = blocks.iter().filter_map(|b| Some((b.died_ns?, b))).collect();
    died.sort_by_key(|(time_ns, _)| *time_ns);
    let mut died = died.into_iter().peekable();
    let mut given_back: HashMap<Owner, Ranges> = HashMap::new();
    let is_refault = |fault: &crate::profile::Weighted| {
        while let Some((_, block)) = died.next_if(|(time_ns, _)| *time_ns <= fault.time_ns) {
            let last = block.addr.saturating_add(block.len_bytes.saturating_sub(1)) / page_bytes;
            given_back.entry(owner(block)).or_default().add(block.addr / page_bytes, last + 1);
        }
        let block = fault.block.map(|block| &blocks[block as usize]);
        let ranges = block.and_then(|block| given_back.get(&owner(block)));
        ranges.is_some_and(|ranges| ranges.holds(fault.addr / page_bytes))
    };
    profile.faults.iter().map(is_refault).collect()
}

/// Pages, as ranges that do not touch: begin -> end.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn add(&mut self, mut begin: u64, mut end: u64) {
        while let Some((old_begin, old_end)) = self.0.range(..=end).next_back().map(|(b, e)| (*b, *e)) {
            if old_end < begin {
                break;
            }
            if old_begin <= begin && old_end >= end {
                return;
            }
            self.0.remove(&old_begin);
            (begin, end) = (begin.min(old_begin), end.max(old_end));
        }
        self.0.insert(begin, end);
    }

    fn holds(&self, page: u64) -> bool {
        self.0.range(..=page).next_back().is_some_and(|(_, end)| page < *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_are_one() {
        let mut ranges = Ranges::default();
        for (begin, end) in [(10, 20), (30, 40), (20, 30), (5, 6), (12, 14)] {
            ranges.add(begin, end);
        }
        assert_eq!(ranges.0, BTreeMap::from([(5, 6), (10, 40)]));
        assert_eq!(
            [4, 5, 6, 10, 39, 40].map(|page| ranges.holds(page)),
            [false, true, false, true, true, false]
        );
    }
}
