//! The phases of a cell of `chunks`: a reader, a queue, workers, and the memory of their blocks.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use faultless_os::page;
use faultless_os::touch::Region;
use faultless_pool::{Block, Kernel, Page, Policy, Pool};

use super::super::{memory, team};
use super::{BLOCK, COPIES, PACKED};
use crate::cell::{Cell, Refusal};
use crate::experiment::{Notes, Phase, Step, Steps, Trial};

/// Most blocks of the phase `price`: some 10,000 faults.
const PRICE_BLOCKS: usize = 64;
/// Faults beside the blocks: the channel, the pool's tables.
const TABLES: u64 = 96;

/// Where blocks come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Memory {
    Pool,
    Malloc,
    Mmap,
}

pub(super) const MEMORIES: [(&str, Memory); 3] =
    [("pool", Memory::Pool), ("malloc", Memory::Malloc), ("mmap", Memory::Mmap)];

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) memory: Memory,
    workers: usize,
    queue: usize,
    pub(super) chunks: usize,
    passes: usize,
    pub(super) reads_file: bool,
}

impl Plan {
    pub(super) fn of(cell: &Cell) -> Result<Self, Refusal> {
        let memory = cell.choice("memory", &MEMORIES)?;
        let number = |name| cell.number(name);
        let (workers, queue, chunks) = (number("workers")?, number("queue")?, number("chunks")?);
        let reads_file = cell.choice("reader", &[("memory", false), ("file", true)])?;
        if reads_file && memory != Memory::Pool {
            return Err(Refusal(format!("{cell}: reader=file is for memory=pool")));
        }
        Ok(Self { memory, workers, queue, chunks, passes: number("passes")?, reads_file })
    }

    /// Blocks that can have pages at one time: those in the queue, and three for each thread. A thread holds
    /// one block. It may be giving back a second, which no other thread can have yet. The pool may therefore
    /// have cut a third elsewhere.
    pub(super) fn most_blocks(&self) -> usize {
        self.chunks.min(self.queue + 3 * (self.workers + 1))
    }

    fn price_blocks(&self) -> usize {
        self.chunks.min(PRICE_BLOCKS)
    }

    fn timed(&self) -> Phase {
        let pages = BLOCK / page::size();
        let all = self.chunks * pages;
        let phase = Phase::new("timed", all, self.workers)
            .work(self.chunks * (BLOCK + (self.passes - 1) * COPIES * PACKED) / 8);
        let more = *phase.faults.end() - all as u64 + TABLES;
        let faults = match self.memory {
            Memory::Mmap => all as u64..=all as u64 + more,
            // Memory that is kept faults once; at least one block must fault.
            Memory::Pool => pages as u64..=(self.most_blocks() * pages) as u64 + more,
            // malloc may keep it or not; the head of a block may be on a separate page.
            Memory::Malloc => pages as u64..=(all + self.chunks) as u64 + more,
        };
        phase.faults(faults).sum(hash_of_unpacked(self.passes).wrapping_mul(self.chunks as u64))
    }
}

/// Memory of one chunk.
enum Chunk<'p> {
    Pool(Block<'p, Kernel>),
    Heap(Vec<u8>),
    Mapped(Region),
}

impl Chunk<'_> {
    /// Puts the packed data in their place.
    fn read(&mut self, packed: &[u8]) {
        match self {
            Self::Pool(block) => block[..PACKED].copy_from_slice(packed),
            Self::Heap(bytes) => bytes.extend_from_slice(packed),
            Self::Mapped(region) => region.bytes_mut()[..PACKED].copy_from_slice(packed),
        }
    }

    /// Unpacks them, which writes each part of the block for the first time. Then reads all of that so many times.
    fn search(&mut self, passes: usize) -> u64 {
        for copy in 1..=COPIES {
            let at = copy * PACKED;
            match self {
                Self::Pool(block) => block.copy_within(..PACKED, at),
                Self::Heap(bytes) => bytes.extend_from_within(..PACKED),
                Self::Mapped(region) => region.bytes_mut().copy_within(..PACKED, at),
            }
        }
        let unpacked = match self {
            Self::Pool(block) => &block[PACKED..],
            Self::Heap(bytes) => &bytes[PACKED..],
            Self::Mapped(region) => &region.bytes()[PACKED..BLOCK],
        };
        (0..passes).fold(BASIS, |hash, _| {
            let words = unpacked.chunks_exact(8);
            words.map(|word| <[u8; 8]>::try_from(word).map_or(0, u64::from_be_bytes)).fold(hash, hashed)
        })
    }
}

/// FNV-1a over words: each step depends on the one before, so no step is skipped or done in parallel.
fn hashed(hash: u64, word: u64) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    (hash ^ word).wrapping_mul(PRIME)
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// The packed data: bytes that differ from page to page.
fn packed_byte(at: usize) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 9)) as u8
}

/// The return value of [`Chunk::search`], without a block to unpack into.
fn hash_of_unpacked(passes: usize) -> u64 {
    let word = |at: usize| (at..at + 8).fold(0, |sum, at| sum << 8 | u64::from(packed_byte(at)));
    let words: Vec<u64> = (0..PACKED).step_by(8).map(word).collect();
    (0..passes * COPIES).fold(BASIS, |hash, _| words.iter().copied().fold(hash, hashed))
}

struct Pipeline {
    plan: Plan,
    source: Option<Region>,
    /// The packed data of all chunks, where the reader reads a file.
    file: Option<File>,
    pool: Option<Pool<Kernel>>,
}

pub(super) fn trial(plan: Plan) -> Box<dyn Trial> {
    Steps::of(Pipeline { plan, source: None, file: None, pool: None }, Pipeline::steps)
}

impl Pipeline {
    fn steps(&self) -> Vec<Step<Self>> {
        let (page, plan) = (page::size(), self.plan);
        // A block as the phase `timed` gets it: how much is resident once a byte is written.
        let block = if plan.memory == Memory::Mmap { page } else { 0 };
        let setup = Phase::new("setup", PACKED / page, 0).up_to((block / page) as u64 + TABLES);
        let mut steps: Vec<Step<Self>> = vec![(setup.sum(block as u64), Self::set_up)];
        if plan.memory == Memory::Mmap {
            let pages = BLOCK / page * plan.price_blocks();
            let price = Phase::new("price", pages, 0).touches(pages);
            steps.push((price, |this, notes| this.price(notes)));
        }
        steps.push((plan.timed(), |this, notes| this.timed(notes)));
        steps
    }

    fn set_up(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let mut source = Region::base_pages(PACKED, page::size())?;
        source.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = packed_byte(at));
        if self.plan.reads_file {
            let mut file = tempfile::tempfile()?;
            (0..self.plan.chunks).try_for_each(|_| file.write_all(source.bytes()))?;
            self.file = Some(file);
        }
        self.source = Some(source);
        if self.plan.memory == Memory::Pool {
            let pool = Pool::open(Kernel::default(), Policy { page: Page::Base, ..Policy::default() })?;
            drop(pool.alloc(BLOCK));
            notes.add("block_bytes", pool.stats().peak_in_use_bytes as f64);
            self.pool = Some(pool);
        }
        Ok(match self.plan.memory {
            Memory::Pool | Memory::Malloc => 0,
            Memory::Mmap => memory::resident_by_a_write(&mut Region::base_pages(BLOCK, page::size())?),
        })
    }

    fn price(&self, notes: &mut Notes) -> Result<u64, Refusal> {
        let blocks = self.plan.price_blocks();
        for _ in 0..blocks {
            Region::base_pages(BLOCK, page::size())?.touch_write(page::size());
        }
        notes.add("price_bytes", (blocks * BLOCK) as f64);
        Ok(0)
    }

    fn timed(&self, notes: &mut Notes) -> Result<u64, Refusal> {
        let (plan, packed) = (self.plan, self.source.as_ref().map_or(&[][..], Region::bytes));
        let (sender, receiver) = mpsc::sync_channel::<Chunk<'_>>(plan.queue);
        let receiver = Mutex::new(receiver);
        let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
        let sum = thread::scope(|scope| {
            let work = || {
                let mut sum = 0_u64;
                while let Some(mut chunk) = next() {
                    sum = sum.wrapping_add(chunk.search(plan.passes));
                }
                sum
            };
            let workers: Vec<_> = (0..plan.workers).map(|_| scope.spawn(work)).collect();
            let read = (0..plan.chunks).try_for_each(|at| {
                let mut chunk = self.chunk()?;
                match (&self.file, &mut chunk) {
                    (Some(file), Chunk::Pool(block)) => {
                        file.read_exact_at(&mut block[..PACKED], (at * PACKED) as u64)?;
                    }
                    _ => chunk.read(packed),
                }
                sender.send(chunk).map_err(|_| Refusal("chunks: all workers have ended".into()))
            });
            drop(sender);
            let sums = workers.into_iter().map(|worker| worker.join().unwrap_or(0));
            let sum = sums.fold(0_u64, u64::wrapping_add);
            read.map(|()| sum)
        })?;
        team::note_processors(notes);
        let handed_out = (plan.chunks * BLOCK) as f64;
        notes.add("handed_out_bytes", handed_out);
        match (&self.pool, plan.memory) {
            (Some(pool), _) => notes.add("requested_bytes", handed_out - pool.stats().reused_bytes as f64),
            // malloc does not report its requests; its faults show them.
            (None, Memory::Malloc) => {}
            (None, _) => notes.add("requested_bytes", handed_out),
        }
        Ok(sum)
    }

    fn chunk(&self) -> Result<Chunk<'_>, Refusal> {
        Ok(match (&self.pool, self.plan.memory) {
            (Some(pool), _) => {
                let block = pool.alloc(BLOCK);
                Chunk::Pool(
                    block.ok_or_else(|| Refusal("chunks: the pool has no block of 640 KiB left".into()))?,
                )
            }
            (None, Memory::Malloc) => Chunk::Heap(Vec::with_capacity(BLOCK)),
            (None, _) => Chunk::Mapped(Region::base_pages(BLOCK, page::size())?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chunks, SHEET};
    use super::*;
    use crate::trial;

    fn measured(memory: &str) -> crate::Sample {
        trial::measure(&Chunks, &SHEET.cell(&format!("memory={memory} workers=2 queue=2 chunks=12")))
    }

    fn value(sample: &crate::Sample, phase: &str, quantity: &str) -> f64 {
        let found = sample.values.iter().find(|value| value.phase == phase && value.quantity == quantity);
        found.unwrap().value
    }

    #[test]
    fn the_pool_asks_for_a_few_blocks_and_mmap_for_all() {
        let (pool, mmap) = (measured("pool"), measured("mmap"));
        let requested = |sample| value(sample, "timed", "requested_bytes") / BLOCK as f64;
        assert_eq!(requested(&mmap), 12.0);
        assert!((1.0..=11.0).contains(&requested(&pool)), "{}", requested(&pool));
    }
}
