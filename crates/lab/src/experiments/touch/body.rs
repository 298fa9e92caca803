//! The phases of a cell of `touch`, and the work of each.

use std::sync::atomic::{AtomicU8, Ordering};

use faultless_os::host::{Host, Memory as HostMemory};
use faultless_os::touch::{Region, Touched, Toucher};
use faultless_os::{counters, map, page, zero};
use faultless_pool::{Block, Kernel, Page, Policy, Pool, Retain, tuning};

use super::super::beside::Beside;
use super::super::memory::{self, Access, LINE_BYTES};
use super::super::team::{self, Done, Others};
use super::{Asked, BLOCK_BYTES, Memory, Zeroed};
use crate::cell::Refusal;
use crate::experiment::{Notes, Phase, Step, Steps, Trial};

/// The turns of [`memory::mark`].
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// Faults of this process around one `fork`: the next write to a shared page copies it.
const FORK_FAULTS: u64 = 256;

/// [`Phase::work`] for a touch of a page: accesses to lines that take as long at least.
const TOUCH_ACCESSES: usize = 4;

struct Touching {
    asked: Asked,
    limits: Option<(f64, f64)>,
    held: Held,
    others: Option<Others>,
}

/// The memory that is touched.
enum Held {
    Regions(Vec<Region>),
    Blocks(&'static Pool<Kernel>, Vec<Share>),
    Processes(Vec<Toucher>),
}

/// One thread's share of a pool.
struct Share {
    count: usize,
    blocks: Vec<Block<'static, Kernel>>,
}

pub(super) fn trial(asked: Asked) -> Box<dyn Trial> {
    let touching = Touching { asked, limits: limits(), held: Held::Regions(Vec::new()), others: None };
    Steps::of(touching, Touching::steps)
}

impl Touching {
    fn pages(&self) -> usize {
        self.asked.len_bytes / page::size()
    }

    /// What touching every page must return.
    fn sum(&self, turn: u8) -> u64 {
        let blocks = self.asked.len_bytes / BLOCK_BYTES;
        let all = match self.asked.memory {
            Memory::Shared | Memory::Interleaved => memory::marks(0..self.pages(), turn),
            Memory::Own => {
                let parts = team::parts(self.pages(), self.asked.threads);
                parts.into_iter().map(|part| memory::marks(0..part.len(), turn)).sum()
            }
            Memory::Pool(_) => blocks as u64 * memory::marks(0..BLOCK_BYTES / page::size(), turn),
            // They report how many pages they touched.
            Memory::Process => self.pages() as u64,
        };
        all * self.asked.lines as u64
    }

    fn steps(&self) -> Vec<Step<Self>> {
        let Asked { writes, memory, lines, len_bytes, threads, lock, beside, others } = self.asked;
        let (pages, is_pool) = (self.pages(), matches!(memory, Memory::Pool(_)));
        let is_process = memory == Memory::Process;
        let forks = match beside {
            _ if is_process => threads,
            Some(Beside::MapsApart) => others,
            _ => 0,
        } as u64
            * FORK_FAULTS;
        let mut steps: Vec<Step<Self>> = vec![(self.setup().up_to(forks), Self::set_up)];
        if lock {
            steps.push((Phase::new("lock", pages, 0), |this, _| this.lock()));
        }
        if memory == Memory::Pool(Zeroed::Ahead) {
            let scrub = Phase::new("scrub", 0, 0).work(len_bytes / LINE_BYTES).sum(len_bytes as u64);
            steps.push((scrub, |this, _| Ok(this.scrub())));
        }
        if beside.is_some() {
            steps.push((Phase::new("begin", 0, others).up_to(forks), |this, _| this.begin()));
        }
        let touch = |name, faults| Phase::new(name, faults, threads).work(pages * lines.max(TOUCH_ACCESSES));
        // The pages that were zeroed while a thread waited are part of the checksum.
        let zeroed = if memory == Memory::Pool(Zeroed::OnGet) { pages } else { 0 };
        let first =
            touch("first", if lock || is_pool { 0 } else { pages }).sum(self.sum(FIRST) + zeroed as u64);
        steps.push((first, |this, notes| this.touch(FIRST, notes)));
        if !is_process {
            steps.push((touch("second", 0).sum(self.sum(SECOND)), |this, notes| this.touch(SECOND, notes)));
        }
        if beside.is_some() {
            let end = Phase::new("end", 0, 0).up_to(u64::MAX).sum(1);
            steps.push((end, |this, notes| Others::end(&mut this.others, notes)));
        }
        // The first line of each page, as the second touch left it.
        let seen = if writes && !is_process { self.sum(SECOND) / lines as u64 } else { 0 };
        let look = Phase::new("look", 0, 0).up_to(COMMIT_PARTS as u64 + forks).sum(seen);
        steps.push((look, |this, notes| Ok(this.look(notes))));
        steps.push((Phase::new("free", 0, threads), |this, _| this.free()));
        steps
    }

    fn setup(&self) -> Phase {
        let Asked { memory, len_bytes, threads, .. } = self.asked;
        if !matches!(memory, Memory::Pool(_)) {
            return Phase::new("setup", 0, 0);
        }
        // The pool's own pages: a word for each granule in use, and the memory on which the engines are tried.
        let words = len_bytes / tuning::GRANULE_BYTES * size_of::<u64>();
        let more = (words + zero::TRIAL_BYTES) / page::size();
        Phase::new("setup", self.pages(), 2 * threads).touches(self.pages()).up_to(more as u64)
    }

    fn set_up(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let Asked { memory, len_bytes, threads, .. } = self.asked;
        let bytes = || {
            team::parts(len_bytes / page::size(), threads).into_iter().map(|part| part.len() * page::size())
        };
        self.held = match memory {
            Memory::Shared | Memory::Interleaved => {
                Held::Regions(vec![Region::base_pages(len_bytes, page::size())?])
            }
            Memory::Own => {
                let regions = bytes().map(|bytes| Region::base_pages(bytes, page::size()));
                Held::Regions(regions.collect::<Result<_, _>>()?)
            }
            Memory::Process => Held::Processes(bytes().map(Toucher::new).collect::<Result<_, _>>()?),
            Memory::Pool(zeroed) => {
                let (pool, shares) = dirty_pool(len_bytes, threads, zeroed)?;
                Held::Blocks(pool, shares)
            }
        };
        if let Held::Regions(regions) = &self.held {
            memory::note_resident(regions, notes);
        }
        Ok(0)
    }

    fn lock(&mut self) -> Result<u64, Refusal> {
        if let Held::Regions(regions) = &mut self.held {
            let locked = regions.iter_mut().try_for_each(Region::lock);
            locked.map_err(|error| Refusal(format!("{error}; allow more with `ulimit -l`, or as root")))?;
        }
        Ok(0)
    }

    fn scrub(&mut self) -> u64 {
        let Held::Blocks(pool, _) = &self.held else { return 0 };
        pool.purge_to_bound();
        let steps = std::iter::repeat_with(|| pool.scrub_step(usize::MAX));
        steps.take_while(|&bytes| bytes > 0).sum::<usize>() as u64
    }

    fn begin(&mut self) -> Result<u64, Refusal> {
        let Asked { beside, others, len_bytes, .. } = self.asked;
        self.others = beside.map(|beside| beside.start(others, len_bytes)).transpose()?;
        Ok(0)
    }

    /// One access per line by all threads; returns the sum of the values afterwards.
    fn touch(&mut self, turn: u8, notes: &mut Notes) -> Result<u64, Refusal> {
        let (others_fault, pages) =
            (self.others.is_some() || self.asked.memory == Memory::Process, self.pages());
        let access = Access { lines: self.asked.lines, writes: self.asked.writes, turn };
        notes.add("pages", pages as f64);
        let (done, zeroed) = match &mut self.held {
            Held::Regions(regions) => (touch_regions(regions, self.asked, access)?, 0),
            Held::Blocks(pool, shares) if turn == FIRST => {
                let before = pool.stats().cleared_bytes;
                let done = get(pool, shares, |block| touch_block(block, access))?;
                (done, (pool.stats().cleared_bytes - before) / page::size() as u64)
            }
            Held::Blocks(_, shares) => {
                let again = |share: &mut Share| {
                    Ok(share.blocks.iter_mut().map(|block| touch_block(block, access)).sum())
                };
                (team::together(shares.iter_mut().collect(), again)?, 0)
            }
            // Faults of other processes are counted there. But this process was forked, so its own writes copy.
            Held::Processes(touchers) => (touch_apart(touchers)?, 0),
        };
        Ok(done.noted(notes, others_fault) + zeroed)
    }

    /// Every thread gives back what it had for itself.
    fn free(&mut self) -> Result<u64, Refusal> {
        match std::mem::replace(&mut self.held, Held::Regions(Vec::new())) {
            Held::Regions(regions) => team::together(regions, |region| {
                drop(region);
                Ok(0)
            }),
            Held::Blocks(_, shares) => team::together(shares, |share| {
                drop(share);
                Ok(0)
            }),
            Held::Processes(_) => return Ok(0),
        }
        .map(|done| done.sum)
    }

    fn look(&mut self, notes: &mut Notes) -> u64 {
        team::note_processors(notes);
        note_limits(self.limits, notes);
        match &self.held {
            Held::Regions(regions) => {
                memory::note_resident(regions, notes);
                regions.iter().map(|region| region.touch_read(page::size())).sum()
            }
            Held::Blocks(_, shares) => {
                let blocks = shares.iter().flat_map(|share| &share.blocks);
                blocks.flat_map(|block| block.iter().step_by(page::size())).map(|byte| u64::from(*byte)).sum()
            }
            Held::Processes(_) => 0,
        }
    }
}

fn touch_regions(regions: &mut [Region], asked: Asked, access: Access) -> Result<Done, Refusal> {
    let all: Vec<&[AtomicU8]> = regions.iter_mut().map(Region::atomics).collect();
    let pages = |region: &[AtomicU8]| region.len() / page::size();
    let parts = team::parts(pages(all[0]), asked.threads);
    team::together((0..asked.threads).collect(), |thread: usize| {
        let (region, pages) = match asked.memory {
            Memory::Shared => (all[0], parts[thread].clone().step_by(1)),
            Memory::Interleaved => (all[0], (thread..pages(all[0])).step_by(asked.threads)),
            _ => (all[thread], (0..pages(all[thread])).step_by(1)),
        };
        Ok(memory::touch(pages, access, |at, value| {
            value.into_iter().for_each(|value| region[at].store(value, Ordering::Relaxed));
            region[at].load(Ordering::Relaxed)
        }))
    })
}

fn touch_block(block: &mut [u8], access: Access) -> u64 {
    memory::touch(0..block.len() / page::size(), access, |at, value| {
        value.into_iter().for_each(|value| *std::hint::black_box(&mut block[at]) = value);
        block[at]
    })
}

fn touch_apart(touchers: &mut [Toucher]) -> Result<Done, Refusal> {
    let begin_ns = counters::now_ns();
    for toucher in &mut *touchers {
        toucher.go()?;
    }
    let told = touchers.iter_mut().map(|toucher| {
        let touched = toucher.wait().map_err(|error| {
            Refusal(format!("a process apart ended before it had touched its memory: {error}"))
        })?;
        let Touched { pages: sum, faults, cpu_ns } = touched;
        Ok(Done { sum, cpu_ns, faults, begin_ns, end_ns: counters::now_ns() })
    });
    told.sum()
}

/// A pool whose memory is dirty, and each thread's share of it. It keeps everything, without a background thread, so that
/// only the work of this experiment is measured. It lives as long as the process, which measures one cell.
fn dirty_pool(
    len_bytes: usize,
    threads: usize,
    zeroed: Zeroed,
) -> Result<(&'static Pool<Kernel>, Vec<Share>), Refusal> {
    if zeroed == Zeroed::Ahead {
        // The first call in a process finds out which engine is fastest.
        std::hint::black_box(zero::ahead());
    }
    let retain = Retain { bytes: len_bytes.saturating_mul(2), decay_ns: None };
    let policy = Policy { page: Page::Base, retain, ..Policy::default() };
    let pool = Box::leak(Box::new(Pool::open(Kernel::default(), policy)?));
    let parts = team::parts(len_bytes / BLOCK_BYTES, threads).into_iter();
    let mut shares: Vec<Share> = parts.map(|part| Share { count: part.len(), blocks: Vec::new() }).collect();
    // Every thread holds all its blocks before any thread frees, so that all of the memory is dirty.
    get(pool, &mut shares, |block| {
        block.fill(1);
        0
    })?;
    team::together(shares.iter_mut().collect(), |share: &mut Share| {
        share.blocks.clear();
        Ok(0)
    })?;
    Ok((pool, shares))
}

/// Every thread takes its zeroed blocks and does something with each, which returns a part of the sum.
fn get(
    pool: &'static Pool<Kernel>,
    shares: &mut [Share],
    each: impl Fn(&mut [u8]) -> u64 + Sync,
) -> Result<Done, Refusal> {
    team::together(shares.iter_mut().collect(), |share: &mut Share| {
        share.blocks.reserve(share.count);
        let mut sum = 0;
        for _ in 0..share.count {
            let block = pool.alloc_zeroed(BLOCK_BYTES);
            let mut block = block.ok_or(Refusal("the pool has no more addresses".into()))?.into_block();
            sum += each(&mut block);
            share.blocks.push(block);
        }
        Ok(sum)
    })
}

/// How much memory all programs together may commit here, and how much memory and swap there is.
fn limits() -> Option<(f64, f64)> {
    let memory = HostMemory::now();
    let swap = Host::read().swaps.unwrap_or_default().iter().map(|swap| swap.len_bytes).sum::<u64>();
    Some((memory.commit_limit_bytes? as f64, (memory.total_bytes? + swap) as f64))
}

fn note_limits(limits: Option<(f64, f64)>, notes: &mut Notes) {
    let Some((limit, memory)) = limits else { return };
    notes.add("commit_limit_bytes", limit);
    notes.add("memory_and_swap_bytes", memory);
    let is_strict = map::commit_is_strict();
    if let Some(committed) = most_committed_bytes(memory, is_strict) {
        notes.add("most_committed_bytes", committed);
        notes.add("is_commit_strict", f64::from(u8::from(is_strict)));
    }
}

/// Requests of [`most_committed_bytes`]; malloc touches the head of each.
const COMMIT_PARTS: usize = 16;

/// How much memory all programs together have committed once this one has asked malloc for twice the memory and swap
/// of the machine, or as much of it as the kernel lets it. Nothing is touched, and all of it is freed. A strict kernel
/// is asked for all at once, so that no other program is refused meanwhile.
///
/// A [`Region`] is mapped without reservation, which commits nothing.
fn most_committed_bytes(memory_and_swap_bytes: f64, is_strict: bool) -> Option<f64> {
    let parts = if is_strict { 1 } else { COMMIT_PARTS };
    let part = |_| {
        let mut part: Vec<u8> = Vec::new();
        part.try_reserve_exact(2 * memory_and_swap_bytes as usize / parts).ok().map(|()| part)
    };
    let held: Vec<Vec<u8>> = (0..parts).map_while(part).collect();
    let committed = HostMemory::now().committed_bytes;
    drop(std::hint::black_box(held));
    committed.map(|bytes| bytes as f64)
}
