//! zeroing: the cost of overwriting memory with zeroes, by block size, and its effect on the next reader.
//!
//! "Prezeroing V2" says that zeroing pays ahead of need, in large blocks, for memory in no cache, by an engine that
//! leaves the caches alone. Memory that was just used is better zeroed when it is needed. So each engine is
//! measured on blocks of one order. `hot` reuses two blocks. `cold` is more memory than caches
//! hold, in an order that no prefetcher guesses. Each is measured alone, followed by a reader of the zeroed memory,
//! before that reader by a block (`early`), and beside a working set elsewhere.
//!
//! The memory is never zero before: each phase leaves ones behind, and the next reader must find zeroes. All
//! memory is resident before, so only the set-up faults.

mod claims;

use faultless_os::counters;
use faultless_os::page::{self, Order};
use faultless_os::touch::Region;
use faultless_os::zero::{self, Present};

use super::memory::LINE_BYTES;
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{
    Chart, Column, Experiment, Notes, Parameter, Phase, Scope, Sheet, Step, Steps, Trial,
};
use crate::results::{Quantities, cpu_ns, values};

pub(super) struct Zeroing;

/// Bytes of the working set elsewhere: it fits in a second-level cache, with room for a program's own data.
const SET_BYTES: usize = 512 << 10;
/// CPU time of reading the working set, ns, without the zeroing between.
const SET_NS: &str = "set_cpu_ns";
/// Bytes that are zeroed between two readings of it: more than a second-level cache holds.
const BETWEEN_BYTES: usize = 2 << 20;

static SHEET: Sheet = Sheet {
    name: "zeroing",
    about: "What does zeroing cost by block size and engine, and how does it affect the next reader and other cached data?",
    documents: &[Document::Prezeroing],
    parameters: &[
        Parameter::named("engine", "cached, non-temporal, and others that the processor may have"),
        Parameter::named("from", "hot: one block again and again; cold: more memory than caches hold"),
        Parameter::named("order", "log2 of the base pages of a block, up to 10"),
        Parameter::named("mib", "MiB that are zeroed in all"),
    ],
    columns: &[
        Column { head: "zeroing ns/page", values: |_, found| zero_ns(found) },
        Column { head: "reading a set elsewhere, times", values: |_, found| beside(found) },
    ],
    charts: CHARTS,
    claims: claims::claims,
    unjudged: claims::unjudged,
    ..Sheet::BLANK
};

impl Experiment for Zeroing {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mib = scope.pick([4, 64, 128, 512]);
        let all: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let orders: &[u8] = scope.pick([&[0], &[0, 9], all, all]);
        let mut cells = Vec::new();
        for engine in zero::engines() {
            for from in ["hot", "cold"] {
                for &order in orders {
                    let engine = word(engine.name());
                    cells.push(SHEET.cell(&format!("engine={engine} from={from} order={order} mib={mib}")));
                }
            }
        }
        cells
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        let Asked { bytes, .. } = Asked::of(cell)?;
        Ok((bytes + SET_BYTES) as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let Asked { engine, is_hot, bytes, block_bytes, batch_bytes } = Asked::of(cell)?;
        let engine = Present::named(engine)
            .ok_or_else(|| Refusal(format!("this processor has no {}: take another engine", word(engine))))?;
        let (batches, batch_blocks) = (bytes / batch_bytes, batch_bytes / block_bytes);
        let hot_bytes = block_bytes * 2.min(batches * batch_blocks);
        let memory = Region::base_pages(if is_hot { hot_bytes } else { bytes }, page::size())?;
        let set = Region::base_pages(SET_BYTES, page::size())?;
        let overwriting = Overwriting { engine, memory, set, block_bytes, batches, batch_blocks };
        Ok(Steps::of(overwriting, Overwriting::steps))
    }
}

/// A cell's parameters.
struct Asked {
    engine: &'static str,
    is_hot: bool,
    bytes: usize,
    block_bytes: usize,
    batch_bytes: usize,
}

impl Asked {
    fn of(cell: &Cell) -> Result<Self, Refusal> {
        let name = cell.text("engine")?;
        let Some(engine) = zero::engines().iter().find(|engine| word(engine.name()) == name) else {
            let all: Vec<_> = zero::engines().iter().map(|engine| word(engine.name())).collect();
            return Err(Refusal(format!("{cell}: engine={name}: takes {}", all.join(", "))));
        };
        let is_hot = cell.choice("from", &[("hot", true), ("cold", false)])?;
        let order = cell.count("order")?;
        let known = u8::try_from(order).ok().filter(|&order| order <= MOST_ORDER);
        let refusal = || Refusal(format!("{cell}: order={order}: takes a number from 0 to {MOST_ORDER}"));
        let block_bytes = Order(known.ok_or_else(refusal)?).len_bytes();
        let bytes = cell.mib("mib")?;
        let batch_bytes = block_bytes.max(BETWEEN_BYTES);
        if bytes < batch_bytes {
            return Err(Refusal(format!("{cell}: mib={}: take {} at least", bytes >> 20, batch_bytes >> 20)));
        }
        Ok(Self { engine: engine.name(), is_hot, bytes, block_bytes, batch_bytes })
    }
}

/// Steps of this length visit every block once, and never a neighbour: it is a prime, so no smaller number has
/// a factor in common with it. Knuth, The Art of Computer Programming 3, 6.4.
const PRIME: usize = 2_654_435_761;
/// The largest order of the kernel's page allocator on most machines: 4 MiB of 4 KiB pages.
const MOST_ORDER: u8 = 10;

/// An engine's name as one word.
fn word(name: &str) -> String {
    name.replace(' ', "-")
}

struct Overwriting {
    engine: Present,
    memory: Region,
    set: Region,
    block_bytes: usize,
    /// How often the working set is read, and how many blocks are zeroed before each time.
    batches: usize,
    batch_blocks: usize,
}

impl Overwriting {
    fn steps(&self) -> Vec<Step<Self>> {
        let pages = (self.memory.len_bytes() + self.set.len_bytes()) / page::size();
        let lines = self.blocks() * self.block_bytes / LINE_BYTES;
        let set = self.batches * SET_BYTES / LINE_BYTES;
        let check = |name| Phase::new(name, 0, 0).work(self.memory.len_bytes() / LINE_BYTES).sum(0);
        vec![
            (Phase::new("setup", pages, 0).touches(pages), |this, _| {
                this.memory.bytes_mut().fill(1);
                this.set.bytes_mut().fill(1);
                Ok(0)
            }),
            // As the other phases leave it: zero, but with a one in each page, which the check has just written.
            (Phase::new("wipe", 0, 0).work(lines), Self::zero_all),
            (check("check-wipe"), Self::check),
            (Phase::new("zero", 0, 0).work(lines), Self::zero_all),
            (check("check-zero"), Self::check),
            (Phase::new("reader", 0, 0).work(lines).sum(0), |this, _| {
                Ok((0..this.blocks()).fold(0, |sum, at| {
                    this.zero(at);
                    sum + read_and_mark(this.block(at))
                }))
            }),
            // The same work, but a block is zeroed while the one before is still to be read.
            (Phase::new("early", 0, 0).work(lines).sum(0), |this, _| Ok(this.read_early())),
            (Phase::new("alone", 0, 0).work(set).sum(set as u64), |this, notes| {
                Ok(this.read_sets(false, notes))
            }),
            (Phase::new("beside", 0, 0).work(lines + set).sum(set as u64), |this, notes| {
                Ok(this.read_sets(true, notes))
            }),
            (check("check-beside"), Self::check),
        ]
    }

    fn zero_all(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        notes.add("pages", (self.blocks() * self.block_bytes / page::size()) as f64);
        (0..self.blocks()).for_each(|at| self.zero(at));
        Ok(0)
    }

    fn read_early(&mut self) -> u64 {
        self.zero(0);
        (0..self.blocks()).fold(0, |sum, at| {
            if at + 1 < self.blocks() {
                self.zero(at + 1);
            }
            sum + read_and_mark(self.block(at))
        })
    }

    fn check(&mut self, _: &mut Notes) -> Result<u64, Refusal> {
        Ok(read_and_mark(self.memory.bytes_mut()))
    }

    /// Reads the working set again and again, with blocks zeroed before each time if asked for.
    fn read_sets(&mut self, zeroes: bool, notes: &mut Notes) -> u64 {
        let (mut sum, mut set_ns) = (0, 0);
        for batch in 0..self.batches {
            if zeroes {
                (0..self.batch_blocks).for_each(|at| self.zero(batch * self.batch_blocks + at));
            }
            let begin_ns = counters::thread_cpu_ns();
            sum += self.read_set();
            set_ns += counters::thread_cpu_ns() - begin_ns;
        }
        notes.add(SET_NS, set_ns as f64);
        sum
    }

    fn blocks(&self) -> usize {
        self.batches * self.batch_blocks
    }

    /// The block at this place of the order: every block once, never a neighbour of the one before.
    fn block(&mut self, at: usize) -> &mut [u8] {
        let count = (self.memory.len_bytes() / self.block_bytes).max(1);
        let begin = at.wrapping_mul(PRIME) % count * self.block_bytes;
        &mut self.memory.bytes_mut()[begin..begin + self.block_bytes]
    }

    fn zero(&mut self, at: usize) {
        let engine = self.engine;
        engine.zero(self.block(at));
    }

    /// Reads every line of the working set once. Each line names the next, so no prefetcher hides the latency.
    /// Returns the sum; all bytes are 1.
    fn read_set(&self) -> u64 {
        let set = self.set.bytes();
        let lines = set.len() / LINE_BYTES;
        let (mut at, mut sum) = (0, 0);
        for _ in 0..lines {
            let one = set[at * LINE_BYTES];
            sum += u64::from(one);
            at = (at + PRIME * usize::from(one)) % lines;
        }
        sum
    }
}

/// Reads every cache line; returns the sum.
fn read(memory: &[u8]) -> u64 {
    memory.iter().step_by(LINE_BYTES).map(|slot| u64::from(*std::hint::black_box(slot))).sum()
}

/// The same, and leaves a one in each page, so that zeroing has something to do.
fn read_and_mark(memory: &mut [u8]) -> u64 {
    let sum = read(memory);
    memory.iter_mut().step_by(page::size()).for_each(|slot| *std::hint::black_box(slot) = 1);
    sum
}

const CHARTS: &[Chart] = &[
    Chart {
        id: "zeroing-price",
        title: "Zeroing, by block size",
        x: "order",
        x_label: "order (log2 of base pages)",
        y_label: "ns per base page",
        values: |_, found| zero_ns(found),
        ..Chart::BLANK
    },
    Chart {
        id: "zeroing-beside",
        title: "A working set of 512 KiB elsewhere, by block size",
        x: "order",
        x_label: "order (log2 of base pages)",
        y_label: "times as long to read as without zeroing",
        values: |_, found| beside(found),
        ..Chart::BLANK
    },
];

/// Time of zeroing, per page.
fn zero_ns(found: &Quantities) -> Vec<f64> {
    let pages = values(found, "zero", "pages").unwrap_or_default();
    cpu_ns(found, "zero").iter().zip(pages).map(|(zero, pages)| zero / pages).collect()
}

/// How many times as long reading a working set elsewhere takes.
fn beside(found: &Quantities) -> Vec<f64> {
    let [alone, beside] = ["alone", "beside"].map(|phase| values(found, phase, SET_NS).unwrap_or_default());
    beside.iter().zip(alone).map(|(beside, alone)| beside / alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_left_out_by_an_engine_shows() {
        let mut memory = vec![0_u8; 2 * page::size()];
        assert_eq!(read_and_mark(&mut memory), 0);
        assert_eq!(read_and_mark(&mut memory), 2);
    }
}
