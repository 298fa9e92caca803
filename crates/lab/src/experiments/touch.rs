//! touch: first and second touch of new memory, by reading or writing, by threads and size.
//!
//! "Bringing The Hardware And Windows To Its Limits" touches 2000 MB twice, and its listing never makes the second touch: here
//! both are phases, and both have to return what they read. Written once and read once, every page is one fault the first
//! time and none the second; read first, it is a fault on the zero page.
//!
//! Each thread touches a contiguous part. THP is off for the memory; what THP does is `price`'s to say.

use std::sync::Barrier;
use std::thread;

use faultless_os::touch::{Advice, Region};
use faultless_os::{map, page};

use crate::experiment::{Cell, Chart, Document, Effort, Experiment, Notes, Phase, Refusal, Scope, Trial};
use crate::results::{Quantities, values};

pub(super) struct Touch;

impl Experiment for Touch {
    fn name(&self) -> &'static str {
        "touch"
    }

    fn about(&self) -> &'static str {
        "What does the first touch of a page cost, what the second, and does it scale with threads?"
    }

    fn documents(&self) -> &'static [Document] {
        &[Document::Hardware]
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let sizes: &[usize] = scope.pick([&[4], &[64], &[64, 512], &[16, 256, 2000]]);
        let mut cells = Vec::new();
        for access in ["write", "read"] {
            for &mib in sizes {
                for threads in scope.threads() {
                    // Reading maps one shared page: its scaling is told by one size.
                    if access == "write" || mib == sizes[0] || scope.effort == Effort::Full {
                        cells.push(
                            Cell::of("touch")
                                .with("access", access)
                                .with("mib", mib)
                                .with("threads", threads),
                        );
                    }
                }
            }
        }
        cells
    }

    fn charts(&self) -> &'static [Chart] {
        &[
            Chart {
                id: "touch-first",
                title: "First touch by threads",
                x: "threads",
                x_label: "threads",
                y_label: "us per page, all threads together",
                values: |cell, found| per_page(cell, found, "first"),
                document: &[],
            },
            Chart {
                id: "touch-second",
                title: "Second touch by threads",
                x: "threads",
                x_label: "threads",
                y_label: "us per page, all threads together",
                values: |cell, found| per_page(cell, found, "second"),
                document: &[],
            },
        ]
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        Ok((cell.number("mib")? as u64) << 20)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let writes = match cell.text("access")? {
            "write" => true,
            "read" => false,
            other => return Err(Refusal(format!("{cell}: access={other}: takes write or read"))),
        };
        let (mib, threads) = (cell.number("mib")?, cell.number("threads")?);
        let mut region = Region::new(mib << 20, page::size())?;
        // A kernel without THP refuses, and has base pages anyway.
        let _ = region.advise(0..region.len_bytes(), Advice::NoHugePage);
        Ok(Box::new(Touching { region, writes, threads }))
    }
}

/// The phase after both touches: how much of what is mapped is resident.
const LOOK: usize = 2;

fn per_page(cell: &Cell, found: &Quantities, phase: &str) -> Vec<f64> {
    let pages = cell.number("mib").map_or(1, |mib| (mib << 20) / page::size()) as f64;
    values(found, phase, "wall_ns").unwrap_or_default().iter().map(|ns| ns / 1e3 / pages).collect()
}

struct Touching {
    region: Region,
    writes: bool,
    threads: usize,
}

impl Trial for Touching {
    fn phases(&self) -> Vec<Phase> {
        let pages = self.region.len_bytes() / page::size();
        let sum = if self.writes { pages as u64 } else { 0 };
        vec![
            Phase::new("first", pages, self.threads).work(pages).sum(sum),
            Phase::new("second", 0, self.threads).work(pages).sum(sum),
            Phase::new("look", 0, 0),
        ]
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        if phase == LOOK {
            let start = self.region.bytes().as_ptr().addr();
            notes.add("resident_bytes", map::resident_bytes(start, self.region.len_bytes()) as f64);
            notes.add("mapped_bytes", self.region.len_bytes() as f64);
            return Ok(0);
        }
        let pages = self.region.len_bytes() / page::size();
        let part = pages.div_ceil(self.threads) * page::size();
        let (writes, gate) = (self.writes, Barrier::new(self.threads));
        let sum = thread::scope(|scope| {
            let parts = self.region.bytes_mut().chunks_mut(part);
            let threads: Vec<_> = parts.map(|part| scope.spawn(|| touched(part, writes, &gate))).collect();
            // Fewer parts than threads when there are few pages: the rest only meet at the gate.
            let idle = self.threads - threads.len();
            let idle: Vec<_> = (0..idle).map(|_| scope.spawn(|| drop(gate.wait()))).collect();
            idle.into_iter().for_each(|thread| drop(thread.join()));
            threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
        });
        Ok(sum)
    }
}

/// One access per page; the sum of what is there afterwards.
fn touched(part: &mut [u8], writes: bool, gate: &Barrier) -> u64 {
    gate.wait();
    let mut sum = 0;
    for slot in part.iter_mut().step_by(page::size()) {
        if writes {
            *std::hint::black_box(&mut *slot) = 1;
        }
        sum += u64::from(*std::hint::black_box(slot));
    }
    sum
}
