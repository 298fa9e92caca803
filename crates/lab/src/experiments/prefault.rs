//! prefault: random_mixed on a slab allocator that maps its slabs inside the timed loop, as in the report on
//! hakmem.
//!
//! There are 256 slots. Each operation frees the object in a random slot and puts a new one there, with a head of 16
//! bytes, 16 to 1039 bytes of data, and one byte written. The allocator hands out memory from the front of a
//! slab to its end and never reuses it. Then it maps the next slab. It unmaps a slab once all its objects are
//! free. The touched pages follow from the random numbers alone, so the expected count is exact. It is close to
//! the report's: 1,000,000 operations of 543 bytes each touch 132,7xx pages.
//!
//! The ways to prefault are: not at all, a byte per page, memset, MAP_POPULATE, MADV_POPULATE_WRITE, THP and
//! hugetlb (with slabs of 2 MiB), and everything in the set-up (`prewarm`). One way is not in the report:
//! keeping an empty slab for the next one (`kept`).
//!
//! hakmem does more between the faults than this allocator. `work=` adds so many steps of arithmetic to each operation. With
//! some amount of it, the kernel has the share of the time that the report gives.
//!
//! The cells `trap=` show when memory that was to be populated faults all the same: see [`traps`].

mod claims;
mod traps;

use faultless_os::touch::{Advice, Populate, Region};
use faultless_os::{advise, page};

use super::memory;
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{
    Chart, Column, DocumentRow, Effort, Experiment, Parameter, Phase, Remark, Scope, Sheet, Step, Steps,
    Trial,
};
use crate::results::{Quantities, faults, wall_ns};

pub(super) struct Prefault;

/// Slots, sizes and seed of random_mixed, and the slab, as in the report.
const SLOTS: usize = 256;
const HEAD: usize = 16;
const LEAST: usize = 16;
const SPREAD: u32 = 0x3ff;
const SEED: u32 = 42;
const SLAB: usize = 1 << 20;
/// Most slabs at one time, unless they are prewarmed: those with a live object. A slab holds some 2000 objects.
const SLABS: usize = 32;
/// Bytes of an operation on average.
const MEAN: usize = HEAD + LEAST + SPREAD as usize / 2 + 1;
/// Its operations.
const OPERATIONS: usize = 1_000_000;
/// Steps of work in each operation, of 2 ns each: the kernel takes 55 to 75 % of the time beside one of these amounts where a
/// fault costs 0.2 to 4 us.
const WORK: [usize; 5] = [8, 16, 32, 64, 128];

static SHEET: Sheet = Sheet {
    name: "prefault",
    about: "Does prefaulting help an allocator that maps in the timed loop, and does each way really populate?",
    documents: &[Document::Prefault],
    parameters: &[
        Parameter::named(
            "way",
            "none, touch, memset, map-populate, populate-write, thp, hugetlb, prewarm or kept: how slabs become resident",
        ),
        Parameter::named("operations", "operations of random_mixed; 1000000 in the report"),
        Parameter::usual("work", "0", "steps of arithmetic in each operation, of some 2 ns"),
        Parameter::named(
            "trap",
            "instead of a way: a case in which memory that was to be populated may fault",
        ),
        Parameter::named("mib", "MiB of a trap"),
    ],
    columns: &[
        Column { head: "page faults", values: |_, found| faults(found, "timed") },
        Column { head: "M ops/s", values: million_per_s },
    ],
    theirs: report_rows,
    charts: CHARTS,
    claims: claims::claims,
    unjudged: claims::unjudged,
    ..Sheet::BLANK
};

impl Experiment for Prefault {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let operations = scope.pick([20_000, 200_000, OPERATIONS, OPERATIONS]);
        let of = |way: &str, operations: usize| SHEET.cell(&format!("way={way} operations={operations}"));
        let mut ways = vec!["none", "touch", "memset", "map-populate", "prewarm", "kept"];
        if scope.host.kernel.at_least(5, 14) != Some(false) {
            ways.push("populate-write");
        }
        if scope.host.thp.as_ref().is_some_and(|thp| thp.available()) {
            ways.push("thp");
        }
        if scope.host.hugetlb.iter().any(|pool| Some(pool.page_bytes) == huge_bytes() && pool.pages > 0) {
            ways.push("hugetlb");
        }
        let mut cells: Vec<Cell> = ways.into_iter().map(|way| of(way, operations)).collect();
        if scope.effort >= Effort::Default {
            cells.push(of("memset", 5 * OPERATIONS));
        }
        let amounts = scope.pick([&WORK[..1], &WORK[3..4], &WORK, &WORK]);
        for way in ["none", "memset", "prewarm", "kept"] {
            cells.extend(
                amounts
                    .iter()
                    .map(|work| SHEET.cell(&format!("way={way} operations={operations} work={work}"))),
            );
        }
        cells.extend(traps::cells(scope));
        cells
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        if cell.text("trap").is_ok() {
            return traps::memory_bytes(cell);
        }
        let (way, operations) = (Way::of(cell)?, cell.number("operations")?);
        cell.count("work")?;
        let slabs = if way == Way::Prewarm { operations * MEAN / SLAB + 2 } else { SLABS };
        Ok((slabs * way.slab_bytes()) as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        if cell.text("trap").is_ok() {
            return traps::trial(cell);
        }
        let (way, operations) = (Way::of(cell)?, cell.number("operations")?);
        match way {
            Way::Thp => memory::check_thp(cell, advise::pmd_bytes())?,
            // A mapping that is populated as it is made can't be advised before.
            Way::MapPopulate => advise::disable_thp()?,
            _ => {}
        }
        let count = Count::of(operations, way, page::size());
        let (allocator, slots) = (Allocator::new(way), vec![None; SLOTS]);
        let work = cell.count("work")?;
        Ok(Steps::of(Mixed { way, operations, work, count, allocator, slots }, Mixed::steps))
    }
}

/// Bytes of a page of the usual hugetlb pool.
fn huge_bytes() -> Option<usize> {
    Some(advise::pmd_bytes()).filter(|&bytes| bytes > 0)
}

/// How slabs are made resident.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    None,
    Touch,
    Memset,
    MapPopulate,
    PopulateWrite,
    Thp,
    Hugetlb,
    Prewarm,
    Kept,
}

impl Way {
    fn of(cell: &Cell) -> Result<Self, Refusal> {
        let known = [
            ("none", Self::None),
            ("touch", Self::Touch),
            ("memset", Self::Memset),
            ("map-populate", Self::MapPopulate),
            ("populate-write", Self::PopulateWrite),
            ("thp", Self::Thp),
            ("hugetlb", Self::Hugetlb),
            ("prewarm", Self::Prewarm),
            ("kept", Self::Kept),
        ];
        cell.choice("way", &known)
    }

    fn is_huge(self) -> bool {
        matches!(self, Self::Thp | Self::Hugetlb)
    }

    /// Pages of 2 MiB need slabs of that size.
    fn slab_bytes(self) -> usize {
        if self.is_huge() { huge_bytes().unwrap_or(SLAB).max(SLAB) } else { SLAB }
    }

    /// Whether a slab is resident as soon as it is mapped.
    fn is_at_once(self) -> bool {
        matches!(self, Self::Touch | Self::Memset | Self::MapPopulate | Self::PopulateWrite | Self::Prewarm)
    }

    /// A slab of [`Way::slab_bytes`], made resident this way.
    fn slab(self, len: usize) -> Result<Region, Refusal> {
        let mut slab = match self {
            Self::MapPopulate => Region::populated(len, Populate::Writable)?,
            Self::Thp => Region::thp(len, len)?,
            Self::Hugetlb => memory::hugetlb(len, huge_bytes().unwrap_or(len), SLABS)?,
            _ => Region::base_pages(len, page::size())?,
        };
        match self {
            Self::Touch | Self::Prewarm => slab.touch_write(page::size()),
            Self::Memset => std::hint::black_box(slab.bytes_mut()).fill(0),
            Self::PopulateWrite => slab.advise(0..len, Advice::PopulateWrite)?,
            Self::None | Self::Kept | Self::MapPopulate | Self::Thp | Self::Hugetlb => {}
        }
        Ok(slab)
    }
}

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

fn million_per_s(cell: &Cell, found: &Quantities) -> Vec<f64> {
    let operations = cell.number("operations").unwrap_or(0) as f64;
    wall_ns(found, "timed").iter().map(|ns| operations * 1e3 / ns).collect()
}

/// The report's runs of 1 000 000 operations: before the change, with it, and with it switched off.
fn report_rows() -> Vec<DocumentRow> {
    let row = |(way, faults, rate): (&str, f64, f64)| {
        let of = [("way", way.to_owned()), ("operations", "1000000".to_owned())];
        (of.to_vec(), vec![Some(faults), Some(rate)])
    };
    [("none", 132_507.0, 4.01), ("memset", 132_831.0, 3.71), ("none", 132_835.0, 3.92)].map(row).to_vec()
}

const CHARTS: &[Chart] = &[Chart {
    id: "prefault-timed",
    title: "random_mixed by way of prefaulting",
    x: "way",
    x_label: "way of prefaulting",
    y_label: "million operations per s, set-up left out",
    values: million_per_s,
    document: &[
        ("none", 1e6, 4.01),
        ("memset", 1e6, 3.71),
        ("memset", 5e6, 3.69),
        ("memset, switched off", 1e6, 3.92),
    ],
    remark: |_| Remark::new("The document's second figure for memset is of five million operations."),
    ..Chart::BLANK
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_the_report_follows_from_bytes_never_used_again() {
        let pages = Count::of(OPERATIONS, Way::None, 4 << 10).pages as f64;
        assert!((pages / 132_507.0 - 1.0).abs() < 0.01, "{pages}");
    }

    #[test]
    fn prewarming_moves_the_faults_and_keeping_removes_them() {
        let faults = |way| {
            let cell = SHEET.cell(&format!("way={way} operations=20000"));
            let phases = Prefault.trial(&cell).unwrap().phases();
            let of = |name| *phases.iter().find(|phase| phase.name == name).unwrap().faults.start();
            [of("setup"), of("timed")]
        };
        let ([_, none], [moved, prewarm], [_, kept]) = (faults("none"), faults("prewarm"), faults("kept"));
        assert!(prewarm == 0 && moved >= none, "{prewarm} {moved} {none}");
        assert!(kept < none / 2, "{kept} {none}");
    }

    #[test]
    fn the_allocator_maps_and_keeps_as_many_slabs_as_were_counted() {
        for way in [Way::None, Way::Kept] {
            let count = Count::of(20_000, way, page::size());
            let allocator = Allocator::new(way);
            let mut mixed =
                Mixed { way, operations: 20_000, work: 2, count, allocator, slots: vec![None; SLOTS] };
            assert_eq!(mixed.mix().unwrap(), count.sum);
            assert_eq!(mixed.allocator.slabs.len(), count.slabs);
            let there = mixed.allocator.ready.len() + mixed.allocator.slabs.iter().flatten().count();
            assert!(
                if way == Way::Kept { there == count.kept } else { there < count.slabs },
                "{there} {count:?}"
            );
        }
    }
}
