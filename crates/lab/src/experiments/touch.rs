//! touch: first and second touch of new memory, by reading or writing, by threads and size.
//!
//! "Bringing The Hardware And Windows To Its Limits" touches 2000 MB twice, but its listing never makes the
//! second touch. Here both are phases, and both must return the values that they read. A page that is written
//! first takes one fault the first time and none the second. A page that is read first takes a fault on the
//! zero page.
//!
//! `lock=yes` is the document's workaround: mlock (its VirtualLock) faults every page in from one thread, before
//! many threads touch them. `mappers` threads map, touch and unmap a file meanwhile. With `flush=yes` they drop it
//! from the page cache before each time, like `-flush` in the document's program. With mappers, only the faults of
//! the touching threads have an expected count.
//!
//! Each thread touches a contiguous part. THP is off for the memory; the price of THP is in `price`.

use std::fs::File;
use std::io::Write;

use faultless_os::file::{self, FileMap};
use faultless_os::host::{Host, Memory};
use faultless_os::touch::Region;
use faultless_os::{map, page};

use super::memory;
use super::team::{self, Beside};
use crate::cell::{Cell, Refusal};
use crate::datafile;
use crate::experiment::{Chart, Column, Document, Effort, Experiment, Notes, Phase, Scope, Sheet, Trial};
use crate::results::{Quantities, cpu_ns, mib_per_s, us_per_page, wall_ms, wall_ns};

pub(super) struct Touch;

impl Experiment for Touch {
    fn name(&self) -> &'static str {
        "touch"
    }

    fn about(&self) -> &'static str {
        "What do the first and the second touch of a page cost, and do they scale with threads?"
    }

    fn documents(&self) -> &'static [Document] {
        &[Document::Hardware]
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let sizes: &[usize] = scope.pick([&[4], &[64], &[64, 512], &[16, 256, 2000]]);
        let plain = |access, mib, threads| Variant { access, mib, threads, ..Variant::default() };
        let mut cells = Vec::new();
        for access in ["write", "read"] {
            for &mib in sizes {
                for threads in scope.threads() {
                    // Reading maps one shared page: one size shows its scaling.
                    if access == "write" || mib == sizes[0] || scope.effort == Effort::Full {
                        cells.push(plain(access, mib, threads));
                    }
                }
            }
        }
        // Most users may lock little memory: the same size is measured without the lock, too.
        let mib = lockable_mib(scope.host, sizes[0]);
        for threads in [1, scope.processors] {
            cells.push(plain("write", mib, threads));
            cells.push(Variant { lock: true, ..plain("write", mib, threads) });
        }
        let mappers: &[usize] = scope.pick([&[1], &[1], &[1, 2], &[1, 2, 4, 8]]);
        for &mappers in mappers {
            for flush in [false, true] {
                cells.push(Variant { mappers, flush, ..plain("write", sizes[0], 1) });
                if scope.effort >= Effort::Default {
                    cells.push(Variant { mappers, flush, ..plain("write", sizes[0], scope.processors) });
                }
            }
        }
        let mut cells: Vec<Cell> = cells.into_iter().map(Variant::cell).collect();
        cells.sort();
        cells.dedup();
        cells
    }

    fn charts(&self) -> &'static [Chart] {
        CHARTS
    }

    fn sheet(&self) -> Sheet {
        Sheet {
            usual: &[("access", "write"), ("lock", "no"), ("mappers", "0"), ("flush", "no")],
            columns: &[
                Column { head: "touch 1 ms", values: |_, found| wall_ms(found, "first") },
                Column { head: "touch 1 us/page", values: |cell, found| us_per_page(cell, found, "first") },
                Column { head: "touch 1 MB/s", values: |cell, found| mib_per_s(cell, found, "first") },
                Column { head: "touch 2 ms", values: |_, found| wall_ms(found, "second") },
                Column { head: "touch 2 us/page", values: |cell, found| us_per_page(cell, found, "second") },
                Column { head: "lock ms", values: |_, found| wall_ms(found, "lock") },
                Column { head: "lock us/page", values: |cell, found| us_per_page(cell, found, "lock") },
            ],
            theirs: vec![(
                vec![("access", "write".into()), ("mib", "2000".into()), ("threads", "1".into())],
                vec![Some(377.0), None, None, None, None, None, None],
            )],
        }
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        Ok(Asked::of(cell)?.len_bytes as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let Asked { writes, len_bytes, threads, lock, mappers, flush } = Asked::of(cell)?;
        let mut steps = vec![Step::Map];
        steps.extend(lock.then_some(Step::Lock));
        steps.extend((mappers > 0).then_some(Step::Begin));
        steps.extend([Step::First, Step::Second]);
        steps.extend((mappers > 0).then_some(Step::End));
        steps.push(Step::Look);
        let limits = limits();
        Ok(Box::new(Touching {
            steps,
            len_bytes,
            writes,
            threads,
            lock,
            mappers,
            flush,
            limits,
            region: None,
            beside: None,
        }))
    }
}

/// A cell's parameters.
struct Asked {
    writes: bool,
    len_bytes: usize,
    threads: usize,
    lock: bool,
    mappers: usize,
    flush: bool,
}

impl Asked {
    fn of(cell: &Cell) -> Result<Self, Refusal> {
        Ok(Self {
            writes: cell.choice("access", &[("write", true), ("read", false)])?,
            len_bytes: cell.mib("mib")?,
            threads: cell.number("threads")?,
            lock: cell.flag("lock")?,
            mappers: cell.count("mappers")?,
            flush: cell.flag("flush")?,
        })
    }
}

/// The parameters of a cell.
#[derive(Clone, Copy, Default)]
struct Variant {
    access: &'static str,
    mib: usize,
    threads: usize,
    lock: bool,
    mappers: usize,
    flush: bool,
}

impl Variant {
    fn cell(self) -> Cell {
        let word = |flag| if flag { "yes" } else { "no" };
        Cell::of("touch")
            .with("access", self.access)
            .with("mib", self.mib)
            .with("threads", self.threads)
            .with("lock", word(self.lock))
            .with("mappers", self.mappers)
            .with("flush", word(self.flush))
    }
}

/// The largest power of two of MiB up to `most` that this user may lock and still map a little more; at least
/// 1.
fn lockable_mib(host: &Host, most: usize) -> usize {
    let limit = if host.root { None } else { host.limits.memlock_bytes };
    let allowed = limit.map_or(most, |bytes| (bytes >> 20) as usize).min(most).max(1);
    1 << allowed.ilog2()
}

fn pages(cell: &Cell) -> f64 {
    cell.number("mib").map_or(1, |mib| (mib << 20) / page::size()) as f64
}

/// Of cells without anything before or beside.
fn alone<'a>(cell: &Cell, found: &'a Quantities, phase: &str) -> &'a [f64] {
    let is_alone = cell.flag("lock") == Ok(false) && cell.count("mappers") == Ok(0);
    if is_alone { wall_ns(found, phase) } else { &[] }
}

fn per_page(cell: &Cell, found: &Quantities, phase: &str) -> Vec<f64> {
    alone(cell, found, phase).iter().map(|ns| ns / 1e3 / pages(cell)).collect()
}

fn mb_per_s(cell: &Cell, found: &Quantities, phase: &str) -> Vec<f64> {
    let bytes = cell.mib("mib").unwrap_or(0) as f64;
    alone(cell, found, phase).iter().map(|ns| bytes / ns * 1e3).collect()
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
    let committed = Memory::now().committed_bytes;
    drop(std::hint::black_box(held));
    committed.map(|bytes| bytes as f64)
}

/// How much memory all programs together may commit here, and how much memory and swap there is.
fn limits() -> Option<(f64, f64)> {
    let memory = Memory::now();
    let swap = Host::read().swaps.unwrap_or_default().iter().map(|swap| swap.len_bytes).sum::<u64>();
    Some((memory.commit_limit_bytes? as f64, (memory.total_bytes? + swap) as f64))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Map,
    Lock,
    /// Threads beside begin to map a file.
    Begin,
    First,
    Second,
    End,
    Look,
}

struct Touching {
    steps: Vec<Step>,
    len_bytes: usize,
    writes: bool,
    threads: usize,
    lock: bool,
    mappers: usize,
    flush: bool,
    limits: Option<(f64, f64)>,
    region: Option<Region>,
    beside: Option<Beside>,
}

/// The turns of [`memory::mark`].
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// Bytes of the file that threads beside map: several turns fit into the shortest touch.
const FILE_BYTES: usize = 256 << 10;

impl Trial for Touching {
    fn phases(&self) -> Vec<Phase> {
        let pages = self.len_bytes / page::size();
        let touched = if self.lock { 0 } else { pages };
        let marks = |turn| memory::marks(0..pages, turn);
        let phase = |step: &Step| match step {
            Step::Map => Phase::new("map", 0, 0),
            Step::Lock => Phase::new("lock", pages, 0),
            // Between one fault and one per page of the file, as often as the threads get to it.
            Step::Begin => Phase::new("begin", 0, 0).faults(0..=u64::MAX),
            Step::First => Phase::new("first", touched, self.threads).touches(pages).sum(marks(FIRST)),
            Step::Second => Phase::new("second", 0, self.threads).touches(pages).sum(marks(SECOND)),
            Step::End => Phase::new("end", 0, 0).faults(0..=u64::MAX).sum(1),
            // The values after the second touch.
            Step::Look => {
                let look = Phase::new("look", 0, 0);
                let most = look.faults.end() + COMMIT_PARTS as u64;
                look.faults(0..=most).sum(if self.writes { marks(SECOND) } else { 0 })
            }
        };
        self.steps.iter().map(phase).collect()
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        match self.steps[phase] {
            Step::Map => {
                let region = Region::base_pages(self.len_bytes, page::size())?;
                note_resident(&region, notes);
                self.region = Some(region);
            }
            Step::Lock => self
                .region()?
                .lock()
                .map_err(|error| Refusal(format!("{error}; allow more with `ulimit -l`, or as root")))?,
            Step::Begin => self.beside = Some(map_beside(self.mappers, self.flush)?),
            Step::First => return self.touch(FIRST, notes),
            Step::Second => return self.touch(SECOND, notes),
            Step::End => return self.beside.take().map_or(Ok(0), |beside| beside.end(notes)),
            Step::Look => {
                note_resident(self.region()?, notes);
                team::note_processors(notes);
                if let Some((limit, memory)) = self.limits {
                    notes.add("commit_limit_bytes", limit);
                    notes.add("memory_and_swap_bytes", memory);
                    let is_strict = map::commit_is_strict();
                    if let Some(committed) = most_committed_bytes(memory, is_strict) {
                        notes.add("most_committed_bytes", committed);
                        notes.add("is_commit_strict", f64::from(u8::from(is_strict)));
                    }
                }
                return Ok(self.region()?.touch_read(page::size()));
            }
        }
        Ok(0)
    }
}

impl Touching {
    fn region(&mut self) -> Result<&mut Region, Refusal> {
        self.region.as_mut().ok_or_else(|| Refusal("touch: nothing is mapped: map is its first phase".into()))
    }

    /// One access per page by all threads; returns the sum of the values afterwards.
    fn touch(&mut self, turn: u8, notes: &mut Notes) -> Result<u64, Refusal> {
        let (writes, threads, is_alone) = (self.writes, self.threads, self.beside.is_none());
        let bytes = self.region()?.atomics();
        let parts = team::parts(bytes.len() / page::size(), threads);
        let done = team::together(parts, |part| Ok(memory::touch(bytes, part, turn, writes)))?;
        Ok(done.noted(notes, !is_alone))
    }
}

fn note_resident(region: &Region, notes: &mut Notes) {
    notes.add("resident_bytes", region.resident_bytes() as f64);
    notes.add("mapped_bytes", region.len_bytes() as f64);
}

/// Threads that map, touch and unmap a small file of their own, and drop it from the page cache before each
/// time if asked for.
fn map_beside(threads: usize, flush: bool) -> Result<Beside, Refusal> {
    let mut file = tempfile::tempfile()?;
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| memory::mark(at, FIRST)).collect();
    let sum = bytes.chunks(page::size()).map(|page| datafile::sum(&page[..file::WORD_BYTES]));
    let sum = sum.fold(0, u64::wrapping_add);
    file.write_all(&bytes)?;
    file.sync_all()?;
    if flush {
        memory::forget(&file, FILE_BYTES, "flush=yes")?;
    }
    Ok(Beside::start(threads, sum, move || touch_file(&file, flush)))
}

/// Reads a word of every page; returns the sum.
fn touch_file(file: &File, flush: bool) -> Result<u64, Refusal> {
    if flush {
        file::forget(file)?;
    }
    let map = FileMap::new(file, FILE_BYTES)?;
    Ok(map.sum(0..FILE_BYTES, page::size() / file::WORD_BYTES))
}

/// The size in the document: 2000 times 2^20 bytes, in MB.
const MB: f64 = (2000 << 20) as f64 / 1e6;

const CHARTS: &[Chart] = &[
    Chart {
        id: "touch-first",
        title: "First touch by threads",
        x: "threads",
        x_label: "threads",
        y_label: "us per page, all threads together",
        values: |cell, found| per_page(cell, found, "first"),
        // 377 ms for the 512,000 pages of 2000 MB, by one thread.
        document: &[("Windows 10, release build", 1.0, 0.736)],
        ..Chart::BLANK
    },
    Chart {
        id: "touch-second",
        title: "Second touch by threads",
        x: "threads",
        x_label: "threads",
        y_label: "us per page, all threads together",
        values: |cell, found| per_page(cell, found, "second"),
        // 13 ms: the debug build, whose C library had written the memory.
        document: &[("Windows 10, debug build", 1.0, 0.0254)],
        ..Chart::BLANK
    },
    Chart {
        id: "touch-first-rate",
        title: "First touch by threads, as memory",
        x: "threads",
        x_label: "threads",
        y_label: "MB of memory touched per second, all threads together",
        values: |cell, found| mb_per_s(cell, found, "first"),
        document: &[("Windows 10, release build", 1.0, MB / 0.377)],
        ..Chart::BLANK
    },
    Chart {
        id: "touch-second-rate",
        title: "Second touch by threads, as memory",
        x: "threads",
        x_label: "threads",
        y_label: "MB of memory touched per second, all threads together",
        values: |cell, found| mb_per_s(cell, found, "second"),
        document: &[("Windows 10, debug build", 1.0, MB / 0.013)],
        ..Chart::BLANK
    },
    Chart {
        id: "touch-beside",
        title: "First touch while threads map, touch and unmap a file",
        x: "mappers",
        x_label: "threads that map the file",
        y_label: "CPU us per page",
        idle: &["flush"],
        values: |cell, found| {
            let is_measured = cell.flag("lock") == Ok(false) && cell.text("access") == Ok("write");
            if !is_measured {
                return Vec::new();
            }
            cpu_ns(found, "first").iter().map(|ns| ns / 1e3 / pages(cell)).collect()
        },
        ..Chart::BLANK
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_locked_is_asked_for() {
        let mut host = Host { root: false, ..Host::default() };
        host.limits.memlock_bytes = Some(8 << 20);
        assert_eq!(lockable_mib(&host, 64), 8);
        host.limits.memlock_bytes = Some(64 << 10);
        assert_eq!(lockable_mib(&host, 64), 1);
        host.limits.memlock_bytes = None;
        assert_eq!(lockable_mib(&host, 48), 32);
    }
}
