//! stride: every n-th element of an array times three, as "Oops All Page Faults!" does it.
//!
//! The document has four kinds of array, of 64M elements of 4 bytes each:
//!
//! | array | faults |
//! |---|---|
//! | `zeroed` | two per page in the loop: the read maps the zero page, the write copies it |
//! | `ones` | one per page in the set-up, which writes a one to every element |
//! | `prefaulted` | one per page in the set-up, which writes once to every page |
//! | `zeroes` | the same with the document's zeroes, in a vector of the language's own |
//! | `shared` | as `zeroed`; two strides use the array one after the other, and the first pays for both |
//!
//! The timed loop is the document's, element by element and nothing else. Its effect is summed up in a phase of its
//! own, `check`, so that no other arithmetic is timed.

mod chain;
mod claims;

use faultless_os::touch::Region;
use faultless_os::{advise, page};

use super::memory;
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{
    Chart, Column, DocumentPoint, DocumentRow, Experiment, Notes, Parameter, Part, Phase, Scope, Sheet, Step,
    Steps, Trial,
};
use crate::results::{Quantities, values, wall_ms};

pub(super) struct Stride;

/// Stride of the second loop on a shared array.
const SECOND_STRIDE: usize = 16;
/// Bytes of an element.
const ELEMENT: usize = size_of::<i32>();

static SHEET: Sheet = Sheet {
    name: "stride",
    about: "Does touching every 16th element take as long as touching each, and how does that depend on the array's memory?",
    documents: &[Document::Oops, Document::Queue],
    parameters: &[
        Parameter::named(
            "array",
            "shared, zeroed, ones or prefaulted; or chain: loads that wait for each other",
        ),
        Parameter::named("mib", "MiB of the array"),
        Parameter::named("stride", "stride in elements of 4 bytes"),
        Parameter::named("kib", "KiB of the chain, a power of two"),
    ],
    varied: &[],
    columns: &[
        Column { head: "duration ms", values: |cell, found| wall_ms(found, loop_of(cell)) },
        // The second loop over the array that both share.
        Column { head: "then stride 16 ms", values: |_, found| wall_ms(found, "second") },
        Column { head: "page faults", values: |_, found| faults(found) },
    ],
    theirs: durations_of_document,
    charts: CHARTS,
    claims: claims::claims,
    unjudged: claims::unjudged,
    parts: &[Part {
        name: "latency",
        about: "How much longer than a hit in the first cache does a load from memory take?",
        has: is_chain,
        varied: &[],
        columns: &[Column { head: "ns per load", values: chain::load_ns }],
        theirs: Vec::new,
    }],
};

impl Experiment for Stride {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mib = scope.pick([4, 64, 256, 256]);
        let all: &[usize] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
        let strides: &[usize] = scope.pick([&[16], &[1, 16], all, all]);
        let cell =
            |array: &str, stride: usize| SHEET.cell(&format!("array={array} mib={mib} stride={stride}"));
        let mut cells = vec![cell("shared", 1)];
        cells.push(cell("zeroes", 1));
        for array in ["zeroed", "ones", "prefaulted"] {
            cells.extend(strides.iter().map(|&stride| cell(array, stride)));
        }
        cells.extend(chain::sizes(scope).iter().map(|kib| SHEET.cell(&format!("array=chain kib={kib}"))));
        cells
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        if is_chain(cell) {
            return chain::memory_bytes(cell);
        }
        cell.choice("array", &ARRAYS)?;
        cell.number("stride")?;
        Ok(cell.mib("mib")? as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        if is_chain(cell) {
            return chain::trial(cell);
        }
        let (array, stride) = (cell.choice("array", &ARRAYS)?, cell.number("stride")?);
        let len_bytes = cell.mib("mib")?;
        if array == Array::Zeroes {
            advise::disable_thp()?;
        }
        Ok(Steps::of(Strided { len_bytes, memory: Memory::None, array, stride }, Strided::steps))
    }
}

fn is_chain(cell: &Cell) -> bool {
    cell.text("array") == Ok("chain")
}

/// The phase of the first loop.
fn loop_of(cell: &Cell) -> &'static str {
    if cell.text("array") == Ok("shared") { "first" } else { "timed" }
}

/// Faults of the set-up and of the loops, sample by sample.
fn faults(found: &Quantities) -> Vec<f64> {
    let phases = ["setup", "timed", "first", "second"];
    let counts: Vec<&[f64]> =
        phases.iter().filter_map(|phase| values(found, phase, "minor_faults")).collect();
    let samples = counts.iter().map(|counts| counts.len()).min().unwrap_or(0);
    (0..samples).map(|at| counts.iter().map(|counts| counts[at]).sum()).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Array {
    /// A zeroed array, used by two strides one after the other: 1, then 16.
    Shared,
    Zeroed,
    Ones,
    Prefaulted,
    /// Prefaulted with zeroes, in a vector.
    Zeroes,
}

const ARRAYS: [(&str, Array); 5] = [
    ("shared", Array::Shared),
    ("zeroed", Array::Zeroed),
    ("ones", Array::Ones),
    ("prefaulted", Array::Prefaulted),
    ("zeroes", Array::Zeroes),
];

struct Strided {
    len_bytes: usize,
    /// Mapped by the set-up, so that the phase shows what that costs.
    memory: Memory,
    array: Array,
    stride: usize,
}

enum Memory {
    None,
    Region(Region),
    Vector(Vec<[u8; ELEMENT]>),
}

/// A vector of zeroes as the document makes it: zeroed memory, and then a zero written to every page. Both in one function,
/// so that the compiler sees what it might leave out.
#[inline(never)]
fn zeroes(elements: usize) -> Vec<[u8; ELEMENT]> {
    let mut vector = vec![[0; ELEMENT]; elements];
    for element in (0..elements).step_by(page::size() / ELEMENT) {
        vector[element] = [0; ELEMENT];
    }
    vector
}

/// The document's loop: `for i in (0..len).step_by(stride) { array[i] *= 3 }`. The compiler knows the document's strides, as
/// it does there: it unrolls the loops by them, and takes several elements at once.
fn workload(array: &mut [[u8; ELEMENT]], stride: usize) {
    match stride {
        1 => strided(array, 1),
        16 => strided(array, 16),
        _ => strided(array, stride),
    }
}

#[inline(always)]
fn strided(array: &mut [[u8; ELEMENT]], stride: usize) {
    for element in (0..array.len()).step_by(stride) {
        array[element] = i32::from_ne_bytes(array[element]).wrapping_mul(3).to_ne_bytes();
    }
}

impl Strided {
    fn pages(&self) -> usize {
        self.len_bytes / page::size()
    }

    fn elements(&self, stride: usize) -> usize {
        (self.len_bytes / ELEMENT).div_ceil(stride)
    }

    /// The array's sum once every `stride`-th element was multiplied by three, after one write per page.
    fn marked_sum(&self, stride: usize) -> u64 {
        let elements = page::size() / ELEMENT;
        let pages = (0..self.pages()).filter(|page| (page * elements).is_multiple_of(stride));
        let first = |page| i32::from_ne_bytes([memory::mark(page, 0), 0, 0, 0]).wrapping_mul(3);
        pages.fold(0, |sum: u64, page| sum.wrapping_add(u64::from(first(page) as u32)))
    }

    fn array(&mut self) -> Result<&mut [[u8; ELEMENT]], Refusal> {
        match &mut self.memory {
            Memory::None => Err(Refusal("stride: nothing was mapped".into())),
            Memory::Region(region) => Ok(region.bytes_mut().as_chunks_mut().0),
            Memory::Vector(vector) => Ok(vector),
        }
    }
}

impl Strided {
    fn steps(&self) -> Vec<Step<Self>> {
        let (pages, work) = (self.pages(), self.elements(self.stride));
        // Every page has a touched element, up to the stride of a page; longer strides skip pages.
        let touched = pages.min(work);
        let (setup, faults, sum) = match self.array {
            Array::Shared => return self.shared_steps(),
            Array::Zeroed => (Phase::new("setup", 0, 0), 2 * touched, 0),
            Array::Ones => (Phase::new("setup", pages, 0).work(self.elements(1)), 0, 3 * work as u64),
            Array::Prefaulted | Array::Zeroes => {
                (Phase::new("setup", pages, 0).touches(pages), 0, self.marked_sum(self.stride))
            }
        };
        let change: Step<Self> = (Phase::new("change", 0, 0).touches(pages), |this, _| this.mark());
        let change = (self.array == Array::Zeroes).then_some(change);
        let timed: Step<Self> =
            (Phase::new("timed", faults, 0).work(work), |this, _| this.workload(this.stride));
        let check: Step<Self> =
            (Phase::new("check", 0, 0).work(work).sum(sum), |this, _| this.check(this.stride));
        std::iter::once((setup, Self::set_up as fn(&mut Self, &mut Notes) -> Result<u64, Refusal>))
            .chain(change)
            .chain([timed, check])
            .collect()
    }

    fn shared_steps(&self) -> Vec<Step<Self>> {
        let (pages, second) = (self.pages(), self.elements(SECOND_STRIDE));
        let sum = self.marked_sum(SECOND_STRIDE);
        vec![
            (Phase::new("setup", 0, 0), Self::set_up),
            (Phase::new("first", 2 * pages, 0).work(self.elements(self.stride)), |this, _| {
                this.workload(this.stride)
            }),
            (Phase::new("change", 0, 0).touches(pages), |this, _| this.mark()),
            (Phase::new("second", 0, 0).work(second), |this, _| this.workload(SECOND_STRIDE)),
            (Phase::new("check", 0, 0).work(second).sum(sum), |this, _| this.check(SECOND_STRIDE)),
        ]
    }

    fn set_up(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        if self.array == Array::Zeroes {
            self.memory = Memory::Vector(zeroes(self.len_bytes / ELEMENT));
            return Ok(0);
        }
        let region = Region::base_pages(self.len_bytes, page::size())?;
        memory::note_resident(std::slice::from_ref(&region), notes);
        self.memory = Memory::Region(region);
        match self.array {
            Array::Ones => self.array()?.fill(1_i32.to_ne_bytes()),
            Array::Prefaulted => return self.mark(),
            Array::Shared | Array::Zeroed | Array::Zeroes => {}
        }
        Ok(0)
    }

    /// Writes to each page. Not zero, so that the values show afterwards whether the loop was run.
    fn mark(&mut self) -> Result<u64, Refusal> {
        memory::write(self.array()?.as_flattened_mut(), page::size());
        Ok(0)
    }

    fn workload(&mut self, stride: usize) -> Result<u64, Refusal> {
        workload(self.array()?, stride);
        Ok(0)
    }

    /// The sum of every `stride`-th element.
    fn check(&mut self, stride: usize) -> Result<u64, Refusal> {
        let elements = self.array()?.iter().step_by(stride);
        Ok(elements.fold(0_u64, |sum, element| sum.wrapping_add(u64::from(u32::from_ne_bytes(*element)))))
    }
}

/// The document's durations, ms: of 64 Mi elements.
const DOCUMENT_MS: [(&str, usize, f64); 6] = [
    ("zeroed", 1, 377.0),
    ("zeroed", 16, 359.0),
    ("ones", 1, 29.0),
    ("ones", 16, 26.0),
    ("prefaulted", 1, 26.0),
    ("prefaulted", 16, 23.0),
];

/// The same as points of the chart.
fn points() -> Vec<DocumentPoint> {
    const MIB: f64 = 256.0;
    DOCUMENT_MS.map(|(array, stride, ms)| (array, stride as f64, ms * 1e3 / MIB)).to_vec()
}

fn durations_of_document() -> Vec<DocumentRow> {
    let of = |array: &str, stride: usize| {
        vec![("array", array.to_owned()), ("mib", "256".to_owned()), ("stride", stride.to_string())]
    };
    let shared = (of("shared", 1), vec![Some(368.0), Some(32.0), Some(131_145.0)]);
    // It counts the faults of two strides together.
    let rows = DOCUMENT_MS.map(|(array, stride, ms)| (of(array, stride), vec![Some(ms), None, None]));
    [shared].into_iter().chain(rows).collect()
}

const CHARTS: &[Chart] = &[
    Chart {
        id: "stride-timed",
        title: "Every n-th element times three",
        x: "stride",
        x_label: "stride in elements of 4 bytes",
        y_label: "us per MiB of the array",
        values: |cell, found| {
            let mib = cell.number("mib").unwrap_or(1) as f64;
            values(found, "timed", "wall_ns").unwrap_or_default().iter().map(|ns| ns / 1e3 / mib).collect()
        },
        document: points,
        remark: "Where the time begins to fall, a stride skips cache lines: the statement on the line's length says at which.",
        ..Chart::BLANK
    },
    chain::CHART,
];

/// A step belongs to the plateau if it saves less than this share. Beyond a cache line, half the lines take
/// half the time.
const STEP_SAVES: f64 = 1.0 / 3.0;

/// The plateau: strides between which the time hardly falls although fewer elements are touched, because each
/// stride touches every cache line. Takes strides and times, by stride; returns the longest run of small steps.
fn plateau(points: &[(usize, f64)]) -> Option<(usize, usize)> {
    let runs = points.chunk_by(|(_, before), (_, after)| *after > (1.0 - STEP_SAVES) * before);
    let longest = runs.filter(|run| run.len() > 1).max_by_key(|run| run.len())?;
    Some((longest.first()?.0, longest.last()?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plateau_is_where_fewer_elements_take_as_long() {
        let times = |times: &[f64]| {
            let strides = (0..).map(|log2| 1_usize << log2);
            plateau(&strides.zip(times.iter().copied()).collect::<Vec<_>>())
        };
        assert_eq!(times(&[26.0, 25.0, 24.0, 24.0, 23.0, 12.0, 6.0]), Some((1, 16)));
        // Where each element takes time, the plateau begins later.
        assert_eq!(times(&[80.0, 41.0, 25.0, 23.0, 22.0, 11.0, 5.0]), Some((4, 16)));
        assert_eq!(times(&[80.0, 40.0, 20.0, 10.0]), None);
    }
}
