//! chunks: the pipeline of "A queue of page faults", with the memory of its blocks from five sources.
//!
//! One thread fills a block of 640 KiB with 128 KiB of "compressed" data and hands it over a bounded queue.
//! Workers unpack it to 512 KiB in the same block, read every byte, and free the block. The document's search
//! took 932 blocks.
//!
//! The sources are our pool, malloc, mmap and munmap per block, the same with MAP_POPULATE, and THP (2 MiB per
//! block, since no smaller mapping can have one). Unpacking is a copy and searching is a hash at some 8 GB/s.
//! They stand in for LZ4 and a regular expression, at the speed at which page faults begin to matter according
//! to the document.
//!
//! `reader=file` reads the packed data from a file in the page cache, as the document's main thread does, with a queue that
//! holds as many chunks as the document's program queued then: 256 MB. Only the pool's requests depend on that.
//!
//! `passes` is how often a worker reads each block. More passes slow down everything but the faults.
//! So a few cells with more passes show at which speed of the rest the faults become noticeable.
//!
//! The phase `price` maps, touches and unmaps blocks on one thread, as Bruce Dawson did for his 175 us per MB.
//! With this price `claims` repeats the document's argument that price times count explains the difference.

mod claims;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use faultless_os::touch::{Populate, Region};
use faultless_os::{advise, page};
use faultless_pool::{Block, Kernel, Page, Policy, Pool};

use super::{memory, team, threshold};
use crate::cell::{Cell, Refusal};
use crate::experiment::{
    Chart, Column, Document, DocumentRow, Effort, Experiment, Notes, Parameter, Phase, Scope, Sheet, Step,
    Steps, Trial,
};
use crate::results::{Quantities, faults, wall_ms};

pub(super) struct Chunks;

/// Bytes of a chunk as it is read, and unpacked; a block holds both.
const PACKED: usize = 128 << 10;
const COPIES: usize = 4;
const BLOCK: usize = PACKED * (COPIES + 1);
/// Chunks in the document.
const DOCUMENT_CHUNKS: usize = 932;
/// Chunks in its queue: `kMaxQueuedChunkData` of qgrep, commit 97a138b of December 2014, counts packed and unpacked bytes.
const QUEUED_CHUNKS: usize = (256 << 20) / BLOCK;
/// Passes over each block beside the single one: speeds from about that of the document down to a hundredth of it.
const PASSES: &[usize] = &[4, 16, 64];
/// Most blocks of the phase `price`: some 10,000 faults.
const PRICE_BLOCKS: usize = 64;
/// Faults beside the blocks: the channel, the pool's tables.
const TABLES: u64 = 96;

static SHEET: Sheet = Sheet {
    name: "chunks",
    about: "How much time does a pipeline of 640 KiB blocks lose to page faults, by the source of its blocks?",
    documents: &[Document::Queue],
    parameters: &[
        Parameter::named("memory", "pool, malloc, mmap, populate or thp: where blocks come from"),
        Parameter::named("workers", "threads that unpack and search"),
        Parameter::named("queue", "most chunks between the reader and the workers"),
        Parameter::named("chunks", "chunks in all; 932 in the document"),
        Parameter::usual("passes", "1", "how often a worker reads each chunk"),
        Parameter::usual("reader", "memory", "memory, or file: where the packed chunks come from"),
    ],
    columns: &[
        Column { head: "total ms", values: |_, found| wall_ms(found, "timed") },
        Column { head: "page faults", values: |_, found| faults(found, "timed") },
    ],
    theirs: document_totals,
    charts: CHARTS,
    claims: claims::claims,
    unjudged: claims::unjudged,
    ..Sheet::BLANK
};

impl Experiment for Chunks {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let chunks = scope.pick([24, DOCUMENT_CHUNKS, DOCUMENT_CHUNKS, DOCUMENT_CHUNKS]);
        let queues: &[usize] = scope.pick([&[4], &[8], &[8], &[2, 8, 64]]);
        let mut workers = scope.threads();
        match scope.effort {
            Effort::Verify => workers.truncate(1),
            Effort::Quick => workers.retain(|&count| count <= scope.processors),
            Effort::Default | Effort::Full => {}
        }
        let has_thp = scope.host.thp.as_ref().is_some_and(|thp| thp.available());
        let memories = MEMORIES.iter().filter(|(_, memory)| has_thp || *memory != Memory::Thp);
        let cell = |memory: &str, workers: usize, queue: usize, passes: usize| {
            let words =
                format!("memory={memory} workers={workers} queue={queue} chunks={chunks} passes={passes}");
            SHEET.cell(&words)
        };
        let mut cells = Vec::new();
        for &queue in queues {
            for &workers in &workers {
                cells.extend(memories.clone().map(|(memory, _)| cell(memory, workers, queue, 1)));
            }
        }
        let mut ahead = vec![1, scope.processors];
        ahead.dedup();
        cells.extend(ahead.into_iter().map(|workers| {
            SHEET.cell(&format!(
                "memory=pool workers={workers} queue={QUEUED_CHUNKS} chunks={chunks} reader=file"
            ))
        }));
        if let Some(&workers) = workers.iter().rfind(|count| **count <= scope.processors) {
            let passes: &[usize] = scope.pick([&[2], &[16], PASSES, PASSES]);
            for memory in ["pool", "mmap"] {
                cells.extend(passes.iter().map(|&passes| cell(memory, workers, queues[0], passes)));
            }
        }
        cells
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        let plan = Plan::of(cell)?;
        let file_bytes = if plan.reads_file { plan.chunks * PACKED } else { 0 };
        Ok((plan.most_blocks() * plan.memory.block_bytes() + file_bytes + (8 << 20)) as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let plan = Plan::of(cell)?;
        if plan.memory == Memory::Malloc
            && let Some(other) = threshold::preloaded()?
        {
            return Err(Refusal(format!(
                "{cell}: {other} answers instead of the C library's malloc: unset LD_PRELOAD"
            )));
        }
        match plan.memory {
            Memory::Thp => memory::check_thp(cell, advise::pmd_bytes())?,
            // Memory of malloc, and a mapping that is populated as it is made, are touched before they could be
            // advised.
            Memory::Malloc | Memory::Populate => advise::disable_thp()?,
            _ => {}
        }
        Ok(Steps::of(Pipeline { plan, source: None, file: None, pool: None }, Pipeline::steps))
    }
}

/// Where blocks come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Memory {
    Pool,
    Malloc,
    Mmap,
    Populate,
    Thp,
}

impl Memory {
    fn block_bytes(self) -> usize {
        match self {
            Self::Thp => BLOCK.next_multiple_of(advise::pmd_bytes().max(page::size())),
            _ => BLOCK,
        }
    }
}

const MEMORIES: [(&str, Memory); 5] = [
    ("pool", Memory::Pool),
    ("malloc", Memory::Malloc),
    ("mmap", Memory::Mmap),
    ("populate", Memory::Populate),
    ("thp", Memory::Thp),
];

#[derive(Clone, Copy, Debug)]
struct Plan {
    memory: Memory,
    workers: usize,
    queue: usize,
    chunks: usize,
    passes: usize,
    reads_file: bool,
}

impl Plan {
    fn of(cell: &Cell) -> Result<Self, Refusal> {
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
    fn most_blocks(&self) -> usize {
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
            Memory::Mmap | Memory::Populate => all as u64..=all as u64 + more,
            // Memory that is kept faults once; at least one block must fault.
            Memory::Pool => pages as u64..=(self.most_blocks() * pages) as u64 + more,
            // malloc may keep it or not; the head of a block may be on a separate page.
            Memory::Malloc => pages as u64..=(all + self.chunks) as u64 + more,
            Memory::Thp => memory::mostly_huge(Phase::new("", self.chunks, self.workers), all).faults,
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

impl Pipeline {
    fn steps(&self) -> Vec<Step<Self>> {
        let (page, plan) = (page::size(), self.plan);
        // A block as the phase `timed` gets it: how much is resident once a byte is written.
        let block = match plan.memory {
            Memory::Mmap => page,
            Memory::Populate | Memory::Thp => plan.memory.block_bytes(),
            Memory::Pool | Memory::Malloc => 0,
        };
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
            _ => match self.chunk()? {
                Chunk::Mapped(mut region) => memory::resident_by_a_write(&mut region),
                Chunk::Pool(_) | Chunk::Heap(_) => 0,
            },
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
        let handed_out = (plan.chunks * plan.memory.block_bytes()) as f64;
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
            (None, Memory::Populate) => Chunk::Mapped(Region::populated(BLOCK, Populate::Writable)?),
            (None, Memory::Thp) => {
                let len = self.plan.memory.block_bytes();
                Chunk::Mapped(Region::thp(len, len)?)
            }
            (None, _) => Chunk::Mapped(Region::base_pages(BLOCK, page::size())?),
        })
    }
}

const CHARTS: &[Chart] = &[
    Chart {
        id: "chunks-time",
        title: "Chunks of 640 KiB through a queue of 8: time",
        x: "workers",
        x_label: "workers",
        y_label: "us per chunk",
        values: |cell, found| match (cell.number("queue"), cell.number("passes")) {
            (Ok(8), Ok(1)) => us_per_chunk(cell, found),
            _ => Vec::new(),
        },
        document: &points(),
        ..Chart::BLANK
    },
    Chart {
        id: "chunks-passes",
        title: "Chunks of 640 KiB, a worker per processor: time by the work for each byte",
        x: "passes",
        x_label: "passes over each chunk",
        y_label: "us per chunk",
        values: us_per_chunk,
        ..Chart::BLANK
    },
];

fn us_per_chunk(cell: &Cell, found: &Quantities) -> Vec<f64> {
    let chunks = cell.number("chunks").unwrap_or(1) as f64;
    wall_ms(found, "timed").iter().map(|ms| ms * 1e3 / chunks).collect()
}

/// The document's table: a system with its pool or without, and the times of 8 threads and of one, ms.
const DOCUMENT_MS: [(&str, [f64; 2]); 10] = [
    ("Windows 32-bit, pool", [120.0, 433.0]),
    ("Windows 32-bit, no pool", [204.0, 471.0]),
    ("OSX 64-bit, pool beside mmap", [107.0, 510.0]),
    ("OSX 64-bit, mmap", [165.0, 604.0]),
    ("OSX 32-bit, pool", [131.0, 570.0]),
    ("OSX 32-bit, no pool", [142.0, 610.0]),
    ("OSX 64-bit, pool", [113.0, 510.0]),
    ("OSX 64-bit, no pool", [124.0, 543.0]),
    ("Windows 64-bit, pool", [100.0, 404.0]),
    ("Windows 64-bit, no pool", [120.0, 404.0]),
];

fn document_totals() -> Vec<DocumentRow> {
    let row = |memory: &str, workers: u32, ms: f64| {
        let of = [
            ("memory", memory.to_owned()),
            ("workers", workers.to_string()),
            ("chunks", DOCUMENT_CHUNKS.to_string()),
        ];
        (of.to_vec(), vec![Some(ms), None])
    };
    DOCUMENT_MS
        .iter()
        .flat_map(|(memory, [eight, one])| [row(memory, 8, *eight), row(memory, 1, *one)])
        .collect()
}

/// Two systems on which blocks were mapped anew, as points of the chart: the document gives ms for all of its chunks.
const fn points() -> [(&'static str, f64, f64); 8] {
    let mut points = [("", 0.0, 0.0); 8];
    let mut at = 0;
    while at < points.len() {
        let (name, ms) = DOCUMENT_MS[at / 2];
        points[at] = (name, [8.0, 1.0][at % 2], ms[at % 2] * 1e3 / DOCUMENT_CHUNKS as f64);
        at += 1;
    }
    points
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_hash_that_missed_a_chunk_would_show() {
        let plan = |chunks, passes| Plan {
            memory: Memory::Mmap,
            workers: 1,
            queue: 1,
            chunks,
            passes,
            reads_file: false,
        };
        let sum = |chunks, passes| plan(chunks, passes).timed().checksum;
        assert_ne!(sum(12, 1), sum(11, 1));
        assert_ne!(sum(12, 1), sum(12, 2), "and so would one that missed a pass");
    }
}
