//! Records of allocations -> blocks, each with its life, and whose block an address was in at a time.

use std::collections::{BTreeMap, HashMap};

use crate::observation::{Observation, What};
use crate::tuning::BEFORE_BIRTH_NS;

/// A block from birth to death; one that moved is a new block with the old one's number in `moved_from`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Process.
    pub pid: u32,
    /// First address.
    pub addr: u64,
    /// Length asked for, bytes.
    pub len_bytes: u64,
    /// Who asked.
    pub stack: Option<u32>,
    /// When.
    pub born_ns: u64,
    /// When it was freed; `None`: not before the end.
    pub died_ns: Option<u64>,
    /// The block that it was before a realloc.
    pub moved_from: Option<u32>,
}

/// All blocks, by birth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// By process and first address, in the order of birth.
    at: HashMap<u32, BTreeMap<u64, Vec<u32>>>,
    /// Longest block, bytes: how far below an address its block may begin.
    longest_bytes: u64,
}

impl Blocks {
    /// Follows the allocations of an observation.
    pub fn new(observation: &Observation) -> Self {
        let mut blocks = Self::default();
        let mut live: HashMap<(u32, u64), u32> = HashMap::new();
        for record in &observation.records {
            let (pid, time_ns) = (record.pid, record.time_ns);
            let new = |addr, len_bytes, stack, moved_from| Block {
                pid,
                addr,
                len_bytes,
                stack,
                born_ns: time_ns,
                died_ns: None,
                moved_from,
            };
            match record.what {
                What::Alloc { addr, len_bytes, stack } => {
                    blocks.end(live.remove(&(pid, addr)), time_ns);
                    live.insert((pid, addr), blocks.begin(new(addr, len_bytes, stack, None)));
                }
                What::Free { addr } => {
                    blocks.end(live.remove(&(pid, addr)), time_ns);
                }
                What::Move { from, addr, len_bytes, stack } => {
                    let old = live.remove(&(pid, from));
                    blocks.end(old, time_ns);
                    live.insert((pid, addr), blocks.begin(new(addr, len_bytes, stack, old)));
                }
                _ => {}
            }
        }
        blocks
    }

    /// The block that held `addr` at this time.
    pub fn at(&self, pid: u32, addr: u64, time_ns: u64) -> Option<u32> {
        let lowest = addr.saturating_sub(self.longest_bytes);
        let near = self.at.get(&pid)?.range(lowest..=addr).rev();
        near.filter_map(|(_, numbers)| {
            // One at a time lives at an address: the last that was born by then.
            let born = numbers.partition_point(|&number| self.blocks[number as usize].born_ns <= time_ns);
            numbers[..born].last().copied()
        })
        .find(|&number| {
            let block = &self.blocks[number as usize];
            addr - block.addr < block.len_bytes && block.died_ns.is_none_or(|died_ns| time_ns < died_ns)
        })
    }

    /// The same, or the block that was handed out there soon after: malloc writes its head, and calloc zeroes it, before its
    /// birth is recorded.
    pub fn touched(&self, pid: u32, addr: u64, time_ns: u64) -> Option<u32> {
        self.at(pid, addr, time_ns).or_else(|| {
            let lowest = addr.saturating_sub(self.longest_bytes);
            let next = |numbers: &Vec<u32>| {
                let born = numbers.partition_point(|&number| self.blocks[number as usize].born_ns <= time_ns);
                numbers.get(born).copied()
            };
            let near = self.at.get(&pid)?.range(lowest..=addr).rev().filter_map(|(_, numbers)| next(numbers));
            let soon = near.filter(|&number| {
                let block = &self.blocks[number as usize];
                addr - block.addr < block.len_bytes && block.born_ns - time_ns <= BEFORE_BIRTH_NS
            });
            soon.min_by_key(|&number| self.blocks[number as usize].born_ns)
        })
    }

    fn begin(&mut self, block: Block) -> u32 {
        let number = self.blocks.len() as u32;
        self.longest_bytes = self.longest_bytes.max(block.len_bytes);
        self.at.entry(block.pid).or_default().entry(block.addr).or_default().push(number);
        self.blocks.push(block);
        number
    }

    fn end(&mut self, number: Option<u32>, time_ns: u64) {
        if let Some(number) = number {
            self.blocks[number as usize].died_ns = Some(time_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Record;

    fn blocks(records: &[(u64, What)]) -> Blocks {
        let record =
            |(time_ns, what): &(u64, What)| Record { time_ns: *time_ns, pid: 1, tid: 1, what: what.clone() };
        Blocks::new(&Observation { records: records.iter().map(record).collect(), ..Observation::default() })
    }

    #[test]
    fn an_address_belongs_to_the_block_that_lived_there_at_the_time() {
        let alloc = |addr, len_bytes| What::Alloc { addr, len_bytes, stack: None };
        let found = blocks(&[
            (10, alloc(1000, 100)),
            (20, What::Free { addr: 1000 }),
            (30, alloc(1000, 50)),
            (40, What::Move { from: 1000, addr: 5000, len_bytes: 200, stack: None }),
        ]);
        let at = [(1050, 15), (1099, 19), (1010, 25), (1010, 35), (1060, 35), (5100, 45), (1010, 45)];
        let owners = at.map(|(addr, time_ns)| found.at(1, addr, time_ns));
        assert_eq!(owners, [Some(0), Some(0), None, Some(1), None, Some(2), None]);
        assert_eq!(found.blocks[2].moved_from, Some(1));
        assert_eq!(found.at(2, 1050, 15), None);
    }

    #[test]
    fn what_calloc_zeroes_before_it_returns_is_its_block() {
        let alloc = What::Alloc { addr: 1000, len_bytes: 100, stack: None };
        let found = blocks(&[(2 * BEFORE_BIRTH_NS, alloc)]);
        assert_eq!(found.touched(1, 1050, 2 * BEFORE_BIRTH_NS - 500), Some(0));
        assert_eq!(found.touched(1, 1050, 500), None, "long before");
        assert_eq!(found.touched(1, 1100, 2 * BEFORE_BIRTH_NS - 500), None);
    }
}
