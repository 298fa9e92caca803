//! The phases of a cell of `files`, and the work of each.

use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use faultless_os::counters::{self, Who};
use faultless_os::file::{self, FileMap};
use faultless_os::touch::{Advice, Region};
use faultless_os::{advise, page};

use super::super::data::{Data, VARIABLE, WINDOW, places, sum_of, without_read_ahead};
use super::super::team::{self, Done, Others};
use super::{Asked, From, How, MAPS_PER_MIB};
use crate::cell::Refusal;
use crate::datafile::{self, WORD_BYTES};
use crate::experiment::{Notes, Phase, Step, Steps, Trial};

/// Linux's fault-around since 3.15, where it can't be read.
const USUAL_WINDOW_BYTES: usize = 64 << 10;
/// How often the kernel is asked to write memory to swap. It keeps pages that are still being written.
const ATTEMPTS: usize = 50;
/// The remedy for want of swap: in zram, or in a file on a disk, which has the disk's price.
pub(super) const SWAP: &str = "take swap in zram or in a file; as root, modprobe zram && echo 1G >/sys/block/zram0/disksize && \
                               mkswap /dev/zram0 && swapon -p 9 /dev/zram0, or fallocate -l 1G FILE && chmod 600 FILE && \
                               mkswap FILE && swapon FILE";

/// Base pages that one fault maps where they are cached.
fn window_pages() -> usize {
    let told = std::fs::read_to_string("/sys/kernel/debug/fault_around_bytes").ok();
    let bytes = told.and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL_WINDOW_BYTES);
    (bytes / page::size()).max(1)
}

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
    Memory(Region),
}

struct Reading {
    asked: Asked,
    data: Option<Data>,
    places: Vec<usize>,
    held: Held,
    others: Option<Others>,
}

pub(super) fn trial(asked: Asked) -> Result<Box<dyn Trial>, Refusal> {
    let steps = if asked.how == How::Remap { Reading::remap_steps } else { Reading::steps };
    Ok(Steps::of(Reading::new(asked)?, steps))
}

impl Reading {
    fn new(asked: Asked) -> Result<Self, Refusal> {
        let Asked { from, len_bytes, .. } = asked;
        let is_file = matches!(from, From::Cache | From::Disk);
        let data = if is_file { Some(Data::named_or_written(len_bytes)?) } else { None };
        if let (Some(data), From::Disk) = (&data, from) {
            // Only pages that are on the disk can leave the page cache. A file system without sync has no disk.
            data.file.sync_all()?;
        }
        Ok(Self { asked, data, places: places(len_bytes), held: Held::Nothing, others: None })
    }

    fn remap_steps(&self) -> Vec<Step<Self>> {
        let count = (self.asked.len_bytes >> 20) * MAPS_PER_MIB;
        let first = Phase::new("first", count, 1).touches(count).sum(count as u64);
        let mut steps: Vec<Step<Self>> = vec![(first, Self::remap)];
        if self.asked.beside.is_some() {
            steps.insert(0, (Phase::new("begin", 0, 0).up_to(u64::MAX), |this, _| this.begin()));
            let end = Phase::new("end", 0, 0).up_to(u64::MAX).sum(1);
            steps.push((end, |this, notes| Others::end(&mut this.others, notes)));
        }
        steps
    }

    fn steps(&self) -> Vec<Step<Self>> {
        let Asked { how, from, is_random, len_bytes, threads, .. } = self.asked;
        let (pages, words, count) = (len_bytes / page::size(), len_bytes / WORD_BYTES, self.places.len());
        let sum = self.data.as_ref().map_or(0, |data| data.sum);
        let mut setup = Phase::new("setup", 0, 0);
        if from == From::Swap {
            // A swap file on a disk takes more, at most one fault a page and attempt: see `swapped`.
            setup = Phase::new("setup", pages, 0).up_to((pages * ATTEMPTS) as u64);
        }
        let mut prefetch = Phase::new("prefetch", 0, 0);
        let [mut first, mut second] =
            ["first", "second"].map(|name| Phase::new(name, 0, threads).work(words / 8).sum(sum));
        match how {
            _ if is_random => {
                // The checksum is the number of major faults: all of them or none.
                let majors = if matches!(from, From::Disk | From::Swap) { count as u64 } else { 0 };
                first = Phase::new("first", count, threads).touches(count).sum(majors);
                // One fault maps a whole folio of the page cache, which may be larger than a window.
                first = if from == From::Cache { first.at_least(1) } else { first };
                second = Phase::new("second", 0, threads).touches(count).sum(0);
            }
            How::Prefetch(Advice::PopulateRead) => prefetch = prefetch.faults(self.mapped(pages, 0)),
            // The kernel touches the buffer, one page at a time.
            How::Read => first = Phase::new("first", pages, threads).sum(sum),
            _ => {
                first = first.faults(self.mapped(pages, threads));
                prefetch = prefetch.sum(u64::from(how == How::Prefetch(Advice::WillNeed)));
            }
        }
        vec![
            (setup, Self::set_up),
            (prefetch, |this, _| this.prefetch()),
            (first, Self::read),
            (second, Self::read),
        ]
    }

    /// The faults of a mapping that is read once: one per window where everything is cached, otherwise up to
    /// one per page.
    fn mapped(&self, pages: usize, threads: usize) -> RangeInclusive<u64> {
        let Asked { from, len_bytes, .. } = self.asked;
        let windows = pages.div_ceil(window_pages());
        let has_large_folios =
            from == From::Disk || self.data.as_ref().is_some_and(|data| !data.is_written_here);
        let folios = match advise::pmd_bytes() {
            pmd_bytes if pmd_bytes > 0 && has_large_folios => len_bytes.div_ceil(pmd_bytes),
            _ => windows,
        };
        let most = if from == From::Disk { pages } else { windows };
        let most = Phase::new("", most, threads).faults;
        (folios.min(windows) as u64)..=*most.end()
    }

    fn begin(&mut self) -> Result<u64, Refusal> {
        let Asked { beside, len_bytes, .. } = self.asked;
        self.others = beside.map(|beside| beside.start(1, len_bytes)).transpose()?;
        Ok(0)
    }

    /// Maps, touches and unmaps windows.
    fn remap(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let count = (self.asked.len_bytes >> 20) * MAPS_PER_MIB;
        let done = team::together(vec![count], |count| (0..count).map(|_| map_once()).sum())?;
        Ok(done.noted(notes, true))
    }

    /// Fills or empties the page cache, or makes the memory.
    fn set_up(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let Asked { from, is_random, len_bytes, .. } = self.asked;
        let Some(Data { file, .. }) = &self.data else {
            self.held = Held::Memory(match from {
                From::Swap => swapped(len_bytes)?,
                _ => Region::base_pages(len_bytes, page::size())?,
            });
            return Ok(0);
        };
        if from == From::Disk {
            file::forget(file)?;
        } else {
            sum_of(file, len_bytes)?;
        }
        let cached = FileMap::new(file, len_bytes)?.cached_bytes();
        notes.add("cached_bytes", cached as f64);
        let most = if is_random { 0 } else { len_bytes / 64 };
        if from == From::Disk && cached > most {
            let (cached, all) = (cached >> 20, len_bytes >> 20);
            return Err(Refusal(format!(
                "from=disk: {cached} of {all} MiB stay in the page cache: name a file of your own on a disk with {VARIABLE}, \
                 or set TMPDIR"
            )));
        }
        Ok(0)
    }

    fn prefetch(&mut self) -> Result<u64, Refusal> {
        let Asked { how, is_random, len_bytes, .. } = self.asked;
        let Some(Data { file, .. }) = &self.data else { return Ok(0) };
        if how == How::Read {
            self.held = Held::Memory(Region::base_pages(len_bytes, page::size())?);
            return Ok(0);
        }
        if is_random {
            self.held = Held::Mapping(without_read_ahead(file, len_bytes)?);
            return Ok(0);
        }
        let map = FileMap::new(file, len_bytes)?;
        // A kernel without THP refuses, and has base pages anyway.
        let _ = map.advise(Advice::NoHugePage);
        if let How::Prefetch(advice) = how {
            map.advise(advice).map_err(|error| match advice {
                Advice::PopulateRead => Refusal(format!("{error}; it takes Linux 5.14")),
                _ => error.into(),
            })?;
        }
        let has_begun = how == How::Prefetch(Advice::WillNeed) && has_begun(&map);
        self.held = Held::Mapping(map);
        Ok(u64::from(has_begun))
    }

    fn read(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let Asked { is_random, threads, .. } = self.asked;
        if is_random {
            let majors = || counters::rusage(Who::Process).map(|usage| usage.major_faults);
            let before = majors()?;
            self.read_places()?.noted(notes, false);
            return Ok(majors()? - before);
        }
        let done = match (&mut self.held, &self.data) {
            (Held::Mapping(map), _) => {
                let (map, page_bytes) = (&*map, page::size());
                team::together(team::parts(map.len_bytes() / page_bytes, threads), |part| {
                    Ok(map.sum(part.start * page_bytes..part.end * page_bytes, 1))
                })?
            }
            (Held::Memory(region), Some(Data { file, .. })) => {
                let starts = team::parts(region.len_bytes() / page::size(), threads);
                let buffers = team::cut(region.bytes_mut(), threads, page::size());
                let parts = starts.into_iter().map(|part| part.start * page::size()).zip(buffers).collect();
                team::together(parts, |(start, buffer)| {
                    let read = file.read_exact_at(buffer, start as u64);
                    read.map_err(|error| Refusal(format!("files: {error}; leave the file alone meanwhile")))?;
                    Ok(datafile::sum(buffer))
                })?
            }
            _ => return Err(Refusal("files: prefetch comes before reading".into())),
        };
        Ok(done.noted(notes, false))
    }

    /// Reads each place once, or writes to it where a read would map the zero page.
    fn read_places(&mut self) -> Result<Done, Refusal> {
        let parts = team::parts(self.places.len(), self.asked.threads);
        let (places, is_new) = (&self.places, self.asked.from == From::New);
        match &mut self.held {
            Held::Mapping(map) => {
                team::together(parts, |part| Ok(map.time_reads(places[part].iter().copied()).count() as u64))
            }
            Held::Memory(region) => {
                let bytes = region.atomics();
                team::together(parts, |part| {
                    for place in &places[part] {
                        if is_new {
                            bytes[*place].store(1, Ordering::Relaxed);
                        }
                        std::hint::black_box(bytes[*place].load(Ordering::Relaxed));
                    }
                    Ok(0)
                })
            }
            Held::Nothing => Err(Refusal("files: the set-up comes before reading".into())),
        }
    }
}

/// Maps, touches and unmaps a window.
fn map_once() -> Result<u64, Refusal> {
    let mut region = Region::base_pages(WINDOW, page::size())?;
    region.bytes_mut()[0] = 1;
    Ok(u64::from(region.bytes()[0]))
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
    Err(Refusal(format!("files: {left} KiB of swapped pages stay in memory: {SWAP}")))
}

#[cfg(test)]
mod tests {
    use super::super::SHEET;
    use super::*;

    #[test]
    fn the_faults_of_a_cold_file_are_bounded_by_its_pages() {
        let of = |from: &str| {
            let asked = Asked::of(&SHEET.cell(&format!("from={from} mib=4"))).unwrap();
            Reading::new(asked).unwrap().mapped(1024, 1)
        };
        let (warm, cold) = (of("cache"), of("disk"));
        assert!(cold.start() <= warm.start());
        assert!(*warm.end() < 512 && *cold.end() >= 1024, "{warm:?} {cold:?}");
    }

    #[test]
    fn each_window_is_read_once_in_another_order() {
        let mut places = places(1 << 20);
        assert!(!places.is_sorted());
        places.sort_unstable();
        assert_eq!(places, (0..16).map(|window| window * WINDOW).collect::<Vec<_>>());
    }
}
