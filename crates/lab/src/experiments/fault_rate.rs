//! fault-rate: the page-fault test of "Prezeroing V2", by threads and by cache lines written per page.
//!
//! The test maps some GB, splits them among threads and writes to a few cache lines of each page. It reports
//! faults per second of CPU time and per second of the clock. The document compares a kernel that zeroes at the
//! fault with a kernel that zeroed before. A program can't change the kernel's zeroing, so there are three
//! arms, all with base pages:
//!
//! `kernel` faults and gets zeroed pages. `on-get` takes a block from a pool that zeroes it on request. `ahead`
//! takes a block that the pool zeroed before. The difference between `kernel` and `on-get` is the gain of
//! reuse. Only the difference between `on-get` and `ahead` is the gain of zeroing early.
//!
//! Zeroing ahead is a phase of its own, so that a cost that was only moved shows. The memory of a pool is
//! filled with ones before, so the return value proves who zeroed it and when. Rep is always 1: rounds repeat
//! the test.

pub(crate) mod table;

use faultless_os::page;
use faultless_os::touch::Region;
use faultless_os::zero;
use faultless_pool::{Block, Kernel, Page, Policy, Pool, Retain, tuning};

use super::team::{self, Done};
use crate::cell::{Cell, Refusal};
use crate::experiment::{
    Chart, Column, Document, Experiment, Measured, Notes, Phase, Scope, Sheet, Table, Trial,
};
use crate::results::{Quantities, cpu_ns, values, wall_ns};

pub(super) struct FaultRate;

/// Bytes of a cache line. Where a machine has longer lines, fewer are written than asked for.
const LINE_BYTES: usize = 64;
/// Bytes of one block of a pool. Zeroed on get, it is still in the second-level cache when it is written, as a
/// page of the kernel is.
const BLOCK_BYTES: usize = 256 << 10;

/// The phases, in order. The document reports `timed`.
const SETUP: usize = 0;
const SCRUB: usize = 1;
const TIMED: usize = 2;

impl Experiment for FaultRate {
    fn name(&self) -> &'static str {
        "fault-rate"
    }

    fn about(&self) -> &'static str {
        "How many zeroed pages per second can threads get, by cache lines written, and what does zeroing ahead gain?"
    }

    fn documents(&self) -> &'static [Document] {
        &[Document::Prezeroing]
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mib = scope.pick([4, 64, 512, 4 << 10]);
        let most = page::size() / LINE_BYTES;
        let lines: Vec<usize> = (0..=most.ilog2()).map(|log2| 1 << log2).collect();
        let lines = scope.pick([vec![1], vec![1, 8, most], lines.clone(), lines]);
        let mut cells = Vec::new();
        for (arm, _) in ARMS {
            let cell = |threads, lines| {
                let cell = Cell::of("fault-rate").with("arm", arm).with("mib", mib);
                cell.with("threads", threads).with("lines", lines)
            };
            cells.extend(lines.iter().map(|&lines| cell(1, lines)));
            cells.extend(
                scope.threads().into_iter().filter(|&threads| threads > 1).map(|threads| cell(threads, 1)),
            );
        }
        cells
    }

    fn charts(&self) -> &'static [Chart] {
        CHARTS
    }

    fn tables(&self, cells: &Measured) -> Vec<Table> {
        table::tables(cells)
    }

    fn sheet(&self) -> Sheet {
        Sheet {
            usual: &[("lines", "1")],
            columns: &[
                Column { head: "User s", values: |_, found| seconds(found, "user_ns") },
                Column { head: "System s", values: |_, found| seconds(found, "system_ns") },
                Column {
                    head: "Wall s",
                    values: |_, found| wall_ns(found, "timed").iter().map(|ns| ns / 1e9).collect(),
                },
                Column { head: "flt/cpu/s", values: |_, found| per_cpu_s(found) },
                Column { head: "fault/wsec", values: |_, found| per_wall_s(found) },
            ],
            theirs: table::document_rows(),
        }
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        Ok(Asked::of(cell)?.bytes as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let Asked { arm, bytes, threads, lines } = Asked::of(cell)?;
        if threads > bytes / BLOCK_BYTES {
            let least = threads.div_ceil((1 << 20) / BLOCK_BYTES);
            return Err(Refusal(format!("{cell}: threads={threads}: take mib={least} at least for so many")));
        }
        let source = match arm {
            Arm::Kernel => Source::Kernel,
            Arm::OnGet | Arm::Ahead => Source::Pool(open_pool(bytes)?),
        };
        let parts = (0..threads).map(|at| {
            let blocks = |at| bytes / BLOCK_BYTES * at / threads;
            Worker { source, blocks: blocks(at + 1) - blocks(at), lines, held: Held::default() }
        });
        Ok(Box::new(Faulting { arm, bytes, lines, source, parts: parts.collect() }))
    }
}

/// A cell's parameters.
struct Asked {
    arm: Arm,
    bytes: usize,
    threads: usize,
    lines: usize,
}

impl Asked {
    fn of(cell: &Cell) -> Result<Self, Refusal> {
        let arm = cell.choice("arm", &ARMS)?;
        let (bytes, threads, lines) = (cell.mib("mib")?, cell.number("threads")?, cell.number("lines")?);
        let most = page::size() / LINE_BYTES;
        if lines > most {
            return Err(Refusal(format!(
                "{cell}: lines={lines}: takes at most {most}: a page here has {most} lines of {LINE_BYTES} bytes"
            )));
        }
        Ok(Self { arm, bytes, threads, lines })
    }
}

/// A time of the phase `timed`, s.
fn seconds(found: &Quantities, quantity: &str) -> Vec<f64> {
    values(found, "timed", quantity).unwrap_or_default().iter().map(|ns| ns / 1e9).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Arm {
    Kernel,
    OnGet,
    Ahead,
}

const ARMS: [(&str, Arm); 3] = [("kernel", Arm::Kernel), ("on-get", Arm::OnGet), ("ahead", Arm::Ahead)];

/// Where the pages come from.
#[derive(Clone, Copy)]
enum Source {
    Kernel,
    Pool(&'static Pool<Kernel>),
}

/// A pool that keeps everything, without a background thread, so that only the work of this experiment is
/// measured. It lives as long as the process, which measures one cell.
fn open_pool(bytes: usize) -> Result<&'static Pool<Kernel>, Refusal> {
    let retain = Retain { bytes: bytes.saturating_mul(2), decay_ns: None };
    let policy = Policy { page: Page::Base, retain, ..Policy::default() };
    Ok(Box::leak(Box::new(Pool::open(Kernel::default(), policy)?)))
}

struct Faulting {
    arm: Arm,
    bytes: usize,
    lines: usize,
    source: Source,
    /// One for each thread.
    parts: Vec<Worker>,
}

impl Trial for Faulting {
    fn phases(&self) -> Vec<Phase> {
        let (pages, threads) = (self.bytes / page::size(), self.parts.len());
        let written = pages * self.lines;
        // Checksum: the lines written, and the pages that were zeroed while a thread waited.
        let (before, timed, zeroed_on_get) = match self.arm {
            Arm::Kernel => (0, pages, 0),
            Arm::OnGet => (pages, 0, pages),
            Arm::Ahead => (pages, 0, 0),
        };
        let scrubbed = if self.arm == Arm::Ahead { self.bytes / LINE_BYTES } else { 0 };
        // The pool's own pages: a word for each granule in use, and the memory on which the engines are tried,
        // in base pages or larger ones.
        let words =
            if self.arm == Arm::Kernel { 0 } else { self.bytes / tuning::GRANULE_BYTES * size_of::<u64>() };
        let tried = if self.arm == Arm::Ahead { zero::TRIAL_BYTES } else { 0 };
        let setup = Phase::new("setup", before, 2 * threads).touches(before);
        let most = setup.faults.end() + ((words + tried) / page::size()) as u64;
        let setup = setup.faults(before as u64..=most);
        vec![
            setup,
            Phase::new("scrub", 0, 0).work(scrubbed).sum((scrubbed * LINE_BYTES) as u64),
            Phase::new("timed", timed, threads).work(written).sum((written + zeroed_on_get) as u64),
            Phase::new("free", 0, threads),
        ]
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        let Source::Pool(pool) = self.source else {
            return match phase {
                SETUP | SCRUB => Ok(0),
                TIMED => self.get(notes),
                _ => self.free(),
            };
        };
        match phase {
            // Every thread holds all its blocks before any thread frees, so that all of the memory is dirty.
            SETUP => {
                if self.arm == Arm::Ahead {
                    // The first call in a process finds out which engine is fastest.
                    std::hint::black_box(zero::ahead());
                }
                self.all(Job::Dirty)?;
                self.free()
            }
            SCRUB if self.arm == Arm::Ahead => {
                pool.purge_to_bound();
                Ok(std::iter::repeat_with(|| pool.scrub_step(usize::MAX))
                    .take_while(|&bytes| bytes > 0)
                    .sum::<usize>() as u64)
            }
            SCRUB => Ok(0),
            TIMED => {
                let before = pool.stats().cleared_bytes;
                let written = self.get(notes)?;
                Ok(written + (pool.stats().cleared_bytes - before) / page::size() as u64)
            }
            _ => self.free(),
        }
    }
}

impl Faulting {
    fn get(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        notes.add("pages", (self.bytes / page::size()) as f64);
        Ok(self.all(Job::Get)?.noted(notes, false))
    }

    fn free(&mut self) -> Result<u64, Refusal> {
        self.all(Job::Free).map(|done| done.sum)
    }

    /// Has every thread do a job.
    fn all(&mut self, job: Job) -> Result<Done, Refusal> {
        team::together(self.parts.iter_mut().collect(), |part| part.work(job))
    }
}

/// The job of all threads in a phase.
#[derive(Clone, Copy)]
enum Job {
    /// Get the blocks and write every byte of them.
    Dirty,
    /// Get zeroed memory and write to the first lines of each page.
    Get,
    Free,
}

/// One thread's share of the work, and the memory that it holds.
struct Worker {
    source: Source,
    blocks: usize,
    lines: usize,
    held: Held,
}

#[derive(Default)]
struct Held {
    region: Option<Region>,
    blocks: Vec<Block<'static, Kernel>>,
}

impl Worker {
    fn work(&mut self, job: Job) -> Result<u64, Refusal> {
        match (job, self.source) {
            (Job::Free, _) => {
                self.held.region = None;
                self.held.blocks.clear();
                Ok(0)
            }
            (_, Source::Kernel) => {
                let mut region = Region::base_pages(self.blocks * BLOCK_BYTES, page::size())?;
                let written = write_lines(region.bytes_mut(), self.lines);
                self.held.region = Some(region);
                Ok(written)
            }
            (job, Source::Pool(pool)) => {
                self.held.blocks.reserve(self.blocks);
                let mut written = 0;
                for _ in 0..self.blocks {
                    let block = pool.alloc_zeroed(BLOCK_BYTES);
                    let mut block =
                        block.ok_or(Refusal("the pool has no more addresses".into()))?.into_block();
                    match job {
                        Job::Dirty => block.fill(1),
                        _ => written += write_lines(&mut block, self.lines),
                    }
                    self.held.blocks.push(block);
                }
                Ok(written)
            }
        }
    }
}

/// Writes a one to the first lines of each page. Returns the sum of the first two bytes of each line
/// afterwards, which is one per line if the page was zero. Writing comes first, since reading would map the
/// zero page.
fn write_lines(memory: &mut [u8], lines: usize) -> u64 {
    let mut sum = 0;
    for page in memory.chunks_exact_mut(page::size()) {
        for line in page.chunks_exact_mut(LINE_BYTES).take(lines) {
            let [first, second, ..] = line else { continue };
            *std::hint::black_box(&mut *first) = 1;
            sum += u64::from(*first) + u64::from(*second);
        }
    }
    sum
}

const CHARTS: &[Chart] = &[
    Chart {
        id: "fault-rate-threads",
        title: "Zeroed memory per second of the clock, by threads",
        x: "threads",
        x_label: "threads",
        y_label: "GB/s: fault/wsec times the page, 16 KiB in the document",
        values: |cell, found| if is(cell, "lines") { gb_per_s(cell, found, per_wall_s) } else { Vec::new() },
        document: &table::points_by_threads(true),
        ..Chart::BLANK
    },
    Chart {
        id: "fault-rate-cpu",
        title: "Zeroed memory per second of CPU time, by threads",
        x: "threads",
        x_label: "threads",
        y_label: "GB/s: flt/cpu/s times the page, 16 KiB in the document",
        values: |cell, found| if is(cell, "lines") { gb_per_s(cell, found, per_cpu_s) } else { Vec::new() },
        document: &table::points_by_threads(false),
        ..Chart::BLANK
    },
    Chart {
        id: "fault-rate-lines",
        title: "Zeroed memory per second of CPU time, by cache lines written",
        x: "lines",
        x_label: "percent of each page written: its lines of 64 bytes here, of 128 in the document",
        y_label: "GB/s: flt/cpu/s times the page, 16 KiB in the document",
        values: |cell, found| if is(cell, "threads") { gb_per_s(cell, found, per_cpu_s) } else { Vec::new() },
        place: |cell, found| {
            let page_bytes = page_bytes(cell, found)?;
            Some(cell.number("lines").ok()? as f64 * LINE_BYTES as f64 / page_bytes * 100.0)
        },
        document: &table::points_by_lines(),
        ..Chart::BLANK
    },
];

/// Bytes of a page of the measured machine.
fn page_bytes(cell: &Cell, found: &Quantities) -> Option<f64> {
    Some(cell.mib("mib").ok()? as f64 / values(found, "timed", "pages")?.first()?)
}

/// Pages per second, as memory.
fn gb_per_s(cell: &Cell, found: &Quantities, pages_per_s: fn(&Quantities) -> Vec<f64>) -> Vec<f64> {
    let Some(page_bytes) = page_bytes(cell, found) else { return Vec::new() };
    pages_per_s(found).into_iter().map(|rate| rate * page_bytes / 1e9).collect()
}

/// Whether a parameter is 1: the other is then along the axis.
fn is(cell: &Cell, name: &str) -> bool {
    cell.text(name) == Ok("1")
}

/// `flt/cpu/s`: pages by user and system time.
fn per_cpu_s(found: &Quantities) -> Vec<f64> {
    let pages = values(found, "timed", "pages").unwrap_or_default();
    pages.iter().zip(cpu_ns(found, "timed")).map(|(pages, ns)| pages / ns * 1e9).collect()
}

/// `fault/wsec`: pages by elapsed time.
fn per_wall_s(found: &Quantities) -> Vec<f64> {
    let pages = values(found, "timed", "pages").unwrap_or_default();
    pages.iter().zip(wall_ns(found, "timed")).map(|(pages, ns)| pages / ns * 1e9).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial;

    fn cell(arm: &str, threads: usize, lines: usize) -> Cell {
        let cell = Cell::of("fault-rate").with("arm", arm).with("mib", 2);
        cell.with("threads", threads).with("lines", lines)
    }

    #[test]
    fn only_the_kernel_arm_faults_and_only_on_get_zeroes_while_somebody_waits() {
        for (arm, _) in ARMS {
            let mut trial = FaultRate.trial(&cell(arm, 2, 3)).unwrap();
            let phases = trial.phases();
            let returned: Vec<_> =
                (0..phases.len()).map(|at| trial.run(at, &mut Notes::default()).unwrap()).collect();
            for (phase, returned) in phases.iter().zip(returned) {
                assert!(
                    phase.checksum.is_none_or(|expected| expected == returned),
                    "{arm} {}: {returned}",
                    phase.name
                );
            }
        }
    }

    #[test]
    fn what_can_not_be_split_or_written_is_refused_with_the_remedy() {
        let refused = |cell| trial::measure(&FaultRate, &cell).refused.unwrap_or_default();
        assert!(refused(cell("kernel", 1000, 1)).contains("take mib="));
        assert!(refused(cell("kernel", 1, page::size())).contains("a page here has"));
        assert!(refused(cell("other", 1, 1)).contains("takes kernel, on-get or ahead"));
    }

    #[test]
    fn memory_that_was_not_zero_shows() {
        let mut memory = vec![0_u8; 2 * page::size()];
        assert_eq!(write_lines(&mut memory, 3), 6);
        memory.fill(1);
        assert_eq!(write_lines(&mut memory, 3), 12);
    }
}
