//! latency: how long a load takes that waits for the one before, by how much memory the loads are spread over.
//!
//! "A queue of page faults" opens with a miss in the last cache that costs 100 times a hit in the first. Each line
//! names the next, in an order that no prefetcher guesses, and all lines are visited before one comes again. The memory
//! has huge pages, so that a miss in the TLB is rare beside one in a cache. No phase but the set-up faults.

use std::hint::black_box;

use faultless_os::touch::Region;
use faultless_os::{advise, page};

use super::memory;
use crate::cell::{Cell, Refusal};
use crate::experiment::{Chart, Document, Experiment, Notes, Phase, Scope, Trial};
use crate::results::{cpu_ns, values};

pub(super) struct Latency;

const LINE_BYTES: usize = 64;
const WORD_BYTES: usize = size_of::<usize>();
/// The first-level cache of every processor of today holds as much.
const FIRST_KIB: usize = 16;
/// Loads of a sample.
const LOADS: usize = 1 << 22;

impl Experiment for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn about(&self) -> &'static str {
        "How much longer than a hit in the first cache does a load from memory take?"
    }

    fn documents(&self) -> &'static [Document] {
        &[Document::Queue]
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let most: usize = scope.pick([1 << 12, 64 << 10, 512 << 10, 1 << 20]);
        let between: &[usize] = scope.pick([&[], &[], &[256, 4 << 10], &[256, 4 << 10, 64 << 10]]);
        let sizes = std::iter::once(FIRST_KIB).chain(between.iter().copied()).chain([most]);
        sizes.map(|kib| Cell::of("latency").with("kib", kib)).collect()
    }

    fn charts(&self) -> &'static [Chart] {
        CHARTS
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        Ok(mapped_bytes(asked_bytes(cell)?) as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let bytes = asked_bytes(cell)?;
        memory::check_thp(cell, advise::pmd_bytes())?;
        Ok(Box::new(Chase { lines: bytes / LINE_BYTES, region: None }))
    }
}

fn asked_bytes(cell: &Cell) -> Result<usize, Refusal> {
    let bytes = cell.kib("kib")?;
    if !bytes.is_power_of_two() || bytes < 4 * LINE_BYTES {
        return Err(Refusal(format!("{cell}: takes a power of two from 1 on")));
    }
    Ok(bytes)
}

fn mapped_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(advise::pmd_bytes().max(page::size()))
}

/// The line after this one: a full period over a power of two of lines. Knuth, The Art of Computer Programming 2, 3.2.1.
fn next(line: usize, lines: usize) -> usize {
    const FACTOR: usize = 1_664_525;
    const STEP: usize = 1_013_904_223;
    line.wrapping_mul(FACTOR).wrapping_add(STEP) % lines
}

struct Chase {
    lines: usize,
    region: Option<Region>,
}

impl Trial for Chase {
    fn phases(&self) -> Vec<Phase> {
        let bytes = mapped_bytes(self.lines * LINE_BYTES);
        let huge = advise::pmd_bytes().max(page::size());
        let setup = memory::mostly_huge(Phase::new("setup", bytes / huge, 0), bytes / page::size());
        let last = (0..LOADS).fold(0, |line, _| next(line, self.lines));
        vec![
            setup.work(self.lines),
            Phase::new("warm", 0, 0).work(self.lines).sum(0),
            Phase::new("timed", 0, 0).work(LOADS).sum((last * LINE_BYTES) as u64),
        ]
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        if phase == 0 {
            let bytes = mapped_bytes(self.lines * LINE_BYTES);
            let mut region = Region::thp(bytes, advise::pmd_bytes())?;
            let lines = region.bytes_mut().chunks_exact_mut(LINE_BYTES).take(self.lines);
            for (line, slot) in lines.enumerate() {
                let to = next(line, self.lines) * LINE_BYTES;
                slot[..WORD_BYTES].copy_from_slice(&to.to_ne_bytes());
            }
            self.region = Some(region);
            return Ok(0);
        }
        let region = self.region.as_ref().ok_or_else(|| Refusal("latency: nothing was mapped".into()))?;
        // All lines once: the chain ends where it began.
        let loads = if phase == 1 { self.lines } else { LOADS };
        notes.add("loads", loads as f64);
        Ok(chase(region.bytes(), loads) as u64)
    }
}

/// Follows the chain from its first line; returns where it ends.
fn chase(memory: &[u8], loads: usize) -> usize {
    let mut at = 0;
    for _ in 0..loads {
        // A branch, which the processor guesses: nothing but the load lies between one address and the next.
        let Some(word) = memory.get(at..).and_then(|rest| rest.first_chunk()) else { return usize::MAX };
        at = usize::from_ne_bytes(*word);
    }
    black_box(at)
}

const CHARTS: &[Chart] = &[Chart {
    id: "latency",
    title: "A load that waits for the one before",
    x: "kib",
    x_label: "KiB of memory",
    y_label: "ns per load",
    values: |_, found| {
        let loads = values(found, "timed", "loads").unwrap_or_default();
        cpu_ns(found, "timed").iter().zip(loads).map(|(ns, loads)| ns / loads).collect()
    },
    ..Chart::BLANK
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_visits_every_line_once() {
        for lines in [256, 4096] {
            let mut seen = vec![false; lines];
            let last = (0..lines).fold(0, |line, _| {
                assert!(!std::mem::replace(&mut seen[line], true));
                next(line, lines)
            });
            assert_eq!(last, 0);
        }
    }

    #[test]
    fn a_size_that_the_chain_can_not_have_is_refused() {
        let refused = Latency.trial(&Cell::of("latency").with("kib", 3)).err().unwrap();
        assert!(refused.0.contains("power of two"), "{refused}");
    }
}
