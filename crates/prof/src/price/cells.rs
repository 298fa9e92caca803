//! The single measurements. Each takes a round on memory that the same kind of touch has just used and given back.

use faultless_os::counters;
use faultless_os::host::Host;
use faultless_os::page;
use faultless_os::touch::{Advice, HeldCopy, Region, time_read};
use faultless_trace::measurement::{Bytes, summary};

use super::bench::{
    Bench, THPS, advise, expect_faults, expect_no_faults, faults, fell_back, fresh, fresh_aligned,
    fully_resident, huge, huge_untouched, resident, timed_call, timed_writes,
};
use super::{Outcome, Price};

/// Base pages in one round of a price: 4 MiB of 4 KiB pages, some milliseconds.
const PAGES: usize = 1024;
/// Blocks of one mTHP size in one round, and their bytes in all at most.
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
    /// The CPU time of many pages: its steps of 1 ns vanish among them.
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

    /// The result. A failure in any round counts more than the figures of the others.
    pub(super) fn price(self, bench: &Bench) -> Price {
        let outcome = match (self.failure, summary(&self.rounds)) {
            (None, Some(summary)) => Outcome::Measured(summary),
            (failure, _) => Outcome::CannotSay(failure.unwrap_or_else(|| "not measured".into())),
        };
        let resolution_ns = if self.clock == Clock::Ticks { bench.step_ns } else { 0.0 };
        Price { id: self.id, what: self.what, page_bytes: self.page_bytes as u64, resolution_ns, outcome }
    }
}

/// The list for this machine.
pub(super) fn all(host: &Host) -> Vec<Cell> {
    let base = page::size();
    let mut cells = vec![
        Cell::new("first_touch", "first touch (write) of a base page", base, Clock::Ticks, |bench| {
            drop(resident(PAGES * page::size())?);
            timed_writes(bench, &mut fresh(PAGES * page::size())?, page::size(), PAGES)
        }),
        Cell::new(
            "zero_page_read",
            "first read of a base page (maps the zero page)",
            base,
            Clock::Ticks,
            zero_page_read,
        ),
        Cell::new(
            "write_after_read",
            "write after that read (CoW of the zero page)",
            base,
            Clock::Ticks,
            |bench| {
                drop(resident(PAGES * page::size())?);
                let mut region = fresh(PAGES * page::size())?;
                std::hint::black_box(region.touch_read(page::size()));
                timed_writes(bench, &mut region, page::size(), PAGES)
            },
        ),
        Cell::new("populate_write", "MADV_POPULATE_WRITE, per base page", base, Clock::Cpu, |_| {
            drop(resident(PAGES * page::size())?);
            let mut region = fresh(PAGES * page::size())?;
            timed_call(PAGES, || advise(&mut region, Advice::PopulateWrite))
        }),
        Cell::new("cow_after_fork", "write after fork (CoW), base page", base, Clock::Ticks, |bench| {
            let mut region = resident(PAGES * page::size())?;
            let _copy = HeldCopy::new().map_err(|error| error.to_string())?;
            timed_writes(bench, &mut region, page::size(), PAGES)
        }),
    ];
    cells.extend(thp_cells(host));
    cells.extend(mthp_cells(host));
    cells.extend(hugetlb_cells(host));
    cells.extend(clear_cells());
    cells.extend(release_cells(host));
    cells
}

fn zero_page_read(bench: &mut Bench) -> Result<f64, String> {
    let region = fresh(PAGES * page::size())?;
    let mut ticks = Vec::with_capacity(PAGES);
    let before = faults();
    ticks.extend(region.bytes().iter().step_by(page::size()).map(|slot| time_read(slot) as f64));
    expect_faults(before, PAGES)?;
    Ok(bench.p50_ns(&ticks))
}

fn thp_cells(host: &Host) -> Option<Cell> {
    let thp = host.thp.as_ref()?;
    let len = thp.pmd_bytes?;
    let (available, word) = (thp.available(), thp.word().unwrap_or_default().to_owned());
    Some(Cell::new(
        "thp_touch",
        format!("first touch of a THP of {}", Bytes(len as u64)),
        len,
        Clock::Ticks,
        move |bench| {
            if !available {
                return Err(format!("THP is off (transparent_hugepage is {word})"));
            }
            drop(huge(len)?);
            let mut region = huge_untouched(len)?;
            let ns = timed_writes(bench, &mut region, len, THPS)?;
            fully_resident(&mut region)?;
            Ok(ns)
        },
    ))
}

fn mthp_cells(host: &Host) -> Vec<Cell> {
    let sizes: Vec<usize> = host
        .thp
        .iter()
        .flat_map(|thp| thp.mthp_enabled().map(|size| size.len_bytes).collect::<Vec<_>>())
        .collect();
    sizes.into_iter().map(mthp_cell).collect()
}

fn mthp_cell(len: usize) -> Cell {
    let what = format!("first touch of an mTHP of {}", Bytes(len as u64));
    Cell::new(format!("mthp_touch_{}k", len >> 10), what, len, Clock::Ticks, move |bench| {
        let blocks = (MTHP_BYTES / len).clamp(4, MTHP_BLOCKS);
        let mut region = Region::mthp(blocks, len).map_err(|error| error.to_string())?;
        let ns = timed_writes(bench, &mut region, 2 * len, blocks)?;
        let before = faults();
        region.bytes_mut().chunks_mut(2 * len).for_each(|block| block[..len].fill(1));
        fell_back(before, blocks)?;
        Ok(ns)
    })
}

fn hugetlb_cells(host: &Host) -> Vec<Cell> {
    let usable =
        |pool: &&faultless_os::host::HugetlbPool| pool.free > pool.reserved && pool.page_bytes <= HUGETLB_MAX;
    let cell = |pool: &faultless_os::host::HugetlbPool| {
        let (len, pages) = (pool.page_bytes, (pool.free - pool.reserved).min(THPS as u64) as usize);
        let what = format!("first touch of a hugetlb page of {}", Bytes(len as u64));
        Cell::new(format!("hugetlb_touch_{}k", len >> 10), what, len, Clock::Ticks, move |bench| {
            let pool = || Region::hugetlb(pages * len, len).map_err(|error| error.to_string());
            // A refused charge is an error here, and would be SIGBUS at a touch.
            advise(&mut pool()?, Advice::PopulateWrite)?;
            timed_writes(bench, &mut pool()?, len, pages)
        })
    };
    host.hugetlb.iter().filter(usable).map(cell).collect()
}

fn clear_cells() -> [Cell; 2] {
    [
        Cell::new("clear_hot", "clearing a resident base page, cache-hot", page::size(), Clock::Cpu, |_| {
            let mut region = resident(page::size())?;
            let before = faults();
            // As a batch: some tick counters step in units of 10 ns, not far below one clear.
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
    let base = page::size();
    let mut cells = vec![
        Cell::new("munmap", "munmap, per base page", base, Clock::Cpu, |_| {
            let region = resident(PAGES * page::size())?;
            timed_call(PAGES, || {
                drop(region);
                Ok(())
            })
        }),
        Cell::new("dontneed", "MADV_DONTNEED, per base page", base, Clock::Cpu, |_| {
            let mut region = resident(PAGES * page::size())?;
            timed_call(PAGES, || advise(&mut region, Advice::DontNeed))
        }),
        Cell::new("free", "MADV_FREE, per base page", base, Clock::Cpu, |_| {
            let mut region = resident(PAGES * page::size())?;
            timed_call(PAGES, || advise(&mut region, Advice::Free))
        }),
        Cell::new(
            "retouch_after_free",
            "write after MADV_FREE, pages not yet taken",
            base,
            Clock::Cpu,
            |_| {
                let mut region = resident(PAGES * page::size())?;
                advise(&mut region, Advice::Free)?;
                timed_call(PAGES, || {
                    region.touch_write(page::size());
                    Ok(())
                })
            },
        ),
    ];
    let Some(len) = host.thp.as_ref().filter(|thp| thp.available()).and_then(|thp| thp.pmd_bytes) else {
        return cells;
    };
    cells.push(Cell::new("munmap_thp", "munmap, per THP", len, Clock::Cpu, move |_| {
        let region = huge(len)?;
        timed_call(THPS, || {
            drop(region);
            Ok(())
        })
    }));
    cells.push(Cell::new(
        "mremap_move",
        "mremap to a PMD-aligned place, per base page",
        base,
        Clock::Cpu,
        |bench| {
            let len = THPS * bench.thp_bytes;
            let mut region = fresh_aligned(len, bench.thp_bytes)?;
            region.touch_write(page::size());
            let target = fresh_aligned(len, bench.thp_bytes)?;
            timed_call(len / page::size(), || region.relocate(target).map_err(|error| error.to_string()))
        },
    ));
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
        let mut cell = mthp_cell(LEN);
        let mut bench = Bench::new(&host);
        cell.measure(&mut bench);
        match cell.price(&bench).outcome {
            Outcome::Measured(found) => assert!(on && found.median > 0.0, "{found:?}"),
            // On, but memory too fragmented for it, is also a fallback.
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
