//! `array=chain`: how long a load takes that waits for the one before, by how much memory the loads are spread over.
//!
//! "A queue of page faults" opens with a miss in the last cache that costs 100 times a hit in the first. Each line
//! names the next, in an order that no prefetcher guesses, and all lines are visited before one comes again. The memory
//! has huge pages, so that a miss in the TLB is rare beside one in a cache. No phase but the set-up faults.

use std::hint::black_box;

use faultless_os::touch::Region;
use faultless_os::{advise, page};

use super::super::memory::{self, LINE_BYTES};
use crate::cell::{Cell, Refusal};
use crate::experiment::{Chart, Notes, Phase, Scope, Step, Steps, Trial};
use crate::results::{Quantities, cpu_ns, values};

const WORD_BYTES: usize = size_of::<usize>();
/// The first-level cache of every processor of today holds as much.
const FIRST_KIB: usize = 16;
/// Loads of a sample.
const LOADS: usize = 1 << 22;

/// The sizes, in KiB.
pub(super) fn sizes(scope: &Scope) -> Vec<usize> {
    let most: usize = scope.pick([1 << 12, 64 << 10, 512 << 10, 1 << 20]);
    let between: &[usize] = scope.pick([&[], &[], &[256, 4 << 10], &[256, 4 << 10, 64 << 10]]);
    std::iter::once(FIRST_KIB).chain(between.iter().copied()).chain([most]).collect()
}

pub(super) fn memory_bytes(cell: &Cell) -> Result<u64, Refusal> {
    Ok(mapped_bytes(asked_bytes(cell)?) as u64)
}

pub(super) fn trial(cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
    let bytes = asked_bytes(cell)?;
    memory::check_thp(cell, advise::pmd_bytes())?;
    Ok(Steps::of(Chase { lines: bytes / LINE_BYTES, region: None }, Chase::steps))
}

fn asked_bytes(cell: &Cell) -> Result<usize, Refusal> {
    let bytes = cell.kib("kib")?;
    if !bytes.is_power_of_two() {
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

impl Chase {
    fn steps(&self) -> Vec<Step<Self>> {
        let bytes = mapped_bytes(self.lines * LINE_BYTES);
        let huge = advise::pmd_bytes().max(page::size());
        let setup = memory::mostly_huge(Phase::new("setup", bytes / huge, 0), bytes / page::size());
        let last = (0..LOADS).fold(0, |line, _| next(line, self.lines));
        let timed = Phase::new("timed", 0, 0).work(LOADS).sum((last * LINE_BYTES) as u64);
        vec![
            (setup.work(self.lines), |this, _| this.set_up()),
            // All lines once: the chain ends where it began.
            (Phase::new("warm", 0, 0).work(self.lines).sum(0), |this, notes| this.chase(this.lines, notes)),
            (timed, |this, notes| this.chase(LOADS, notes)),
        ]
    }

    fn set_up(&mut self) -> Result<u64, Refusal> {
        let mut region = Region::thp(mapped_bytes(self.lines * LINE_BYTES), advise::pmd_bytes())?;
        let lines = region.bytes_mut().chunks_exact_mut(LINE_BYTES).take(self.lines);
        for (line, slot) in lines.enumerate() {
            let to = next(line, self.lines) * LINE_BYTES;
            slot[..WORD_BYTES].copy_from_slice(&to.to_ne_bytes());
        }
        self.region = Some(region);
        Ok(0)
    }

    fn chase(&mut self, loads: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        let region = self.region.as_ref().ok_or_else(|| Refusal("stride: nothing was mapped".into()))?;
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

/// Time of a load, ns.
pub(super) fn load_ns(_: &Cell, found: &Quantities) -> Vec<f64> {
    let loads = values(found, "timed", "loads").unwrap_or_default();
    cpu_ns(found, "timed").iter().zip(loads).map(|(ns, loads)| ns / loads).collect()
}

pub(super) const CHART: Chart = Chart {
    id: "latency",
    title: "A load that waits for the one before",
    x: "kib",
    x_label: "KiB of memory",
    y_label: "ns per load",
    values: load_ns,
    ..Chart::BLANK
};

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
}
