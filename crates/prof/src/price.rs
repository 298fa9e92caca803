//! What page faults cost on this machine: the price list.
//!
//! In: the machine's facts, and about two seconds of its time. Out: [`Prices`]: nanoseconds per page for each
//! kind of fault, and for the calls that avoid or cause faults. Each has its spread, or the reason why there
//! is no figure.
//!
//! Method: every price is measured once per round, in changing order, on memory that was touched just before
//! (guest-warm). Single touches are timed with the tick counter; a round takes their median, so preemption
//! does not count. Calls are timed by the CPU time of the process. The figure is the median of the rounds.
//! Every touch price also counts its faults; if they don't match, it reports that instead of a figure. Memory that the
//! host does not back is touched before everything else (`cold`).
//!
//! It does not judge, or measure a program (`faultless stat`). Other running threads of the process
//! are charged to the calls.

mod bench;
mod cells;
pub mod cold;
pub mod work;

use faultless_os::counters;
use faultless_os::host::Host;
use faultless_trace::measurement::Summary;

use bench::Bench;

/// What one kind of page work costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// A fixed name: `first_touch`, `thp_touch`, `mthp_touch_64k`.
    pub id: String,
    /// The same for people.
    pub what: String,
    /// Bytes of one page of this kind.
    pub page_bytes: u64,
    /// The step of the clock, ns per page: the finest difference between two rounds.
    pub resolution_ns: f64,
    /// Nanoseconds per page, or why there is no figure.
    pub outcome: Outcome,
}

/// A figure or a reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nanoseconds per page of [`Price::page_bytes`].
    Measured(Summary),
    /// Why there is no figure.
    CannotSay(String),
}

/// All prices, in reading order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    /// The list.
    pub list: Vec<Price>,
    /// Base page size in bytes.
    pub page_bytes: u64,
}

/// Rounds at most. The median of these survives one loaded second.
const ROUNDS: usize = 11;
/// Rounds that are always made.
const MIN_ROUNDS: usize = 3;
/// After this time no further round begins, ns: all of `faultless doctor` must end within 15 s.
const BUDGET_NS: u64 = 5_000_000_000;

/// Measures all prices. Before each round, calls `progress` with the rounds done and the rounds in all.
pub fn measure(host: &Host, mut progress: impl FnMut(usize, usize)) -> Prices {
    progress(0, ROUNDS + 1);
    let fresh = cold::touch(host);
    let mut cells = cells::all(host);
    let mut bench = Bench::new(host);
    let begin_ns = counters::now_ns();
    for round in 0..ROUNDS {
        progress(round + 1, ROUNDS + 1);
        if round >= MIN_ROUNDS && counters::now_ns() - begin_ns > BUDGET_NS {
            break;
        }
        let first = round * cells.len() / ROUNDS;
        // A rotated start and alternating direction: no price always follows the same neighbour.
        let count = cells.len();
        for step in 0..count {
            let at = if round % 2 == 0 { first + step } else { first + count - step };
            cells[at % count].measure(&mut bench);
        }
    }
    let mut prices = Prices {
        list: cells.into_iter().map(|cell| cell.price(&bench)).collect(),
        page_bytes: faultless_os::page::size() as u64,
    };
    let cold = cold::prices(host, &fresh, &prices);
    prices.list.extend(cold);
    prices
}

impl Prices {
    /// Nanoseconds per page of its own kind.
    pub fn ns(&self, id: &str) -> Option<f64> {
        self.list.iter().find(|price| price.id == id)?.ns()
    }

    /// Nanoseconds per base page.
    pub fn ns_per_base_page(&self, id: &str) -> Option<f64> {
        let price = self.list.iter().find(|price| price.id == id)?;
        Some(price.ns()? * self.page_bytes as f64 / price.page_bytes as f64)
    }

    /// The share of a first touch that clearing the page takes: cache-hot and cache-cold.
    pub fn clearing_share(&self) -> Option<(f64, f64)> {
        let fault = self.ns("first_touch").filter(|ns| *ns > 0.0)?;
        Some((self.ns("clear_hot")? / fault, self.ns("clear_cold")? / fault))
    }

    /// How many times cheaper a first touch is per byte as THP.
    pub fn thp_gain(&self) -> Option<f64> {
        let thp = self.ns_per_base_page("thp_touch").filter(|ns| *ns > 0.0)?;
        Some(self.ns("first_touch")? / thp)
    }
}

impl Price {
    /// The median, where there is one.
    pub fn ns(&self) -> Option<f64> {
        match &self.outcome {
            Outcome::Measured(summary) => Some(summary.median),
            Outcome::CannotSay(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_base_page_divides_by_the_size() {
        let summary = Summary { median: 51_200.0, mad: 0.0, min: 1.0, n: 1 };
        let price = |id: &str, page_bytes, median| Price {
            id: id.into(),
            what: String::new(),
            page_bytes,
            resolution_ns: 0.0,
            outcome: Outcome::Measured(Summary { median, ..summary }),
        };
        let list = vec![price("first_touch", 4096, 1000.0), price("thp_touch", 2 << 20, 51_200.0)];
        let prices = Prices { list, page_bytes: 4096 };
        assert_eq!(prices.ns_per_base_page("thp_touch"), Some(100.0));
        assert_eq!(prices.thp_gain(), Some(10.0));
        assert_eq!(prices.clearing_share(), None);
    }
}
