//! filemap: a file's random data, read by page faults through a mapping, or by read(2) into new memory.
//!
//! One fault maps the cached part of the aligned window around it (fault-around). The window is 64 KiB unless root
//! has changed `/sys/kernel/debug/fault_around_bytes`, which only root can read, so the fault count shows its size.
//! Where the page cache has a folio of a whole page-table page, 2 MiB on x86-64, one fault maps all its pages. That
//! was seen on ext4 with Linux 6.18, with and without MADV_NOHUGEPAGE. Readahead of a large file makes such folios;
//! writing it in pieces of 64 KiB, as here, does not. A page that is not cached takes a major fault, and readahead
//! decides how many major faults there are.
//!
//! | parameter | meaning |
//! |---|---|
//! | `how=fault` | read the mapping as it is |
//! | `how=willneed` | first start reading the file into the page cache (MADV_WILLNEED), until the first page is there |
//! | `how=populate` | first map the whole file (MADV_POPULATE_READ, Linux 5.14) |
//! | `how=read` | read(2) into new memory, the document's case: the kernel takes a fault per page of the buffer |
//! | `cache=warm` | read from the page cache |
//! | `cache=cold` | drop the file from the page cache before (posix_fadvise); `os::file` compares it with root's drop_caches |
//!
//! The file is temporary, unless the variable FAULTLESS_LAB_DATAFILE names another: `faultless lab datafile`
//! makes one.

use std::fs::File;
use std::io::{Read, Seek};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;

use faultless_os::file::{self, FileMap};
use faultless_os::touch::{Advice, Region};
use faultless_os::{advise, counters, page};

use super::team;
use crate::cell::{Cell, Refusal};
use crate::datafile::{self, WORD_BYTES};
use crate::experiment::{Chart, Column, Document, Effort, Experiment, Notes, Phase, Scope, Sheet, Trial};
use crate::results::{mib_per_s, us_per_page, wall_ms, wall_ns};

pub(super) struct Filemap;

/// Names a file that replaces the temporary one.
const VARIABLE: &str = "FAULTLESS_LAB_DATAFILE";
/// Linux's fault-around since 3.15, where it can't be read.
const USUAL_WINDOW_BYTES: usize = 64 << 10;
/// Seed of the temporary file's data.
const SEED: u64 = 1;

impl Experiment for Filemap {
    fn name(&self) -> &'static str {
        "filemap"
    }

    fn about(&self) -> &'static str {
        "What does reading a file by page faults cost, and what do fault-around and prefetching save?"
    }

    fn documents(&self) -> &'static [Document] {
        &[Document::Hardware]
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mib = scope.pick([4, 16, 128, 1024]);
        let mut cells = Vec::new();
        for cache in ["warm", "cold"] {
            for (how, _) in HOWS {
                let each = |threads| {
                    let cell = Cell::of("filemap").with("how", how).with("cache", cache);
                    cell.with("mib", mib).with("threads", threads)
                };
                if how == "fault" && cache == "warm" || scope.effort == Effort::Full {
                    cells.extend(scope.threads().into_iter().map(each));
                } else {
                    cells.push(each(1));
                }
            }
        }
        cells
    }

    fn charts(&self) -> &'static [Chart] {
        CHARTS
    }

    fn sheet(&self) -> Sheet {
        Sheet {
            usual: &[("cache", "warm")],
            columns: &[
                Column { head: "prefetch ms", values: |_, found| wall_ms(found, "prefetch") },
                Column { head: "first ms", values: |_, found| wall_ms(found, "first") },
                Column { head: "first MB/s", values: |cell, found| mib_per_s(cell, found, "first") },
                Column { head: "first us/page", values: |cell, found| us_per_page(cell, found, "first") },
                Column { head: "second ms", values: |_, found| wall_ms(found, "second") },
            ],
            theirs: Vec::new(),
        }
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        // The page cache, and the buffer of read(2).
        let copies = if cell.choice("how", &HOWS)? == How::Read { 2 } else { 1 };
        cell.choice("cache", &CACHES)?;
        cell.number("threads")?;
        Ok(cell.mib("mib")? as u64 * copies)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let how = cell.choice("how", &HOWS)?;
        let is_cold = cell.choice("cache", &CACHES)?;
        let (len_bytes, threads) = (cell.mib("mib")?, cell.number("threads")?);
        let Data { file, sum, is_written_here } = data(len_bytes)?;
        if is_cold {
            // Only pages that are on the disk can leave the page cache. A file system without sync has no disk.
            file.sync_all()?;
        }
        let has_large_folios = is_cold || !is_written_here;
        Ok(Box::new(Reading {
            file,
            len_bytes,
            sum,
            how,
            is_cold,
            has_large_folios,
            threads,
            held: Held::Nothing,
        }))
    }
}

/// The file of a cell.
struct Data {
    file: File,
    /// The sum of its words.
    sum: u64,
    is_written_here: bool,
}

fn data(len_bytes: usize) -> Result<Data, Refusal> {
    let Some(path) = std::env::var_os(VARIABLE) else {
        let mut file = tempfile::tempfile()?;
        let sum = datafile::write(&mut file, len_bytes as u64, SEED).map_err(|error| {
            let folder = std::env::temp_dir();
            Refusal(format!("{}: {error}; make room there or set TMPDIR", folder.display()))
        })?;
        return Ok(Data { file, sum, is_written_here: true });
    };
    let path = std::path::PathBuf::from(path);
    let failed = |what: String| {
        let (path, mib) = (path.display(), len_bytes >> 20);
        Refusal(format!("{path}: {what}; make it with `faultless lab datafile {path} --mib {mib}`"))
    };
    let file = File::open(&path).map_err(|error| failed(error.to_string()))?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let path = path.display();
        return Err(Refusal(format!(
            "FAULTLESS_LAB_DATAFILE={path}: is no file; name one in a folder that can be written"
        )));
    }
    let there = metadata.len();
    if there < len_bytes as u64 {
        return Err(failed(format!("holds {} MiB, and {} are to be read", there >> 20, len_bytes >> 20)));
    }
    let sum = sum_of(&file, len_bytes).map_err(|error| failed(error.to_string()))?;
    Ok(Data { file, sum, is_written_here: false })
}

/// Reads the file through; returns the sum of its words.
fn sum_of(file: &File, len_bytes: usize) -> std::io::Result<u64> {
    let (mut from, mut piece) = (file, [0; 16 * 1024]);
    let (mut sum, mut left) = (0_u64, len_bytes);
    from.rewind()?;
    while left > 0 {
        let len = left.min(piece.len());
        from.read_exact(&mut piece[..len])?;
        sum = sum.wrapping_add(datafile::sum(&piece[..len]));
        left -= len;
    }
    Ok(sum)
}

/// Base pages that one fault maps where they are cached.
fn window_pages() -> usize {
    let told = std::fs::read_to_string("/sys/kernel/debug/fault_around_bytes").ok();
    let bytes = told.and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL_WINDOW_BYTES);
    (bytes / page::size()).max(1)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Fault,
    Prefetch(Advice),
    Read,
}

const CACHES: [(&str, bool); 2] = [("warm", false), ("cold", true)];
const HOWS: [(&str, How); 4] = [
    ("fault", How::Fault),
    ("willneed", How::Prefetch(Advice::WillNeed)),
    ("populate", How::Prefetch(Advice::PopulateRead)),
    ("read", How::Read),
];

/// Waits until a part of a file is in the page cache; returns whether it came.
fn has_begun(map: &FileMap) -> bool {
    const PATIENCE_NS: u64 = 5_000_000_000;
    let begin_ns = counters::now_ns();
    while map.cached_bytes() == 0 {
        if counters::now_ns() - begin_ns > PATIENCE_NS {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

enum Held {
    Nothing,
    Mapping(FileMap),
    Buffer(Region),
}

struct Reading {
    file: File,
    len_bytes: usize,
    sum: u64,
    how: How,
    is_cold: bool,
    /// Whether the page cache may have folios that one fault maps completely.
    has_large_folios: bool,
    threads: usize,
    held: Held,
}

impl Trial for Reading {
    fn phases(&self) -> Vec<Phase> {
        let (pages, words) = (self.len_bytes / page::size(), self.len_bytes / WORD_BYTES);
        let setup = Phase::new("setup", 0, 0);
        let prefetch = Phase::new("prefetch", 0, 0);
        let first = Phase::new("first", 0, self.threads).work(words / 8).sum(self.sum);
        let second = Phase::new("second", 0, self.threads).work(words / 8).sum(self.sum);
        let mapped = |phase: Phase, threads| Phase { faults: self.mapped(pages, threads), ..phase };
        match self.how {
            How::Fault => vec![setup, prefetch, mapped(first, self.threads), second],
            How::Prefetch(Advice::WillNeed) => {
                vec![setup, prefetch.sum(1), mapped(first, self.threads), second]
            }
            How::Prefetch(_) => vec![setup, mapped(prefetch, 0), first, second],
            // The kernel touches the buffer, one page at a time.
            How::Read => {
                vec![setup, prefetch, Phase::new("first", pages, self.threads).sum(self.sum), second]
            }
        }
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        match phase {
            0 => self.set_up(notes),
            1 => self.prefetch(),
            _ => self.read(notes),
        }
    }
}

impl Reading {
    /// The faults of a mapping that is read once: one per window where everything is cached, otherwise up to
    /// one per page.
    fn mapped(&self, pages: usize, threads: usize) -> RangeInclusive<u64> {
        let windows = pages.div_ceil(window_pages());
        let folios = match advise::pmd_bytes() {
            pmd_bytes if pmd_bytes > 0 && self.has_large_folios => self.len_bytes.div_ceil(pmd_bytes),
            _ => windows,
        };
        let most = if self.is_cold { pages } else { windows };
        let most = Phase::new("", most, threads).faults;
        (folios.min(windows) as u64)..=*most.end()
    }

    /// Fills or empties the page cache.
    fn set_up(&self, notes: &mut Notes) -> Result<u64, Refusal> {
        if self.is_cold {
            file::forget(&self.file)?;
        } else {
            sum_of(&self.file, self.len_bytes)?;
        }
        let cached = FileMap::new(&self.file, self.len_bytes)?.cached_bytes();
        notes.add("cached_bytes", cached as f64);
        if self.is_cold && cached > self.len_bytes / 64 {
            return Err(Refusal(format!(
                "cache=cold: {} of {} MiB stay in the page cache: name a file of your own on a disk with {VARIABLE}, or set \
                 TMPDIR",
                cached >> 20,
                self.len_bytes >> 20
            )));
        }
        Ok(0)
    }

    fn prefetch(&mut self) -> Result<u64, Refusal> {
        if self.how == How::Read {
            self.held = Held::Buffer(Region::base_pages(self.len_bytes, page::size())?);
            return Ok(0);
        }
        let map = FileMap::new(&self.file, self.len_bytes)?;
        // A kernel without THP refuses, and has base pages anyway.
        let _ = map.advise(Advice::NoHugePage);
        if let How::Prefetch(advice) = self.how {
            map.advise(advice).map_err(|error| match advice {
                Advice::PopulateRead => Refusal(format!("{error}; it takes Linux 5.14")),
                _ => error.into(),
            })?;
        }
        let has_begun = self.how == How::Prefetch(Advice::WillNeed) && has_begun(&map);
        self.held = Held::Mapping(map);
        Ok(u64::from(has_begun))
    }

    fn read(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let (file, threads) = (&self.file, self.threads);
        let done = match &mut self.held {
            Held::Nothing => return Err(Refusal("filemap: prefetch comes before reading".into())),
            Held::Mapping(map) => {
                let (map, page_bytes) = (&*map, page::size());
                team::together(team::parts(map.len_bytes() / page_bytes, threads), |part| {
                    Ok(map.sum(part.start * page_bytes..part.end * page_bytes, 1))
                })?
            }
            Held::Buffer(region) => {
                let starts = team::parts(region.len_bytes() / page::size(), threads);
                let buffers = team::cut(region.bytes_mut(), threads, page::size());
                let parts = starts.into_iter().map(|part| part.start * page::size()).zip(buffers).collect();
                team::together(parts, |(start, buffer)| {
                    let read = file.read_exact_at(buffer, start as u64);
                    read.map_err(|error| {
                        Refusal(format!("filemap: {error}; leave the file alone meanwhile"))
                    })?;
                    Ok(datafile::sum(buffer))
                })?
            }
        };
        Ok(done.noted(notes, false))
    }
}

const CHARTS: &[Chart] = &[Chart {
    id: "filemap-first",
    title: "Reading a file that is in the page cache",
    x: "threads",
    x_label: "threads",
    y_label: "GB/s, prefetching included",
    values: |cell, found| {
        if cell.text("cache") != Ok("warm") {
            return Vec::new();
        }
        let bytes = cell.number("mib").map_or(0, |mib| mib << 20) as f64;
        let wall = |phase| wall_ns(found, phase);
        wall("prefetch").iter().zip(wall("first")).map(|(a, b)| bytes / (a + b)).collect()
    },
    ..Chart::BLANK
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faults_of_a_cold_file_are_bounded_by_its_pages() {
        let mut reading = Reading {
            file: tempfile::tempfile().unwrap(),
            len_bytes: 1 << 20,
            sum: 0,
            how: How::Fault,
            is_cold: false,
            has_large_folios: false,
            threads: 1,
            held: Held::Nothing,
        };
        let warm = reading.mapped(1024, 1);
        (reading.is_cold, reading.has_large_folios) = (true, true);
        let cold = reading.mapped(1024, 1);
        assert!(cold.start() <= warm.start());
        assert!(*warm.end() < 512 && *cold.end() >= 1024, "{warm:?} {cold:?}");
    }
}
