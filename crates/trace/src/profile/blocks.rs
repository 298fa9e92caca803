//! Records of allocations -> blocks with their lives, and the block that holds an address at a time.

use std::collections::{BTreeMap, HashMap};

use crate::observation::{Observation, What};
use crate::tuning::BEFORE_BIRTH_NS;

/// Block addresses of one length class inspected near a faulting address. Live blocks do not overlap, so
/// those before the right one are dead: an allocator reuses few places for one length. Only damaged files
/// have more.
const NEAR_BLOCKS_MAX: usize = 1024;
/// Forks through which a block is searched in parents; a longer chain exists only in damaged files.
const FORKS_MAX: usize = 64;

/// A block from birth to death. A moved block is a new one, with the old one's number in `moved_from`.
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
    /// When it was freed; `None` if it lived to the end.
    pub died_ns: Option<u64>,
    /// The block that it was before a realloc.
    pub moved_from: Option<u32>,
}

/// Births (`true`) and deaths of these blocks in the order of time. At the same instant the old one goes first: a realloc.
pub(crate) fn births_and_deaths<'a, T: Copy>(
    of: impl Iterator<Item = T> + Clone,
    block: impl Fn(T) -> &'a Block,
) -> Vec<(u64, bool, T)> {
    let births = of.clone().map(|one| (block(one).born_ns, true, one));
    let deaths = of.filter_map(|one| Some((block(one).died_ns?, false, one)));
    let mut events: Vec<_> = births.chain(deaths).collect();
    events.sort_by_key(|&(time_ns, is_birth, _)| (time_ns, is_birth));
    events
}

/// All blocks, by birth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// By process, binary logarithm of the length, and first address; in the order of birth. An absurd length
    /// in a damaged file slows down only its own class.
    at: HashMap<(u32, u32), BTreeMap<u64, Vec<u32>>>,
    /// The times at which a process's memory was replaced: at a fork by its parent's, at an exec by none.
    origins: HashMap<u32, Vec<(u64, Option<u32>)>>,
    /// When a process first freed, at an address, a block that its parent had allocated.
    freed: HashMap<(u32, u64), u64>,
}

impl Blocks {
    /// Follows the allocations of an observation.
    pub fn new(observation: &Observation) -> Self {
        let mut blocks = Self::default();
        let mut live: HashMap<u32, HashMap<u64, u32>> = HashMap::new();
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
                    let number = blocks.begin(new(addr, len_bytes, stack, None));
                    let old = live.entry(pid).or_default().insert(addr, number);
                    blocks.end(old, time_ns);
                }
                What::Free { addr } => {
                    let number = live.get_mut(&pid).and_then(|live| live.remove(&addr));
                    blocks.free(number, pid, addr, time_ns);
                }
                What::Move { from, addr, len_bytes, stack } => {
                    let live = live.entry(pid).or_default();
                    let old = live.remove(&from);
                    blocks.free(old, pid, from, time_ns);
                    live.insert(addr, blocks.begin(new(addr, len_bytes, stack, old)));
                }
                What::Fork { parent } if parent != pid => {
                    live.remove(&pid);
                    blocks.origins.entry(pid).or_default().push((time_ns, Some(parent)));
                }
                What::Exec => {
                    for number in live.remove(&pid).into_iter().flat_map(HashMap::into_values) {
                        blocks.end(Some(number), time_ns);
                    }
                    blocks.origins.entry(pid).or_default().push((time_ns, None));
                }
                _ => {}
            }
        }
        blocks
    }

    /// The block that held `addr` at this time: the process's own, or one inherited from its parent.
    pub fn at(&self, pid: u32, addr: u64, time_ns: u64) -> Option<u32> {
        let (mut of, mut by_ns) = (pid, time_ns);
        let mut heirs: Vec<(u32, u64)> = Vec::new();
        while heirs.len() < FORKS_MAX {
            let (since_ns, parent) = self.origin(of, by_ns);
            if let Some(number) = self.own(of, addr, since_ns, by_ns) {
                let begin = self.blocks[number as usize].addr;
                let has_freed = |&(heir, by_ns): &(u32, u64)| {
                    self.freed.get(&(heir, begin)).is_some_and(|&freed_ns| freed_ns <= by_ns)
                };
                return (!heirs.iter().any(has_freed)).then_some(number);
            }
            heirs.push((of, by_ns));
            (of, by_ns) = (parent?, since_ns);
        }
        None
    }

    /// When the memory of a process, as of this time, was replaced, and the process it came from.
    fn origin(&self, pid: u32, time_ns: u64) -> (u64, Option<u32>) {
        let origins = self.origins.get(&pid).map_or(&[][..], Vec::as_slice);
        origins[..origins.partition_point(|origin| origin.0 <= time_ns)].last().copied().unwrap_or_default()
    }

    fn own(&self, pid: u32, addr: u64, since_ns: u64, time_ns: u64) -> Option<u32> {
        self.near(pid, addr).find_map(|numbers| {
            // Blocks at one address follow each other, so only the last one born by then can live.
            let number = *numbers[..self.born(numbers, time_ns)].last()?;
            let block = &self.blocks[number as usize];
            let lives = block.born_ns >= since_ns && block.died_ns.is_none_or(|died_ns| time_ns < died_ns);
            (lives && addr - block.addr < block.len_bytes).then_some(number)
        })
    }

    /// As [`Blocks::at`], or the block handed out there soon after: malloc writes its header, and calloc
    /// zeroes it, before its birth is recorded.
    pub fn touched(&self, pid: u32, addr: u64, time_ns: u64) -> Option<u32> {
        self.at(pid, addr, time_ns).or_else(|| {
            let next = |numbers: &Vec<u32>| numbers.get(self.born(numbers, time_ns)).copied();
            let soon = self.near(pid, addr).filter_map(next).filter(|&number| {
                let block = &self.blocks[number as usize];
                addr - block.addr < block.len_bytes && block.born_ns - time_ns <= BEFORE_BIRTH_NS
            });
            soon.min_by_key(|&number| self.blocks[number as usize].born_ns)
        })
    }

    /// Blocks that may hold `addr`, by their first address, from the class of the shortest up.
    fn near(&self, pid: u32, addr: u64) -> impl Iterator<Item = &Vec<u32>> {
        (0..=u64::BITS).filter_map(move |class| Some((class, self.at.get(&(pid, class))?))).flat_map(
            move |(class, starts)| {
                let longest_bytes = 1_u64.checked_shl(class).map_or(u64::MAX, |end| end - 1);
                let near = starts.range(addr.saturating_sub(longest_bytes)..=addr).rev();
                near.take(NEAR_BLOCKS_MAX).map(|(_, numbers)| numbers)
            },
        )
    }

    /// The number of blocks at one address that were born by then.
    fn born(&self, numbers: &[u32], time_ns: u64) -> usize {
        numbers.partition_point(|&number| self.blocks[number as usize].born_ns <= time_ns)
    }

    fn begin(&mut self, block: Block) -> u32 {
        let number = self.blocks.len() as u32;
        let class = u64::BITS - block.len_bytes.leading_zeros();
        self.at.entry((block.pid, class)).or_default().entry(block.addr).or_default().push(number);
        self.blocks.push(block);
        number
    }

    /// Ends a block. A block of the parent is noted as freed in this process; the parent keeps it.
    fn free(&mut self, number: Option<u32>, pid: u32, addr: u64, time_ns: u64) {
        self.end(number, time_ns);
        if number.is_none() && self.origins.contains_key(&pid) {
            self.freed.entry((pid, addr)).or_insert(time_ns);
        }
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

    fn alloc(addr: u64, len_bytes: u64) -> What {
        What::Alloc { addr, len_bytes, stack: None }
    }

    #[test]
    fn an_address_is_of_the_block_that_lived_there_then() {
        let found = blocks(&[
            (1, alloc(1000, 100)),
            (5, What::Free { addr: 1000 }),
            (7, alloc(1000, 50)),
            (9, What::Move { from: 1000, addr: 5000, len_bytes: 200, stack: None }),
        ]);
        let at = |addr, time_ns| found.at(1, addr, time_ns);
        assert_eq!([at(1000, 0), at(1099, 1), at(1100, 1), at(1000, 5)], [None, Some(0), None, None]);
        assert_eq!([at(1049, 8), at(1050, 8), at(1000, 9), at(5199, 9)], [Some(1), None, None, Some(2)]);
        assert_eq!(found.at(2, 1000, 1), None);
    }

    #[test]
    fn a_childs_blocks_are_its_parents_until_it_frees_them_or_execs() {
        let record = |time_ns, pid, what| Record { time_ns, pid, tid: pid, what };
        let fork = |parent| What::Fork { parent };
        let records = vec![
            record(1, 1, alloc(1000, 100)),
            record(2, 1, alloc(2000, 100)),
            record(3, 2, fork(1)),
            record(4, 1, What::Free { addr: 1000 }),
            record(5, 3, fork(2)),
            record(6, 2, What::Free { addr: 2000 }),
            record(6, 3, What::Free { addr: 1000 }),
            record(7, 3, What::Exec),
            record(8, 1, What::Exec),
        ];
        let found = Blocks::new(&Observation { records, ..Observation::default() });
        assert_eq!([found.at(1, 1050, 3), found.at(1, 1050, 4)], [Some(0), None], "the parent's own");
        assert_eq!([found.at(2, 1050, 2), found.at(2, 1050, 6)], [None, Some(0)], "freed there, not here");
        assert_eq!([found.at(2, 2050, 5), found.at(2, 2050, 6)], [Some(1), None], "freed here");
        assert_eq!([found.at(3, 2050, 6), found.at(3, 2050, 7)], [Some(1), None], "a grandchild's, and exec");
        assert_eq!([found.at(3, 1050, 5), found.at(3, 1050, 6)], [Some(0), None], "a grandchild frees");
        assert_eq!([found.at(1, 2050, 7), found.at(1, 2050, 8)], [Some(1), None]);
        assert_eq!(found.blocks[1].died_ns, Some(8));
    }

    #[test]
    fn processes_that_fork_each_other_in_a_damaged_file_end() {
        let fork = |pid, parent| Record { time_ns: 1, pid, tid: pid, what: What::Fork { parent } };
        let records = vec![fork(1, 2), fork(2, 1)];
        assert_eq!(Blocks::new(&Observation { records, ..Observation::default() }).at(1, 5, 9), None);
    }

    #[test]
    fn absurd_lengths_neither_panic_nor_slow_the_others_down() {
        let mut records = vec![(0, alloc(0, u64::MAX)), (0, alloc(u64::MAX, u64::MAX)), (0, alloc(1, 0))];
        records.extend((1..10_000).map(|at| (at, alloc(at << 12, 4096))));
        let found = blocks(&records);
        for at in 1..10_000 {
            let block = &found.blocks[found.at(1, (at << 12) + 4095, u64::MAX).unwrap() as usize];
            assert_eq!(block.addr, at << 12);
        }
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
