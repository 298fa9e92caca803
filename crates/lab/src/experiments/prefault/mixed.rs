//! random_mixed on the slab allocator, and the touches that it must make.

use faultless_os::page;
use faultless_os::touch::Region;

use super::super::memory;
use super::Way;
use crate::cell::Refusal;
use crate::experiment::{Phase, Step, Steps, Trial};

/// Slots, sizes and seed of random_mixed, as in the report.
const SLOTS: usize = 256;
const HEAD: usize = 16;
const LEAST: usize = 16;
const SPREAD: u32 = 0x3ff;
const SEED: u32 = 42;
/// Bytes of an operation on average.
pub(super) const MEAN: usize = HEAD + LEAST + SPREAD as usize / 2 + 1;

/// xorshift32, as in the report's benchmark.
#[derive(Clone, Copy)]
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    /// Slot and size of the next operation.
    fn operation(&mut self) -> (usize, usize) {
        let random = self.next();
        (random as usize % SLOTS, LEAST + (random & SPREAD) as usize)
    }
}

/// The touches that follow from the random numbers alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Count {
    slabs: usize,
    /// Pages with the byte of at least one object.
    pages: usize,
    /// The sum of the bytes that are read when objects are freed.
    sum: u64,
    /// Most slabs at one time where empty ones are used again.
    kept: usize,
}

impl Count {
    fn of(operations: usize, way: Way, page: usize) -> Self {
        let len = way.slab_bytes();
        let mut random = Random(SEED);
        let mut found = Self { slabs: 1, pages: 0, sum: 0, kept: 1 };
        let (mut used, mut last_page) = (0, usize::MAX);
        let mut slots: Vec<Option<(usize, u8)>> = vec![None; SLOTS];
        let mut live = vec![0_usize];
        let (mut there, mut free) = (1_usize, 0_usize);
        for operation in 0..operations {
            let (slot, size) = random.operation();
            if let Some((slab, byte)) = slots[slot].take() {
                found.sum += u64::from(byte);
                live[slab] -= 1;
                // An empty slab is free unless new objects still go into it.
                free += usize::from(live[slab] == 0 && slab + 1 != live.len());
            }
            if used + HEAD + size > len {
                free += usize::from(live.last() == Some(&0));
                if free > 0 {
                    free -= 1
                } else {
                    there += 1
                }
                found.kept = found.kept.max(there);
                found.slabs += 1;
                live.push(0);
                (used, last_page) = (0, usize::MAX);
            }
            let touched = (used + HEAD) / page;
            found.pages += usize::from(touched != last_page);
            last_page = touched;
            used += HEAD + size;
            if let Some(count) = live.last_mut() {
                *count += 1;
            }
            slots[slot] = Some((live.len() - 1, operation as u8));
        }
        found
    }
}

/// The slab allocator.
struct Allocator {
    way: Way,
    slab_bytes: usize,
    /// By number; `None` once unmapped. New objects go into the last one.
    slabs: Vec<Option<Slab>>,
    used: usize,
    /// Resident slabs that wait to be used: prewarmed or kept ones.
    ready: Vec<Region>,
}

struct Slab {
    memory: Region,
    live: usize,
}

/// An object: slab and offset of its byte.
#[derive(Clone, Copy)]
struct Object {
    slab: u32,
    at: u32,
}

impl Allocator {
    fn new(way: Way) -> Self {
        Self { way, slab_bytes: way.slab_bytes(), slabs: Vec::new(), used: 0, ready: Vec::new() }
    }

    fn prewarm(&mut self, slabs: usize) -> Result<(), Refusal> {
        for _ in 0..slabs {
            self.ready.push(self.way.slab(self.slab_bytes)?);
        }
        Ok(())
    }

    fn alloc(&mut self, size: usize, byte: u8) -> Result<Object, Refusal> {
        if self.slabs.is_empty() || self.used + HEAD + size > self.slab_bytes {
            self.next_slab()?;
        }
        let (slab, at) = (self.slabs.len() - 1, self.used + HEAD);
        if let Some(Some(slab)) = self.slabs.last_mut() {
            slab.memory.bytes_mut()[at] = byte;
            slab.live += 1;
        }
        self.used += HEAD + size;
        Ok(Object { slab: slab as u32, at: at as u32 })
    }

    fn next_slab(&mut self) -> Result<(), Refusal> {
        let left = self.slabs.len().wrapping_sub(1);
        self.release_if_empty(left);
        let memory = match self.ready.pop() {
            Some(memory) => memory,
            None => self.way.slab(self.slab_bytes)?,
        };
        self.slabs.push(Some(Slab { memory, live: 0 }));
        self.used = 0;
        Ok(())
    }

    /// Frees an object; returns its byte.
    fn free(&mut self, object: Object) -> u8 {
        let number = object.slab as usize;
        let Some(Some(slab)) = self.slabs.get_mut(number) else { return 0 };
        let byte = slab.memory.bytes()[object.at as usize];
        slab.live -= 1;
        if number + 1 != self.slabs.len() {
            self.release_if_empty(number);
        }
        byte
    }

    fn release_if_empty(&mut self, number: usize) {
        let Some(place) = self.slabs.get_mut(number) else { return };
        if place.as_ref().is_some_and(|slab| slab.live == 0)
            && let Some(slab) = place.take()
            && self.way == Way::Kept
        {
            self.ready.push(slab.memory);
        }
    }
}

struct Mixed {
    way: Way,
    operations: usize,
    /// Steps of work in each operation.
    work: usize,
    count: Count,
    allocator: Allocator,
    slots: Vec<Option<Object>>,
}

pub(super) fn trial(way: Way, operations: usize, work: usize) -> Box<dyn Trial> {
    let count = Count::of(operations, way, page::size());
    let (allocator, slots) = (Allocator::new(way), vec![None; SLOTS]);
    Steps::of(Mixed { way, operations, work, count, allocator, slots }, Mixed::steps)
}

impl Mixed {
    fn steps(&self) -> Vec<Step<Self>> {
        let Count { slabs, pages, sum, kept } = self.count;
        let slab_pages = self.way.slab_bytes() / page::size();
        let (setup, timed) = match self.way {
            Way::Prewarm => (slabs * slab_pages, 0),
            Way::None => (0, pages),
            Way::Thp | Way::Hugetlb => (0, slabs),
            Way::Kept => (0, pages.min(kept * slab_pages)),
            _ => (0, slabs * slab_pages),
        };
        let steps = self.operations.saturating_mul(self.work.saturating_add(1));
        let in_loop = Phase::new("timed", timed, 0).work(steps).sum(sum);
        let in_loop = match self.way {
            Way::Thp => memory::mostly_huge(in_loop, pages),
            // The last one may be new and almost empty.
            Way::Kept => in_loop.at_least(timed.saturating_sub(slab_pages) as u64),
            _ => in_loop,
        };
        let is_whole = self.way.is_at_once() || self.way.is_huge();
        let resident = if is_whole { self.way.slab_bytes() } else { page::size() };
        let look = if self.way.is_at_once() { slab_pages } else { 1 };
        vec![
            (Phase::new("setup", setup, 0), |this, _| this.set_up()),
            (Phase::new("look", look, 0).sum(resident as u64), |this, notes| {
                let mut slab = this.way.slab(this.allocator.slab_bytes)?;
                memory::note_resident(std::slice::from_ref(&slab), notes);
                Ok(memory::resident_by_a_write(&mut slab))
            }),
            (in_loop, |this, notes| {
                notes.add("slabs", this.count.slabs as f64);
                notes.add("slab_pages", (this.way.slab_bytes() / page::size()) as f64);
                this.mix()
            }),
        ]
    }

    /// The tables are made and written here, so that only slabs fault in the loop.
    fn set_up(&mut self) -> Result<u64, Refusal> {
        self.allocator.slabs.resize_with(self.count.slabs + 1, || None);
        self.allocator.slabs.clear();
        if self.way == Way::Prewarm {
            self.allocator.prewarm(self.count.slabs)?;
        }
        Ok(0)
    }

    fn mix(&mut self) -> Result<u64, Refusal> {
        let (mut random, mut sum) = (Random(SEED), 0);
        for operation in 0..self.operations {
            let (slot, size) = random.operation();
            if let Some(object) = self.slots[slot].take() {
                sum += u64::from(self.allocator.free(object));
            }
            self.slots[slot] = Some(self.allocator.alloc(size, operation as u8)?);
            std::hint::black_box(work(std::hint::black_box(random), self.work));
        }
        Ok(sum)
    }
}

/// So many steps, each of which waits for the one before.
fn work(mut random: Random, steps: usize) -> u32 {
    (0..steps).fold(0, |_, _| random.next())
}

#[cfg(test)]
mod tests {
    use super::super::OPERATIONS;
    use super::*;

    #[test]
    fn the_count_of_the_report_follows_from_bytes_never_used_again() {
        let pages = Count::of(OPERATIONS, Way::None, 4 << 10).pages as f64;
        assert!((pages / 132_507.0 - 1.0).abs() < 0.01, "{pages}");
    }
}
