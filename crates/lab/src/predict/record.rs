//! A record of the kernel lab: the parameters that it counts, and the rows that the model predicts.
//!
//! In: the folder of a record. Out: [`Counted`]. It has three parts, and each says which cells it rests on.
//!
//! | part | from | used for |
//! |---|---|---|
//! | [`Taken`] | the plan `lines`, unmapping, and the idle time before the first test of a boot | the parameters of a forecast |
//! | [`Sum`] | the cells of one thread | the model must take exactly as many instructions |
//! | [`Row`] | the plans `pool` and `threads` | held out: the model predicts them |
//!
//! As in the emulator, an instruction takes 1 ns of the model's time, and so does a cleared byte.

mod rows;

use std::path::Path;

use faultless_trace::measurement::median;
use serde::Serialize;

use super::Zone;
use super::model::{Model, Section};
use super::parameters::Parameters;
use super::range::Range;
use super::validate::plain;
use crate::Refusal;
use crate::cell::Cell;
use crate::kernel::counts;
use crate::kernel::functions::{self, Row as Function, Table};
use crate::kernel::session::{
    CLEAR_LLC, CLEARED, EXPERIMENT, GUEST, LLC, MISS, PAGE_BYTES, PAGES, PATH, SECTION, USER,
};
use crate::results::{Quantities, Results, values};

pub use rows::Row;

/// Functions that run under the zone lock and nowhere else.
const UNDER_ZONE_LOCK: [&str; 8] = [
    "rmqueue_bulk",
    "rmqueue_kind",
    "__rmqueue",
    "__rmqueue_smallest",
    "expand",
    "expand_zeroed",
    "__free_one_page",
    "free_pcppages_bulk",
];
/// Functions that run partly under it: compilers inline the others into them.
const PARTLY: [&str; 2] = ["__rmqueue_pcplist", "__mod_zone_page_state"];
/// Functions that raise and lower the counter of a VMA's lock, and the one that looks the VMA up besides.
const VMA_LOCK: [&str; 2] = ["down_read_trylock", "up_read"];
const VMA_LOOK_UP: &str = "lock_vma_under_rcu";

/// A parameter as the record has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Taken {
    /// The parameter.
    pub name: &'static str,
    /// Its range.
    pub range: Range,
    /// The cells that it is from.
    pub from: String,
}

/// One thread in the model beside its count: both in instructions and cleared bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sum {
    /// The cell.
    pub cell: String,
    /// Path instructions, the program's instructions and cleared bytes.
    pub counted: f64,
    /// The model's time, in ns.
    pub predicted: f64,
}

impl Sum {
    /// Whether both are the same within the rounding of floats.
    pub fn holds(&self) -> bool {
        (self.predicted / self.counted - 1.0).abs() < 1e-9
    }
}

/// What a record of the kernel lab says.
#[derive(Debug)]
pub struct Counted {
    results: Results,
    functions: Table,
}

/// A cell of the record.
#[derive(Clone, Copy)]
struct Found<'a> {
    cell: &'a Cell,
    quantities: &'a Quantities,
    functions: &'a [Function],
}

impl Found<'_> {
    fn value(self, phase: &str, quantity: &str) -> f64 {
        values(self.quantities, phase, quantity).and_then(median).unwrap_or(0.0)
    }

    fn section(self, quantity: &str) -> f64 {
        self.value(SECTION, quantity)
    }

    fn guest(self, quantity: &str) -> f64 {
        self.value(GUEST, quantity)
    }

    fn pages(self) -> f64 {
        self.guest(PAGES)
    }

    /// Path instructions of these functions, for each page.
    fn of(self, names: &[&str]) -> f64 {
        let all = self.functions.iter().filter(|row| names.contains(&row.function.as_str()));
        all.map(|row| row.path_instructions as f64).sum::<f64>() / self.pages()
    }

    /// The least and the most instructions under the zone lock, for each page.
    fn zone(self) -> Range {
        let certain = self.of(&UNDER_ZONE_LOCK);
        Range::new(certain, certain + self.of(&PARTLY))
    }

    /// The program's misses of the last level, for each page.
    fn user_misses(self) -> f64 {
        let own = self.functions.iter().find(|row| row.function == counts::USER);
        own.map_or(0.0, |row| row.llc_misses as f64) / self.pages()
    }
}

impl Counted {
    /// Reads a record.
    ///
    /// # Errors
    /// It is no record of the kernel lab, or lacks the cells that parameters are from.
    pub fn read(folder: &Path) -> Result<Self, Refusal> {
        let counted = Self { results: Results::read(folder)?, functions: functions::read(folder)? };
        if counted.lines("base").is_empty() {
            Err(Refusal(format!(
                "{}: has no cell arm=base plan=lines; name a record of faultless lab kernel run with both",
                folder.display()
            )))
        } else {
            Ok(counted)
        }
    }

    fn find(&self, parameters: &[(&str, &str)]) -> Option<Found<'_>> {
        let (cell, quantities) = self.results.find(EXPERIMENT, parameters)?;
        Some(self.found(cell, quantities))
    }

    fn found<'a>(&'a self, cell: &'a Cell, quantities: &'a Quantities) -> Found<'a> {
        Found { cell, quantities, functions: self.functions.get(cell).map_or(&[], Vec::as_slice) }
    }

    /// The cells of one thread that faults, of one arm.
    fn lines(&self, arm: &str) -> Vec<Found<'_>> {
        let wanted = [("arm", arm), ("plan", "lines"), ("test", "pft")];
        let is_wanted = |cell: &Cell| wanted.iter().all(|(name, value)| cell.text(name) == Ok(value));
        let cells = self.results.cells(EXPERIMENT).filter(|(cell, _)| is_wanted(cell));
        cells.map(|(cell, quantities)| self.found(cell, quantities)).collect()
    }

    /// The parameters that the record counts.
    pub fn taken(&self) -> Vec<Taken> {
        let (base, on) = (self.lines("base"), self.lines("on"));
        let lines = |arms: &str| format!("arm={arms} plan=lines test=pft, {} cells", base.len());
        let mut taken = Vec::new();
        let mut take = |name, range: Option<Range>, from: String| {
            taken.extend(range.map(|range| Taken { name, range, from }));
        };
        let span = |found: &[Found], of: &dyn Fn(Found) -> f64| span(found.iter().map(|found| of(*found)));
        let least_zone = |found: Found| found.zone().low;
        let most_zone = |found: Found| found.zone().high;
        take("page_bytes", span(&base, &|found| found.guest(PAGE_BYTES)), lines("base"));
        let path = |found: Found| found.section(PATH) / found.pages();
        // Instructions that may be under the lock are in both, so the path is never too short.
        let outside = |found: Found| path(found) - least_zone(found);
        take("path_instructions", span(&base, &outside), lines("base"));
        let counter = span(&base, &|found| found.of(&VMA_LOCK)).filter(|range| range.high > 0.0);
        let looked_up = span(&base, &|found| found.of(&[VMA_LOOK_UP])).map_or(0.0, |range| range.high);
        let lock = counter.map(|range| Range::new(range.low, range.high + looked_up));
        let (named, last) = (VMA_LOCK.join(", "), VMA_LOOK_UP);
        take("lock_instructions", lock, format!("{}: {named}; and {last}", lines("base")));
        let all = [&base[..], &on[..]].concat();
        let certain = span(&all, &least_zone).filter(|range| range.high > 0.0);
        let partly = span(&all, &most_zone).map(|range| range.high);
        let zone = partly.map(|most| Range::new(certain.map_or(0.0, |certain| certain.high.min(most)), most));
        take("zone_instructions", zone, format!("{}: functions under zone->lock", lines("base, on")));
        let misses = |found: Found| {
            ((found.section(LLC) - found.section(CLEAR_LLC)) / found.pages() - found.user_misses()).max(0.0)
        };
        take("path_misses", span(&base, &misses), lines("base"));
        let freed = self.find(&[("arm", "base"), ("kind", "munmap")]);
        let free = freed.map(|found| path(found) - found.zone().low);
        let cell = freed.map_or(String::new(), |found| found.cell.words().join(" "));
        take("free_instructions", span_of(free), cell);
        let marks = base.iter().filter_map(|base| {
            let same =
                |on: &&Found| ["lines", "pcp"].iter().all(|name| on.cell.text(name) == base.cell.text(name));
            let on = on.iter().find(same)?;
            // A fault that misses has no mark.
            (on.guest(MISS) < 0.1 * on.pages()).then(|| (path(*on) - path(*base)).max(0.0))
        });
        take("mark_instructions", self::span(marks), lines("on less base"));
        taken
    }

    /// The defaults with what the record counts.
    ///
    /// # Errors
    /// A count is no parameter that can be.
    pub fn parameters(&self, defaults: Parameters) -> Result<Parameters, Refusal> {
        let taken = self.taken().into_iter().map(|taken| (taken.name, taken.range));
        defaults.with(taken, "the record")
    }

    /// The cells of one thread beside the model's run of them.
    ///
    /// # Errors
    /// A run fails.
    pub fn sums(&self) -> Result<Vec<Sum>, Refusal> {
        let arms = ["base", "off", "on"];
        let cells = arms.iter().flat_map(|arm| self.lines(arm));
        cells.map(sum).collect()
    }

    /// The rows of the pool and of several threads, beside what the model predicts.
    ///
    /// # Errors
    /// A run fails.
    pub fn rows(&self, samples: usize, seed: u64) -> Result<Vec<Row>, Refusal> {
        rows::predict(self, samples, seed)
    }
}

/// From the least to the greatest value; nothing without values.
fn span(values: impl Iterator<Item = f64>) -> Option<Range> {
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    // Counts are per page: more digits say nothing.
    Some(Range::new((low * 10.0).floor() / 10.0, (high * 10.0).ceil() / 10.0))
}

fn span_of(value: Option<f64>) -> Option<Range> {
    span(value.into_iter())
}

/// One thread's cell as a run of the model. Every part of the count is a service of its own: path, zone lock,
/// clearing of the pages that missed, and the program.
fn sum(found: Found) -> Result<Sum, Refusal> {
    const BATCH: u32 = 64;
    let pages = found.pages();
    let [path, cleared, user] = [PATH, CLEARED, USER].map(|quantity| found.section(quantity));
    let missed = if cleared > 0.0 { found.guest(MISS).clamp(1.0, pages) } else { 0.0 };
    // Without the patch no page is a hit.
    let missed = if found.cell.text("arm") == Ok("on") { missed } else { pages };
    let zone = found.zone().low * pages;
    let lock = found.of(&VMA_LOCK) * pages;
    // Lists that are long enough return nothing: only faults take time.
    let room = 2 * pages as u32 + 4 * BATCH;
    let model = Model {
        path_ns: (path - zone - lock) / pages,
        clear_ns: cleared / missed.max(1.0),
        touch_ns: user / pages,
        lock: Section { section_ns: lock / pages, ..Section::default() },
        zone: Zone {
            lock: Section { section_ns: zone / (pages / f64::from(BATCH)).ceil(), ..Section::default() },
            batch: BATCH,
            high: pages as u32,
            pages: room,
            most_order: 0,
            zeroed: (pages - missed) / f64::from(room),
            is_apart: true,
            is_prefilled: false,
            dirty: 0,
        },
        ..plain(1, pages as u32)
    };
    Ok(Sum {
        cell: found.cell.words().join(" "),
        counted: path + cleared + user,
        predicted: model.run()?.wall_ns,
    })
}
