//! copy: memcpy by threads into memory that was never touched, and again into the same memory, which is warm
//! then.
//!
//! As in "Bringing The Hardware And Windows To Its Limits": a source of random data, a destination of the same
//! size, and each thread copies a contiguous part, twice. The extra time of the first copy is its page faults.
//! The source changes between the copies, so that the second can't be optimised away.
//!
//! The document compares its figures with the theoretical bandwidth of the memory, which a machine does not
//! report. Instead `kind=read` (adds up every word) and `kind=write` (memset) measure what all threads together
//! reach. The bandwidth of a copy counts each byte once, as in the document: the memory moves it at least
//! twice. The C library copies and sets large blocks with non-temporal stores.

mod claims;

use std::sync::{Mutex, PoisonError};

use faultless_os::page;
use faultless_os::touch::Region;
use faultless_os::zero::{self, Present};
use faultless_trace::measurement::Rng;

use super::data;
use super::memory::LINE_BYTES;
use super::team::{self, Others};
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{
    Chart, Column, Effort, Experiment, Notes, Parameter, Phase, Scope, Sheet, Step, Steps, Trial,
};
use crate::results::{Quantities, us_per_page, wall_ms, wall_ns};

pub(super) struct Copy;

/// Seed of the random data.
const SEED: u64 = 1;
/// The byte that `kind=write` writes.
const WRITTEN: u8 = 7;
/// Bytes that the thread beside zeroes, over and over, and those of one turn: a block of order 9 with 4 KiB pages.
const SCRUB_BYTES: usize = 64 << 20;
const TURN_BYTES: usize = 2 << 20;

static SHEET: Sheet = Sheet {
    name: "copy",
    about: "How fast do threads copy into new and into warm memory, and what does the machine's memory allow?",
    documents: &[Document::Hardware, Document::Prezeroing],
    parameters: &[
        Parameter::usual(
            "kind",
            "copy",
            "copy, read, write, or read-scrub: read while a thread zeroes other memory",
        ),
        Parameter::named("mib", "MiB of the source"),
        Parameter::named("threads", "threads, each a part"),
    ],
    columns: &[
        Column { head: "cold ms", values: |_, found| wall_ms(found, "cold") },
        Column { head: "cold us/page", values: |cell, found| us_per_page(cell, found, "cold") },
        Column { head: "cold GB/s", values: |cell, found| gb_per_s(cell, found, "cold") },
        Column { head: "warm ms", values: |_, found| wall_ms(found, "warm") },
        Column { head: "warm us/page", values: |cell, found| us_per_page(cell, found, "warm") },
        Column { head: "warm GB/s", values: |cell, found| gb_per_s(cell, found, "warm") },
        // Of the other kinds.
        Column { head: "limit ms", values: |_, found| wall_ms(found, "timed") },
        Column { head: "limit GB/s", values: |cell, found| gb_per_s(cell, found, "timed") },
    ],
    charts: CHARTS,
    claims: claims::claims,
    unjudged: claims::unjudged,
    ..Sheet::BLANK
};

impl Experiment for Copy {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let sizes: &[usize] = scope.pick([&[4], &[64], &[64, 512], &[64, 512, 2000]]);
        let mut cells = Vec::new();
        for &mib in sizes {
            for kind in ["copy", "read", "write"] {
                let each = |threads| SHEET.cell(&format!("kind={kind} mib={mib} threads={threads}"));
                // One size shows the limits, and more threads than processors do not raise them.
                let least = scope.pick([1, scope.processors, 1, 1]);
                let is_copy = kind == "copy";
                if is_copy || mib == sizes[sizes.len() - 1] {
                    let counts = scope.threads().into_iter();
                    let counts = counts.filter(|count| is_copy || (least..=scope.processors).contains(count));
                    cells.extend(counts.map(each));
                }
            }
            // A thread beside needs a processor of its own.
            if scope.processors > 1 && scope.effort != Effort::Quick && mib == sizes[sizes.len() - 1] {
                cells.push(SHEET.cell(&format!("kind=read-scrub mib={mib} threads=1")));
            }
        }
        cells
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        let bytes = cell.mib("mib")? as u64;
        cell.number("threads")?;
        Ok(match cell.choice("kind", &KINDS)? {
            Kind::Copy => 2 * bytes,
            Kind::ReadScrub => bytes + SCRUB_BYTES as u64,
            Kind::Read | Kind::Write => bytes,
        })
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let kind = cell.choice("kind", &KINDS)?;
        let (len_bytes, threads) = (cell.mib("mib")?, cell.number("threads")?);
        let array = || Region::base_pages(len_bytes, page::size());
        Ok(match kind {
            Kind::Copy => Steps::of(Copying { source: array()?, target: array()?, threads }, Copying::steps),
            Kind::Read | Kind::Write | Kind::ReadScrub => {
                let limit = Limit { array: array()?, threads, kind, others: None, sum: 0 };
                Steps::of(limit, Limit::steps)
            }
        })
    }
}

/// GB (of 10^9 bytes) per second.
pub(crate) fn gb_per_s(cell: &Cell, found: &Quantities, phase: &str) -> Vec<f64> {
    let bytes = cell.number("mib").map_or(0, |mib| mib << 20) as f64;
    wall_ns(found, phase).iter().map(|ns| bytes / ns).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Copy,
    Read,
    Write,
    ReadScrub,
}

const KINDS: [(&str, Kind); 4] =
    [("copy", Kind::Copy), ("read", Kind::Read), ("write", Kind::Write), ("read-scrub", Kind::ReadScrub)];

/// Starts a thread that zeroes memory, block after block.
fn scrub_beside() -> Result<Others, Refusal> {
    let mut memory = Region::base_pages(SCRUB_BYTES, page::size())?;
    memory.touch_write(page::size());
    // The first call in a process finds out which engine is fastest.
    let engine =
        Present::named(zero::ahead().name()).ok_or_else(|| Refusal("copy: no engine zeroes here".into()))?;
    let scrubbed = Mutex::new((memory, 0));
    Ok(Others::threads(1, 1, move || {
        let mut scrubbed = scrubbed.lock().unwrap_or_else(PoisonError::into_inner);
        let (memory, at) = &mut *scrubbed;
        let block = &mut memory.bytes_mut()[*at..*at + TURN_BYTES];
        block[0] = 1;
        engine.zero(block);
        *at = (*at + TURN_BYTES) % SCRUB_BYTES;
        Ok(u64::from(block[0] == 0))
    }))
}

struct Copying {
    source: Region,
    target: Region,
    threads: usize,
}

impl Copying {
    fn steps(&self) -> Vec<Step<Self>> {
        let (len_bytes, threads) = (self.source.len_bytes(), self.threads);
        let (pages, lines) = (len_bytes / page::size(), len_bytes / LINE_BYTES);
        let check = |name| Phase::new(name, 0, 0).work(lines).sum(1);
        vec![
            (Phase::new("setup", pages, 0).work(lines), |this, notes| {
                team::note_processors(notes);
                Ok(data::fill(this.source.bytes_mut(), &mut Rng::from_seed(SEED)))
            }),
            (Phase::new("cold", pages, threads).work(lines), Self::copy),
            (check("check-cold"), Self::check),
            (Phase::new("change", 0, 0).work(pages), |this, _| {
                let pages = this.source.bytes_mut().iter_mut().step_by(page::size());
                pages.for_each(|byte| *byte = !*byte);
                Ok(0)
            }),
            (Phase::new("warm", 0, threads).work(lines), Self::copy),
            (check("check-warm"), Self::check),
        ]
    }

    fn copy(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let sources = team::parts(self.source.len_bytes() / LINE_BYTES, self.threads);
        let targets = team::cut(self.target.bytes_mut(), self.threads, LINE_BYTES);
        let source = self.source.bytes();
        let done = team::together(sources.into_iter().zip(targets).collect(), |(part, target)| {
            target.copy_from_slice(&source[part.start * LINE_BYTES..part.end * LINE_BYTES]);
            Ok(0)
        })?;
        Ok(done.noted(notes, false))
    }

    fn check(&mut self, _: &mut Notes) -> Result<u64, Refusal> {
        Ok(u64::from(self.source.bytes() == self.target.bytes()))
    }
}

/// All threads read, or write, an array that is warm.
struct Limit {
    array: Region,
    threads: usize,
    kind: Kind,
    /// The thread that zeroes memory meanwhile.
    others: Option<Others>,
    /// The sum that reading must find.
    sum: u64,
}

impl Limit {
    fn steps(&self) -> Vec<Step<Self>> {
        let len_bytes = self.array.len_bytes();
        let (pages, lines) = (len_bytes / page::size(), len_bytes / LINE_BYTES);
        let is_scrubbed = self.kind == Kind::ReadScrub;
        // The memory that is zeroed, the thread's own, and what the engines are tried on.
        let [scrubbed, tried] =
            [SCRUB_BYTES, zero::TRIAL_BYTES].map(|bytes| if is_scrubbed { bytes / page::size() } else { 0 });
        let setup = Phase::new("setup", pages + scrubbed, usize::from(is_scrubbed));
        let checked = if self.kind == Kind::Write { len_bytes as u64 } else { 1 };
        let mut steps: Vec<Step<Self>> = vec![
            (setup.touches(pages).up_to(tried as u64), |this, _| this.set_up()),
            (Phase::new("timed", 0, self.threads).work(lines), Self::pass),
            (Phase::new("check", 0, 0).work(lines).sum(checked), |this, _| Ok(this.check())),
        ];
        if is_scrubbed {
            steps.push((Phase::new("end", 0, 0).sum(1), |this, notes| Others::end(&mut this.others, notes)));
        }
        steps
    }

    fn set_up(&mut self) -> Result<u64, Refusal> {
        if self.kind == Kind::ReadScrub {
            self.others = Some(scrub_beside()?);
        }
        if self.kind == Kind::Write {
            self.array.touch_write(page::size());
            return Ok(0);
        }
        Ok(data::fill(self.array.bytes_mut(), &mut Rng::from_seed(SEED)))
    }

    fn pass(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let reads = self.kind != Kind::Write;
        let done = team::together(team::cut(self.array.bytes_mut(), self.threads, LINE_BYTES), |part| {
            if reads {
                return Ok(data::sum(part));
            }
            part.fill(std::hint::black_box(WRITTEN));
            Ok(0)
        })?;
        self.sum = done.sum;
        Ok(done.noted(notes, false))
    }

    fn check(&self) -> u64 {
        match self.kind {
            Kind::Write => self.array.bytes().iter().filter(|&&byte| byte == WRITTEN).count() as u64,
            _ => u64::from(self.sum == data::sum(self.array.bytes())),
        }
    }
}

const CHARTS: &[Chart] = &[
    Chart {
        id: "copy-cold",
        title: "Copying into memory that was never touched",
        x: "threads",
        x_label: "threads",
        y_label: "GB/s, each byte counted once",
        values: |cell, found| gb_per_s(cell, found, "cold"),
        // The text does not give the number of threads of the best copies: drawn at the number of cores.
        document: || {
            vec![
                ("Windows 10 Creators Update, i7-4770K, its best", 4.0, 6.5),
                ("Windows 10 Fall Creators Update, i7-4770K", 3.0, 9.3),
            ]
        },
        ..Chart::BLANK
    },
    Chart {
        id: "copy-warm",
        title: "Copying into warm memory, and the machine's limits",
        x: "threads",
        x_label: "threads",
        y_label: "GB/s, each byte counted once",
        values: |cell, found| {
            gb_per_s(cell, found, if cell.text("kind") == Ok("copy") { "warm" } else { "timed" })
        },
        document: || {
            vec![
                ("i7-4770K, its best", 4.0, 9.3),
                ("E5-2623 v3, its best", 4.0, 10.3),
                ("Xeon Gold 6148", 10.0, 40.8),
            ]
        },
        ..Chart::BLANK
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_was_not_made_is_noticed() {
        let array = || Region::base_pages(1 << 15, page::size()).unwrap();
        let mut copying = Steps::of(Copying { source: array(), target: array(), threads: 1 }, Copying::steps);
        let mut notes = Notes::default();
        for phase in 0..4 {
            let found = copying.run(phase, &mut notes).unwrap();
            assert!(phase != 2 || found == 1);
        }
        // The warm copy is left out.
        assert_eq!(copying.run(5, &mut notes).unwrap(), 0);
    }
}
