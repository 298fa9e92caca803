//! The phases of a cell of `files`, and the work of each.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use faultless_os::counters::{self, Who};
use faultless_os::file::FileMap;
use faultless_os::page;
use faultless_os::touch::{Advice, Region};

use super::super::data::{self, Data, WINDOW, WORD_BYTES, places, without_read_ahead};
use super::super::memory;
use super::super::team::{self, Done, Others};
use super::{Asked, From, How, MAPS_PER_MIB};
use crate::cell::Refusal;
use crate::experiment::{Notes, Phase, Step, Steps, Trial};

/// How often the kernel is asked to write memory to swap. It keeps pages that are still being written.
const ATTEMPTS: usize = 50;
/// The remedy for want of swap: in zram, or in a file on a disk, which has the disk's price.
pub(super) const SWAP: &str = "take swap in zram or in a file; as root, modprobe zram && echo 1G >/sys/block/zram0/disksize && \
                               mkswap /dev/zram0 && swapon -p 9 /dev/zram0, or fallocate -l 1G FILE && chmod 600 FILE && \
                               mkswap FILE && swapon FILE";

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
    let steps = match asked.how {
        How::Fault => Reading::fault_steps,
        How::Read => Reading::read_steps,
        How::Remap => Reading::remap_steps,
    };
    Ok(Steps::of(Reading::new(asked)?, steps))
}

impl Reading {
    fn new(asked: Asked) -> Result<Self, Refusal> {
        let data = if asked.is_file() { Some(Data::written(asked.len_bytes)?) } else { None };
        if let (Some(data), From::Disk) = (&data, asked.from) {
            // Only pages that are on the disk can leave the page cache. A file system without sync has no disk.
            data.file.sync_all()?;
        }
        Ok(Self { asked, data, places: places(asked.len_bytes), held: Held::Nothing, others: None })
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

    fn fault_steps(&self) -> Vec<Step<Self>> {
        let Asked { from, len_bytes, threads, .. } = self.asked;
        let (pages, count) = (len_bytes / page::size(), self.places.len());
        let setup = match from {
            // A swap file on a disk takes more, at most one fault a page and attempt: see `swapped`.
            From::Swap => Phase::new("setup", pages, 0).up_to((pages * ATTEMPTS) as u64),
            _ => Phase::new("setup", 0, 0),
        };
        // The checksum is the number of major faults: all of them or none.
        let majors = if matches!(from, From::Disk | From::Swap) { count as u64 } else { 0 };
        let first = Phase::new("first", count, threads).touches(count).sum(majors);
        // One fault maps a whole folio of the page cache, which may be larger than a window.
        let first = if from == From::Cache { first.at_least(1) } else { first };
        let second = Phase::new("second", 0, threads).touches(count).sum(0);
        vec![(setup, |this, _| this.set_up()), (first, Self::fault), (second, Self::fault)]
    }

    fn read_steps(&self) -> Vec<Step<Self>> {
        let Asked { len_bytes, threads, .. } = self.asked;
        let sum = self.data.as_ref().map_or(0, |data| data.sum);
        // The kernel touches the buffer, one page at a time.
        let first = Phase::new("first", len_bytes / page::size(), threads).sum(sum);
        let second = Phase::new("second", 0, threads).work(len_bytes / WORD_BYTES / 8).sum(sum);
        vec![(Phase::new("setup", 0, 0), |this, _| this.set_up()), (first, Self::read), (second, Self::read)]
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

    /// Empties the page cache where that is asked for; maps the file, or the memory.
    fn set_up(&mut self) -> Result<u64, Refusal> {
        let Asked { how, from, len_bytes, .. } = self.asked;
        if let (Some(Data { file, .. }), From::Disk) = (&self.data, from) {
            memory::forget(file, len_bytes, "from=disk")?;
        }
        self.held = match &self.data {
            Some(Data { file, .. }) if how == How::Fault => {
                Held::Mapping(without_read_ahead(file, len_bytes)?)
            }
            None if from == From::Swap => Held::Memory(swapped(len_bytes)?),
            _ => Held::Memory(Region::base_pages(len_bytes, page::size())?),
        };
        Ok(0)
    }

    /// read(2) of the whole file.
    fn read(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let (Held::Memory(region), Some(Data { file, .. })) = (&mut self.held, &self.data) else {
            return Err(unprepared());
        };
        let starts = team::parts(region.len_bytes() / page::size(), self.asked.threads);
        let buffers = team::cut(region.bytes_mut(), self.asked.threads, page::size());
        let parts = starts.into_iter().map(|part| part.start * page::size()).zip(buffers).collect();
        let done = team::together(parts, |(start, buffer)| {
            file.read_exact_at(buffer, start as u64)?;
            Ok(data::sum(buffer))
        })?;
        Ok(done.noted(notes, false))
    }

    /// Touches each place; returns the number of major faults.
    fn fault(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let majors = || counters::rusage(Who::Process).map(|usage| usage.major_faults);
        let before = majors()?;
        self.touch_places()?.noted(notes, false);
        Ok(majors()? - before)
    }

    /// Reads each place once, or writes to it where a read would map the zero page.
    fn touch_places(&mut self) -> Result<Done, Refusal> {
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
            Held::Nothing => Err(unprepared()),
        }
    }
}

fn unprepared() -> Refusal {
    Refusal("files: the set-up comes before reading".into())
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
