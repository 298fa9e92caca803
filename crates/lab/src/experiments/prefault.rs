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
mod mixed;
mod traps;

use faultless_os::touch::{Advice, Region};
use faultless_os::{advise, page};
use faultless_prof::price::work;

use super::memory;
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{Chart, Column, DocumentRow, Effort, Experiment, Parameter, Scope, Sheet, Trial};
use crate::results::{Quantities, faults, wall_ns};
use mixed::MEAN;

pub(super) struct Prefault;

/// Bytes of the report's slab.
const SLAB: usize = 1 << 20;
/// Most slabs at one time, unless they are prewarmed: those with a live object. A slab holds some 2000 objects.
const SLABS: usize = 32;
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
        Ok(mixed::trial(way, operations, cell.count("work")?))
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
            Self::MapPopulate => Region::populated(len)?,
            Self::Thp => Region::thp(len, len)?,
            Self::Hugetlb => work::hugetlb(len, huge_bytes().unwrap_or(len), SLABS).map_err(Refusal)?,
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
    document: || {
        vec![
            ("none", 1e6, 4.01),
            ("memset", 1e6, 3.71),
            ("memset", 5e6, 3.69),
            ("memset, switched off", 1e6, 3.92),
        ]
    },
    remark: "The document's second figure for memset is of five million operations.",
    ..Chart::BLANK
}];
