//! The single measurements of the price list.
//!
//! In: the machine's facts. Out: cells, one per price, each measured once per round on memory that the same
//! kind of touch has just used and given back.
//!
//! It does not choose the rounds or their order (`price`).

use faultless_os::counters;
use faultless_os::host::Host;
use faultless_os::page;
use faultless_os::touch::{Advice, Region, time_read};
use faultless_trace::measurement::{Bytes, summary};

use super::bench::{
    Bench, advise, expect_faults, expect_no_faults, faults, fresh, resident, timed_call, timed_writes,
};
use super::work::{Kind, Pages, Work};
use super::{Outcome, Price};

/// Base pages in one round of a price: 4 MiB of 4 KiB pages, some milliseconds.
const PAGES: usize = 1024;
/// THPs in one round.
const THPS: usize = 8;
/// Blocks of one mTHP size in one round, and their total bytes at most.
const MTHP_BLOCKS: usize = 256;
const MTHP_BYTES: usize = 16 << 20;
/// hugetlb pages beyond this size are not measured: clearing 1 GiB takes 100 to 250 ms.
const HUGETLB_MAX: usize = 64 << 20;

type Run = Box<dyn Fn(&mut Bench) -> Result<f64, String>>;

/// What a price is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// The tick counter around single touches.
    Ticks,
    /// The CPU time of many pages, among which the clock's step of 1 ns vanishes.
    Cpu,
}

/// One price while it is being measured.
pub(super) struct Cell {
    id: String,
    what: String,
    page_bytes: usize,
    clock: Clock,
    run: Run,
    rounds: Vec<f64>,
    failure: Option<String>,
}

impl Cell {
    fn new(
        id: impl Into<String>,
        what: impl Into<String>,
        page_bytes: usize,
        clock: Clock,
        run: impl Fn(&mut Bench) -> Result<f64, String> + 'static,
    ) -> Self {
        let (id, what) = (id.into(), what.into());
        Self { id, what, page_bytes, clock, run: Box::new(run), rounds: Vec::new(), failure: None }
    }

    /// One round. After a failure it is not tried again.
    pub(super) fn measure(&mut self, bench: &mut Bench) {
        if self.failure.is_none() {
            match (self.run)(bench) {
                Ok(ns) => self.rounds.push(ns),
                Err(reason) => self.failure = Some(reason),
            }
        }
    }

    /// The result. One failed round outweighs the figures of the others.
    pub(super) fn price(self, bench: &Bench) -> Price {
        let outcome = match (self.failure, summary(&self.rounds)) {
            (None, Some(summary)) => Outcome::Measured(summary),
            (failure, _) => Outcome::CannotSay(failure.unwrap_or_else(|| "not measured".into())),
        };
        let resolution_ns = if self.clock == Clock::Ticks { bench.step_ns } else { 0.0 };
        Price { id: self.id, what: self.what, page_bytes: self.page_bytes as u64, resolution_ns, outcome }
    }
}

/// Which step of the work is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The call, by its CPU time.
    Call,
    /// Each first read.
    Reads,
    /// Each write after the work.
    Writes,
    /// All writes after the work together, by their CPU time: a single one is too short for the tick counter.
    AllWrites,
}

/// The price of one step of some work on this many pages.
fn priced(id: &str, what: &str, kind: Kind, (pages, units): (Pages, usize), step: Step) -> Cell {
    let clock = if matches!(step, Step::Call | Step::AllWrites) { Clock::Cpu } else { Clock::Ticks };
    Cell::new(id, what, pages.unit_bytes(), clock, move |bench| {
        let stride = pages.stride_bytes();
        if kind.is_first_touch() && !pages.is_hugetlb() {
            Work::new(Kind::Touch, pages, units)?.region()?.touch_write(stride);
        }
        let mut work = Work::new(kind, pages, units)?;
        work.prepare(|region| {
            region.touch_write(stride);
            0
        })?;
        match step {
            Step::Call => timed_call(units, || work.run().map(|_| ())),
            Step::Reads => timed_reads(bench, work.region()?, units),
            Step::Writes => {
                work.run()?;
                let ns = timed_writes(bench, work.region()?, stride, units)?;
                work.check_whole().map(|()| ns)
            }
            Step::AllWrites => {
                work.run()?;
                timed_call(units, || work.region().map(|region| region.touch_write(stride)))
            }
        }
    })
}

/// The list for this machine.
pub(super) fn all(host: &Host) -> Vec<Cell> {
    let base = (Pages::base(), PAGES);
    let mut cells = vec![
        priced("first_touch", "first touch (write) of a base page", Kind::Touch, base, Step::Writes),
        priced(
            "zero_page_read",
            "zero-page read (first read) of a base page",
            Kind::ZeroPage,
            base,
            Step::Reads,
        ),
        priced(
            "write_after_read",
            "write after zero-page read, base page",
            Kind::ZeroPage,
            base,
            Step::Writes,
        ),
        Cell::new("populate_write", "MADV_POPULATE_WRITE, per base page", page::size(), Clock::Cpu, |_| {
            drop(resident(PAGES * page::size())?);
            let mut region = fresh(PAGES * page::size())?;
            timed_call(PAGES, || advise(&mut region, Advice::PopulateWrite))
        }),
        priced("cow_after_fork", "copy on write after fork, base page", Kind::Fork, base, Step::Writes),
    ];
    cells.extend(thp_cell(host));
    cells.extend(mthp_cells(host));
    cells.extend(hugetlb_cells(host));
    cells.extend(clear_cells());
    cells.extend(release_cells(host));
    cells
}

fn thp_cell(host: &Host) -> Option<Cell> {
    let thp = host.thp.as_ref()?;
    let len = thp.pmd_bytes?;
    let what = format!("first touch of a THP of {}", Bytes(len as u64));
    if thp.available() {
        return Some(priced("thp_touch", &what, Kind::Touch, (Pages::thp(), THPS), Step::Writes));
    }
    let reason = format!("THP is off (transparent_hugepage is {})", thp.word().unwrap_or_default());
    Some(Cell::new("thp_touch", what, len, Clock::Ticks, move |_| Err(reason.clone())))
}

fn mthp_cells(host: &Host) -> Vec<Cell> {
    let sizes = host.thp.iter().flat_map(|thp| thp.mthp_enabled());
    sizes.filter_map(|size| mthp_cell(size.len_bytes)).collect()
}

fn mthp_cell(len: usize) -> Option<Cell> {
    let what = format!("first touch of an mTHP of {}", Bytes(len as u64));
    let blocks = (MTHP_BYTES / len).clamp(4, MTHP_BLOCKS);
    let id = format!("mthp_touch_{}k", len >> 10);
    Some(priced(&id, &what, Kind::Touch, (Pages::mthp(len)?, blocks), Step::Writes))
}

fn hugetlb_cells(host: &Host) -> Vec<Cell> {
    let usable =
        |pool: &&faultless_os::host::HugetlbPool| pool.free > pool.reserved && pool.page_bytes <= HUGETLB_MAX;
    let cell = |pool: &faultless_os::host::HugetlbPool| {
        let (len, pages) = (pool.page_bytes, (pool.free - pool.reserved).min(THPS as u64) as usize);
        let what = format!("first touch of a hugetlb page of {}", Bytes(len as u64));
        let id = format!("hugetlb_touch_{}k", len >> 10);
        priced(&id, &what, Kind::Touch, (Pages::hugetlb(len), pages), Step::Writes)
    };
    host.hugetlb.iter().filter(usable).map(cell).collect()
}

fn timed_reads(bench: &Bench, region: &mut Region, count: usize) -> Result<f64, String> {
    let mut ticks = Vec::with_capacity(count);
    let before = faults();
    ticks.extend(region.bytes().iter().step_by(page::size()).map(|slot| time_read(slot) as f64));
    expect_faults(before, count)?;
    Ok(bench.p50_ns(&ticks))
}

fn clear_cells() -> [Cell; 2] {
    [
        Cell::new("clear_hot", "clearing a resident base page, cache-hot", page::size(), Clock::Cpu, |_| {
            let mut region = resident(page::size())?;
            let before = faults();
            // In a batch, because some tick counters step by 10 ns, not far below one clear.
            let ns = timed_call(PAGES, || {
                (0..PAGES).for_each(|_| std::hint::black_box(region.bytes_mut()).fill(0));
                Ok(())
            })?;
            expect_no_faults(before)?;
            Ok(ns)
        }),
        Cell::new(
            "clear_cold",
            "clearing a resident base page, cache-cold",
            page::size(),
            Clock::Ticks,
            clear_cold,
        ),
    ]
}

/// Clears a quarter of the cold region, the next one each time.
fn clear_cold(bench: &mut Bench) -> Result<f64, String> {
    let Some(mut region) = bench.cold.take() else { return Err("too little free memory".into()) };
    let pages = region.len_bytes() / page::size();
    let from = bench.cold_at % pages;
    let mut ticks = Vec::with_capacity(pages / 4);
    let before = faults();
    ticks.extend(region.bytes_mut().chunks_mut(page::size()).skip(from).take(pages / 4).map(clear));
    // The list of times is new memory too.
    let checked = expect_no_faults(before + (size_of_val(&ticks[..]) / page::size()) as u64);
    bench.cold_at = (from + pages / 4) % pages;
    bench.cold = Some(region);
    checked?;
    Ok(bench.p50_ns(&ticks))
}

fn clear(page: &mut [u8]) -> f64 {
    let begin = counters::tick();
    page.fill(0);
    std::hint::black_box(page);
    counters::tick().wrapping_sub(begin) as f64
}

fn release_cells(host: &Host) -> Vec<Cell> {
    let base = (Pages::base(), PAGES);
    let mut cells = vec![
        priced("munmap", "munmap, per base page", Kind::Munmap, base, Step::Call),
        priced("dontneed", "MADV_DONTNEED, per base page", Kind::DontNeed, base, Step::Call),
        priced("free", "MADV_FREE, per base page", Kind::Free, base, Step::Call),
        priced(
            "retouch_after_free",
            "write after MADV_FREE, pages not yet taken",
            Kind::Free,
            base,
            Step::AllWrites,
        ),
    ];
    if let Some(len) = host.thp.as_ref().filter(|thp| thp.available()).and_then(|thp| thp.pmd_bytes) {
        let moved = (Pages::base(), THPS * len / page::size());
        cells.push(priced("munmap_thp", "munmap, per THP", Kind::Munmap, (Pages::thp(), THPS), Step::Call));
        cells.push(priced(
            "mremap_move",
            "mremap to a PMD-aligned place, per base page",
            Kind::MoveAligned,
            moved,
            Step::Call,
        ));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mthp_size_that_is_off_gets_no_price() {
        const LEN: usize = 64 << 10;
        let host = Host::read();
        let on = host.thp.as_ref().is_some_and(|thp| thp.mthp_enabled().any(|size| size.len_bytes == LEN));
        let mut cell = mthp_cell(LEN).unwrap();
        let mut bench = Bench::new(&host);
        cell.measure(&mut bench);
        match cell.price(&bench).outcome {
            Outcome::Measured(found) => assert!(on && found.median > 0.0, "{found:?}"),
            // THP is on, but fragmented memory also causes a fallback.
            Outcome::CannotSay(reason) => assert!(!reason.is_empty(), "{reason}"),
        }
    }

    #[test]
    fn a_failure_in_one_round_withdraws_the_figure() {
        let mut bench = Bench::new(&Host::default());
        let calls = std::cell::Cell::new(0);
        let mut cell = Cell::new("x", "x", 1, Clock::Cpu, move |_| {
            calls.set(calls.get() + 1);
            if calls.get() == 2 { Err("fell back".into()) } else { Ok(1.0) }
        });
        (0..3).for_each(|_| cell.measure(&mut bench));
        assert_eq!(cell.price(&bench).outcome, Outcome::CannotSay("fell back".into()));
    }
}
