//! major: what a major fault costs beside a minor one, and whether it holds up threads that map memory.
//!
//! "Bringing The Hardware And Windows To Its Limits" calls hard faults "very slow" without a figure, and a footnote of
//! "A queue of page faults" says that a thread which waits for one blocked threads with virtual memory operations.
//!
//! `source` is where a page comes from: a file that is not in the page cache, the same file in the page cache
//! (`cached`), swap (in zram or in a file on a disk), or nowhere (`anonymous`, a first touch). One page of each 64 KiB
//! is read, in a random order, without read-ahead. So each read is one fault, major for `file` and `swap`. Only of
//! `cached` may one fault serve several reads: it maps a whole folio. Each source has an expected number of major faults, too: all, or none.
//!
//! `source=maps` maps, touches and unmaps 64 KiB again and again. With `beside=major` another thread takes major faults
//! of a file meanwhile; with `beside=process` another process does. The process shares the disk and the processors, and
//! not the address space: what threads add to it is waiting for each other's address space.

use std::fs::File;

use faultless_os::advise::Advice;
use faultless_os::counters::{self, Who};
use faultless_os::file::FileMap;
use faultless_os::host::Host;
use faultless_os::touch::{Reader, Region};
use faultless_os::{page, procfs};
use faultless_trace::measurement::Rng;

use super::memory;
use super::team::{self, Beside};
use crate::cell::{Cell, Refusal};
use crate::datafile;
use crate::experiment::{Chart, Column, Document, Experiment, Notes, Phase, Scope, Sheet, Trial};
use crate::results::{Quantities, values, wall_ns};

pub(super) struct Major;

/// One page of so many bytes is read: no fault maps the page of the next read.
const WINDOW: usize = 64 << 10;
/// Maps, touches and unmaps of a cell, for each MiB.
const MAPS_PER_MIB: usize = 64;
/// Seed of the order, and of the file.
const SEED: u64 = 10;
/// How often the kernel is asked to write memory to swap. It keeps pages that are still being written.
const ATTEMPTS: usize = 50;
/// A neighbour begins within this time.
const PATIENCE_NS: u64 = 1_000_000_000;

/// The remedy for want of swap: in zram, or in a file on a disk, which has the disk's price.
const SWAP: &str = "take swap in zram or in a file; as root, modprobe zram && echo 1G >/sys/block/zram0/disksize && \
                    mkswap /dev/zram0 && swapon -p 9 /dev/zram0, or fallocate -l 1G FILE && chmod 600 FILE && mkswap FILE && \
                    swapon FILE";

impl Experiment for Major {
    fn name(&self) -> &'static str {
        "major"
    }

    fn about(&self) -> &'static str {
        "What does a major fault cost beside a minor one, and does it hold up threads that map memory?"
    }

    fn documents(&self) -> &'static [Document] {
        &[Document::Hardware, Document::Queue]
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mib = scope.pick([4, 16, 64, 256]);
        let cell = |source: &str, beside: &str| {
            Cell::of("major").with("source", source).with("beside", beside).with("mib", mib)
        };
        let mut cells: Vec<Cell> = SOURCES.iter().map(|(source, _)| cell(source, "none")).collect();
        cells.extend(["major", "process"].map(|beside| cell("maps", beside)));
        cells
    }

    fn charts(&self) -> &'static [Chart] {
        CHARTS
    }

    fn sheet(&self) -> Sheet {
        Sheet {
            usual: &[],
            columns: &[
                Column { head: "us each", values: us_each },
                Column {
                    head: "major faults",
                    values: |_, found| values(found, "touch", "major_faults").unwrap_or_default().to_vec(),
                },
            ],
            theirs: Vec::new(),
        }
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        Ok(Asked::of(cell)?.len_bytes as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let Asked { source, neighbour, len_bytes } = Asked::of(cell)?;
        if source == Source::Swap {
            let free = Host::read().swaps.unwrap_or_default();
            if free.iter().map(|swap| swap.len_bytes).sum::<u64>() < len_bytes as u64 {
                return Err(Refusal(format!("{cell}: there is no swap for {} MiB: {SWAP}", len_bytes >> 20)));
            }
        }
        let places = places(len_bytes);
        Ok(Box::new(Reading {
            source,
            neighbour,
            len_bytes,
            places,
            held: None,
            thread: None,
            process: None,
        }))
    }
}

/// A cell's parameters.
struct Asked {
    source: Source,
    neighbour: Option<Neighbour>,
    len_bytes: usize,
}

impl Asked {
    fn of(cell: &Cell) -> Result<Self, Refusal> {
        let source = cell.choice("source", &SOURCES)?;
        let neighbours =
            [("none", None), ("major", Some(Neighbour::Thread)), ("process", Some(Neighbour::Process))];
        let neighbour = cell.choice("beside", &neighbours)?;
        if neighbour.is_some() && source != Source::Maps {
            let word = cell.text("beside")?;
            return Err(Refusal(format!("{cell}: beside={word} is for source=maps")));
        }
        Ok(Self { source, neighbour, len_bytes: cell.mib("mib")? })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    File,
    Cached,
    Swap,
    Anonymous,
    Maps,
}

const SOURCES: [(&str, Source); 5] = [
    ("file", Source::File),
    ("cached", Source::Cached),
    ("swap", Source::Swap),
    ("anonymous", Source::Anonymous),
    ("maps", Source::Maps),
];

/// A byte offset in each window, in a random order.
fn places(len_bytes: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..len_bytes / WINDOW).map(|window| window * WINDOW).collect();
    Rng::from_seed(SEED).shuffle(&mut places);
    places
}

const CHARTS: &[Chart] = &[Chart {
    id: "major-each",
    title: "A fault by where its page comes from, and a mapping beside major faults",
    x: "source",
    x_label: "source of the page",
    y_label: "us per fault; maps: us per map, touch and unmap",
    values: us_each,
    ..Chart::BLANK
}];

/// Wall time of a fault, or of a map, touch and unmap, us.
fn us_each(cell: &Cell, found: &Quantities) -> Vec<f64> {
    let wall_us = wall_ns(found, "touch").iter().map(|ns| ns / 1e3);
    if cell.text("source") == Ok("maps") {
        let count = cell.number("mib").unwrap_or(0) * MAPS_PER_MIB;
        return wall_us.map(|us| us / count as f64).collect();
    }
    let of = |quantity| values(found, "touch", quantity).unwrap_or_default().iter();
    let faults = of("minor_faults").zip(of("major_faults")).map(|(minor, major)| minor + major);
    wall_us.zip(faults).map(|(us, faults)| us / faults.max(1.0)).collect()
}

enum Held {
    File(FileMap),
    Memory(Region),
}

struct Reading {
    source: Source,
    neighbour: Option<Neighbour>,
    len_bytes: usize,
    places: Vec<usize>,
    held: Option<Held>,
    thread: Option<Beside>,
    process: Option<Reader>,
}

/// Who takes major faults beside the mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbour {
    Thread,
    Process,
}

const SETUP: usize = 0;
const TOUCH: usize = 1;

impl Trial for Reading {
    fn phases(&self) -> Vec<Phase> {
        let setup = match self.source {
            // A swap file on a disk takes more, at most one fault a page and attempt: see `swapped`.
            Source::Swap => {
                let pages = (self.len_bytes / page::size()) as u64;
                Phase::new("setup", 0, 0).faults(pages..=pages * (1 + ATTEMPTS as u64))
            }
            // Threads beside take faults of their own.
            _ => Phase::new("setup", 0, 0).faults(0..=u64::MAX),
        };
        let count = self.places.len();
        let touch = match self.source {
            Source::Maps => {
                let count = self.maps();
                Phase::new("touch", count, 1).touches(count).sum(count as u64)
            }
            // The checksum is the number of major faults.
            Source::File | Source::Swap => Phase::new("touch", count, 0).touches(count).sum(count as u64),
            // One fault maps a whole folio of the page cache, which may be larger than a window.
            Source::Cached => {
                let touch = Phase::new("touch", count, 0).touches(count).sum(0);
                let most = *touch.faults.end();
                touch.faults(1..=most)
            }
            Source::Anonymous => Phase::new("touch", count, 0).touches(count).sum(0),
        };
        let end = Phase::new("end", 0, 0).faults(0..=u64::MAX).sum(1);
        vec![setup, touch, end]
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        match phase {
            SETUP => self.set_up().map(|()| 0),
            TOUCH if self.source == Source::Maps => {
                let done = team::together(vec![self.maps()], |count| (0..count).map(|_| map_once()).sum())?;
                Ok(done.noted(notes, true))
            }
            TOUCH => self.read(),
            _ => match self.process.take() {
                Some(reader) => Ok(u64::from(
                    procfs::stat(reader.pid()).is_some_and(|stat| !stat.has_ended() && stat.system_ns > 0),
                )),
                None => self.thread.take().map_or(Ok(1), |thread| thread.end(notes)),
            },
        }
    }
}

/// Maps, touches and unmaps a window.
fn map_once() -> Result<u64, Refusal> {
    let mut region = Region::base_pages(WINDOW, page::size())?;
    region.bytes_mut()[0] = 1;
    Ok(u64::from(region.bytes()[0]))
}

impl Reading {
    /// Maps, touches and unmaps of `source=maps`.
    fn maps(&self) -> usize {
        (self.len_bytes >> 20) * MAPS_PER_MIB
    }

    fn set_up(&mut self) -> Result<(), Refusal> {
        match self.source {
            Source::File | Source::Cached => {
                let file = written(self.len_bytes)?;
                if self.source == Source::File {
                    memory::forget(&file, self.len_bytes, "major")?;
                }
                self.held = Some(Held::File(without_read_ahead(&file, self.len_bytes)?));
            }
            Source::Swap => self.held = Some(Held::Memory(swapped(self.len_bytes)?)),
            Source::Anonymous => {
                self.held = Some(Held::Memory(Region::base_pages(self.len_bytes, page::size())?));
            }
            Source::Maps => self.set_up_neighbour()?,
        }
        Ok(())
    }

    fn set_up_neighbour(&mut self) -> Result<(), Refusal> {
        let Some(neighbour) = self.neighbour else { return Ok(()) };
        let (len_bytes, places) = (self.len_bytes, self.places.clone());
        let file = written(len_bytes)?;
        memory::forget(&file, len_bytes, "major")?;
        match neighbour {
            Neighbour::Thread => {
                self.thread = Some(Beside::start(1, 1, move || {
                    memory::forget(&file, len_bytes, "major")?;
                    let map = without_read_ahead(&file, len_bytes)?;
                    Ok(u64::from(map.time_reads(places.iter().copied()).count() == places.len()))
                }));
            }
            Neighbour::Process => {
                let reader = Reader::new(&file, len_bytes, &places)?;
                // It begins with code that it has not run yet.
                let begin_ns = counters::now_ns();
                let has_begun = || procfs::stat(reader.pid()).is_some_and(|stat| stat.system_ns > 0);
                while !has_begun() && counters::now_ns() - begin_ns < PATIENCE_NS {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                self.process = Some(reader);
            }
        }
        Ok(())
    }

    /// Reads each place once. Returns the major faults.
    fn read(&mut self) -> Result<u64, Refusal> {
        let majors = || counters::rusage(Who::Process).map(|usage| usage.major_faults);
        let before = majors()?;
        match &mut self.held {
            Some(Held::File(map)) => drop(map.time_reads(self.places.iter().copied()).count()),
            Some(Held::Memory(region)) if self.source == Source::Swap => {
                self.places.iter().for_each(|place| {
                    std::hint::black_box(region.read(*place));
                });
            }
            // A read would map the zero page.
            Some(Held::Memory(region)) => {
                let bytes = region.bytes_mut();
                self.places.iter().for_each(|place| bytes[*place] = 1);
            }
            None => return Err(Refusal("major: the set-up comes before reading".into())),
        }
        Ok(majors()? - before)
    }
}

/// A file that is on the disk and in the page cache.
fn written(len_bytes: usize) -> Result<File, Refusal> {
    let mut file = tempfile::tempfile()?;
    datafile::write(&mut file, len_bytes as u64, SEED)?;
    file.sync_all()?;
    Ok(file)
}

fn without_read_ahead(file: &File, len_bytes: usize) -> Result<FileMap, Refusal> {
    let map = FileMap::new(file, len_bytes)?;
    map.advise(Advice::Random)?;
    Ok(map)
}

/// Memory that was written, and then moved to swap. zram keeps no page. Pages that go to a disk stay in memory until
/// they are written, and then until the kernel needs the room. A page that is read meanwhile is mapped again, clean, and
/// the next request finds nothing to write and frees it.
fn swapped(len_bytes: usize) -> Result<Region, Refusal> {
    let mut region = Region::base_pages(len_bytes, page::size())?;
    region.touch_write(page::size());
    for _ in 0..ATTEMPTS {
        region
            .advise(0..len_bytes, Advice::PageOut)
            .map_err(|error| Refusal(format!("{error}; it takes Linux 5.4")))?;
        if region.resident_bytes() == 0 {
            return Ok(region);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        region.touch_read(page::size());
    }
    let left = region.resident_bytes() >> 10;
    Err(Refusal(format!("major: {left} KiB of swapped pages stay in memory: {SWAP}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial;

    fn sample(source: &str, beside: &str) -> crate::Sample {
        trial::measure(
            &Major,
            &Cell::of("major").with("source", source).with("beside", beside).with("mib", 1),
        )
    }

    #[test]
    fn each_window_is_read_once_in_another_order() {
        let mut places = places(1 << 20);
        assert!(!places.is_sorted());
        places.sort_unstable();
        assert_eq!(places, (0..16).map(|window| window * WINDOW).collect::<Vec<_>>());
    }

    #[test]
    fn what_can_not_be_asked_is_refused() {
        for beside in ["major", "process"] {
            assert!(sample("file", beside).refused.unwrap().contains("source=maps"));
        }
        assert!(sample("maps", "program").refused.unwrap().contains("none, major or process"));
        assert!(sample("disk", "none").refused.unwrap().contains("source"));
    }
}
