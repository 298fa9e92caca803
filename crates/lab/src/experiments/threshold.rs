//! threshold: from which size on does malloc go to the kernel for every block, instead of using freed memory
//! again?
//!
//! "A queue of page faults" found a heap that kept blocks below 508 KiB (or 1 MiB) and mapped larger blocks
//! afresh each time. Here a block is allocated, each of its pages is written, and it is freed, over and over.
//! Memory from the kernel takes a fault per page; memory that was kept takes none. The first two cycles stand
//! apart, because glibc raises its thresholds when a mapped block is freed for the first time (mallopt(3),
//! M_MMAP_THRESHOLD). They are the cost for a program of few blocks. After a last cycle the block's addresses are looked
//! up: an allocator that purges a block takes faults for it again, and only one that unmaps it gives up its addresses.
//!
//! The allocators are the C library's, the same with its thresholds fixed at the initial 128 KiB, and those in
//! the usual library folders, by LD_PRELOAD. THP is off for the process, so a fault is a base page. Most cells
//! may keep or map their block, so their bounds go from no fault to a fault per page. Cells that glibc's manual
//! decides have exact counts.

mod claims;

use std::ffi::OsString;
use std::path::PathBuf;

use faultless_os::{advise, map, page};

use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{
    Chart, Column, Effort, Experiment, Notes, Parameter, Phase, Scope, Sheet, Step, Steps, Trial,
};
use crate::results::{Quantities, faults, wall_ns};

pub(super) struct Threshold;

/// Allocators to look for: name, and how the file name begins.
const LIBRARIES: [(&str, &str); 3] =
    [("jemalloc", "libjemalloc.so"), ("mimalloc", "libmimalloc.so"), ("tcmalloc", "libtcmalloc_minimal.so")];
/// Where libraries lie on Debian, Fedora, Arch, and where people install their own.
const FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/lib64",
];
/// The C library's malloc, and the same with fixed thresholds.
const GLIBC: &str = "glibc";
const FIXED: &str = "glibc-fixed";
/// glibc's initial M_MMAP_THRESHOLD, and its upper bound (mallopt(3)), in KiB.
const FIXED_KIB: usize = 128;
const MOST_KIB: usize = 32 << 10;
/// Bytes that the later cycles of a cell allocate in all, two cycles excepted.
const LATER_BYTES: usize = 64 << 20;
/// Cycles after the first two.
const LATER_CYCLES: std::ops::RangeInclusive<usize> = 2..=64;
/// Faults that an allocator may take for its own tables, such as arenas and page heads. glibc's
/// are in the block.
const TABLES: u64 = 256;

static SHEET: Sheet = Sheet {
    name: "threshold",
    about: "From which size on does malloc request every block from the kernel?",
    documents: &[Document::Queue],
    parameters: &[
        Parameter::named(
            "allocator",
            "glibc, glibc-fixed (with a threshold of 128 KiB), jemalloc, mimalloc or tcmalloc",
        ),
        Parameter::named("kib", "KiB of the block"),
    ],
    columns: &[
        Column { head: "faults per page and cycle", values: per_page },
        Column { head: "us per page and cycle", values: us_per_page },
    ],
    charts: CHARTS,
    claims: claims::claims,
    unjudged: claims::unjudged,
    ..Sheet::BLANK
};

impl Experiment for Threshold {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let powers = (2..=16).map(|log2| 1_usize << log2);
        let kibs: Vec<usize> = match scope.effort {
            Effort::Verify => vec![64, 1 << 10],
            Effort::Quick => vec![64, 640, 8 << 10, 40 << 10],
            // The document's block, the pool's block for it, and its two thresholds.
            Effort::Default => powers.chain([508, 640, 768, 1020]).collect(),
            Effort::Full => {
                powers.clone().chain(powers.map(|kib| kib / 2 * 3)).chain([508, 640, 1020]).collect()
            }
        };
        let mut allocators = vec![GLIBC];
        if scope.host.glibc.is_some() {
            allocators.push(FIXED);
        }
        allocators.extend(LIBRARIES.map(|(name, _)| name).iter().filter(|name| library(name).is_some()));
        let mut cells = Vec::new();
        for allocator in allocators {
            let of = |&kib: &usize| SHEET.cell(&format!("allocator={allocator} kib={kib}"));
            cells.extend(kibs.iter().map(of));
        }
        cells
    }

    fn environment(&self, cell: &Cell) -> Vec<(OsString, OsString)> {
        let allocator = cell.text("allocator").unwrap_or_default();
        let preload = library(allocator).map(PathBuf::into_os_string).unwrap_or_default();
        let tunables = if allocator == FIXED {
            let bytes = FIXED_KIB << 10;
            format!("glibc.malloc.mmap_threshold={bytes}:glibc.malloc.trim_threshold={bytes}")
        } else {
            String::new()
        };
        vec![("LD_PRELOAD".into(), preload), ("GLIBC_TUNABLES".into(), tunables.into())]
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        allocator(cell)?;
        Ok(cell.kib("kib")? as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let (allocator, kib) = (allocator(cell)?, cell.number("kib")?);
        check_loaded(allocator)?;
        advise::disable_thp()?;
        Ok(Steps::of(Cycles { allocator: allocator.into(), kib }, Cycles::steps))
    }
}

fn allocator(cell: &Cell) -> Result<&str, Refusal> {
    let allocator = cell.text("allocator")?;
    if [GLIBC, FIXED].contains(&allocator) || LIBRARIES.iter().any(|(name, _)| *name == allocator) {
        return Ok(allocator);
    }
    let names = LIBRARIES.map(|(name, _)| name).join(", ");
    Err(Refusal(format!("{cell}: allocator={allocator}: takes {GLIBC}, {FIXED}, {names}")))
}

/// Cycles of the last phase.
fn later_cycles(kib: usize) -> usize {
    (LATER_BYTES / (kib << 10)).clamp(*LATER_CYCLES.start(), *LATER_CYCLES.end())
}

/// Touches of the later cycles.
fn touches(cell: &Cell) -> f64 {
    let kib = cell.number("kib").unwrap_or(1);
    (pages(kib) * later_cycles(kib)) as f64
}

/// Faults of the later cycles.
fn per_page(cell: &Cell, found: &Quantities) -> Vec<f64> {
    faults(found, "later").iter().map(|faults| faults / touches(cell)).collect()
}

fn us_per_page(cell: &Cell, found: &Quantities) -> Vec<f64> {
    wall_ns(found, "later").iter().map(|ns| ns / 1e3 / touches(cell)).collect()
}

fn pages(kib: usize) -> usize {
    (kib << 10).div_ceil(page::size())
}

/// The file of an allocator, if it is installed.
fn library(allocator: &str) -> Option<PathBuf> {
    let (_, begin) = LIBRARIES.iter().find(|(name, _)| *name == allocator)?;
    FOLDERS.iter().find_map(|folder| {
        let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin)))
            .collect();
        found.sort();
        found.into_iter().next()
    })
}

/// The allocator in this process, if it is not the C library's.
pub(super) fn preloaded() -> Result<Option<&'static str>, Refusal> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    Ok(LIBRARIES.iter().find(|(_, begin)| maps.contains(begin)).map(|(name, _)| *name))
}

/// Whether the wanted allocator is the one that answers. An LD_PRELOAD that failed would measure glibc under
/// another name.
fn check_loaded(allocator: &str) -> Result<(), Refusal> {
    let loaded = preloaded()?;
    let wanted = LIBRARIES.iter().find(|(name, _)| *name == allocator).map(|(name, _)| *name);
    if loaded != wanted {
        let found = loaded.unwrap_or("the C library's malloc");
        let remedy = wanted.map_or("unset LD_PRELOAD".into(), |name| {
            library(name)
                .map_or(format!("install {name}"), |path| format!("set LD_PRELOAD={}", path.display()))
        });
        return Err(Refusal(format!("threshold: {found} answers instead of {allocator}; {remedy}")));
    }
    let tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    if (allocator == FIXED) != tunables.contains("mmap_threshold") {
        return Err(Refusal(format!(
            "threshold: {allocator} with GLIBC_TUNABLES={tunables}; the lab sets it for each process: start `faultless lab threshold`"
        )));
    }
    Ok(())
}

struct Cycles {
    allocator: String,
    kib: usize,
}

impl Cycles {
    /// Faults for tables. Tables of other allocators may grow by as much as a page table maps.
    fn tables(&self) -> u64 {
        if self.is_glibc() { 0 } else { TABLES + (advise::pmd_bytes() / page::size()) as u64 }
    }

    fn is_glibc(&self) -> bool {
        cfg!(target_env = "gnu") && [GLIBC, FIXED].contains(&self.allocator.as_str())
    }

    /// Whether glibc has to keep a block after the first time: the size is below the initial thresholds, and
    /// the block is followed by as much memory again.
    fn is_always_kept(&self) -> bool {
        self.is_glibc() && self.kib < FIXED_KIB
    }

    /// Whether glibc has to map each block: the size is above a fixed threshold, or above the limit of the
    /// dynamic one.
    fn is_always_mapped(&self) -> bool {
        let least_kib = match self.allocator.as_str() {
            FIXED => FIXED_KIB,
            GLIBC => MOST_KIB,
            _ => return false,
        };
        self.kib > least_kib
    }
}

impl Cycles {
    fn steps(&self) -> Vec<Step<Self>> {
        let phase = |name, cycles| {
            let pages = pages(self.kib) * cycles;
            let phase = Phase::new(name, 0, 0).touches(pages).sum(pages as u64);
            if self.is_always_kept() && name != "first" {
                return phase;
            }
            // The block's head may lie on a separate page.
            let least = if self.is_always_mapped() { pages as u64 } else { 0 };
            phase.up_to((pages + cycles) as u64 + self.tables()).at_least(least)
        };
        vec![
            (phase("first", 1), |this, notes| Ok(this.run(1, notes))),
            (phase("second", 1), |this, notes| Ok(this.run(1, notes))),
            (phase("later", later_cycles(self.kib)), |this, notes| {
                Ok(this.run(later_cycles(this.kib), notes))
            }),
            (phase("last", 1), |this, notes| {
                let (sum, place) = cycle(this.kib << 10);
                notes.add("is_unmapped", f64::from(u8::from(map::is_free(place, page::size()))));
                Ok(sum)
            }),
        ]
    }

    fn run(&self, cycles: usize, notes: &mut Notes) -> u64 {
        notes.add("cycles", cycles as f64);
        notes.add("pages_per_cycle", pages(self.kib) as f64);
        (0..cycles).map(|_| cycle(self.kib << 10).0).sum()
    }
}

/// Allocates, writes one byte per page, frees; returns the sum of the bytes, and the address of the page in the middle.
fn cycle(len_bytes: usize) -> (u64, usize) {
    let mut block: Vec<u8> = Vec::with_capacity(len_bytes);
    let slots = block.spare_capacity_mut().iter_mut().take(len_bytes).step_by(page::size());
    let sum = slots.map(|slot| u64::from(*std::hint::black_box(slot.write(1)))).sum();
    let place = (block.as_ptr().addr() + len_bytes / 2) / page::size() * page::size();
    (sum, place)
}

const CHARTS: &[Chart] = &[Chart {
    id: "threshold-later",
    title: "Faults of a malloc and free, once the allocator has settled",
    x: "kib",
    x_label: "size of the block in bytes",
    place: |cell, _| Some(cell.kib("kib").ok()? as f64),
    y_label: "faults per page and cycle",
    values: per_page,
    ..Chart::BLANK
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial;

    #[test]
    fn another_allocator_than_the_one_asked_for_is_refused() {
        let cell = SHEET.cell("allocator=jemalloc kib=64");
        let refused = trial::measure(&Threshold, &cell).refused.unwrap();
        assert!(refused.contains("answers instead of jemalloc"), "{refused}");
        let cell = SHEET.cell("allocator=glibc-fixed kib=64");
        assert!(trial::measure(&Threshold, &cell).refused.unwrap().contains("GLIBC_TUNABLES"));
    }

    #[test]
    fn what_glibc_always_maps_takes_a_fault_per_page() {
        let of =
            |allocator: &str, kib| Cycles { allocator: allocator.into(), kib }.steps()[2].0.faults.clone();
        assert_eq!(*of(GLIBC, 40 << 10).start(), 2 * (40 << 20) / page::size() as u64);
        assert_eq!((*of(GLIBC, 640).start(), *of("mimalloc", 40 << 10).start()), (0, 0));
        assert!(*of(FIXED, 640).start() > 0);
        assert!(*of(GLIBC, 64).end() < 64 && *of("jemalloc", 40 << 10).end() > *of(GLIBC, 40 << 10).end());
    }
}
