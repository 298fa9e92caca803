//! The tables of the third document (*Prezeroing V2*, Christoph Lameter, 2004), as printed.
//!
//! The Wall column is not here: it is misprinted. It has two digits after the dot and a zero between, so
//! "11.030s" is 11.30 s. The wall time follows from the rate: faults / (fault/wsec).

use std::cell::RefCell;
use std::collections::BTreeSet;

/// Base pages of ia64 in one GB.
const PAGES_OF_GB: f64 = 65_536.0;

/// A row of the document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// A fixed name.
    pub name: &'static str,
    /// Whether the kernel has the patch.
    pub is_patched: bool,
    /// GB that are faulted, by all threads together.
    pub gb: u32,
    /// Repetitions.
    pub reps: u32,
    /// Threads.
    pub threads: u32,
    /// Cache lines of each page that the program touches.
    pub lines: u32,
    /// Faults per second of CPU time.
    pub per_cpu_s: f64,
    /// Faults per second of wall time.
    pub per_wall_s: f64,
}

const fn of_threads(name: &'static str, is_patched: bool, threads: u32, rates: (f64, f64)) -> Row {
    Row { name, is_patched, gb: 4, reps: 3, threads, lines: 1, per_cpu_s: rates.0, per_wall_s: rates.1 }
}

const fn of_lines(name: &'static str, lines: u32, rates: (f64, f64)) -> Row {
    Row { name, is_patched: true, gb: 1, reps: 1, threads: 1, lines, per_cpu_s: rates.0, per_wall_s: rates.1 }
}

/// Both tables: by threads without and with the patch, and by cache lines with it.
pub const ROWS: [Row; 16] = [
    of_threads("without, 1 thread", false, 1, (69_584.896, 69_566.852)),
    of_threads("without, 2 threads", false, 2, (52_150.369, 98_643.687)),
    of_threads("without, 4 threads", false, 4, (46_869.167, 135_642.420)),
    of_threads("without, 8 threads", false, 8, (33_599.215, 179_791.120)),
    of_threads("with, 1 thread", true, 1, (268_077.996, 267_952.890)),
    of_threads("with, 2 threads", true, 2, (155_344.562, 263_967.292)),
    of_threads("with, 4 threads", true, 4, (116_205.793, 264_774.080)),
    of_threads("with, 8 threads", true, 8, (56_659.819, 221_701.073)),
    of_lines("with, 1 line", 1, (500_813.853, 497_925.891)),
    of_lines("with, 2 lines", 2, (493_453.103, 472_877.725)),
    of_lines("with, 4 lines", 4, (479_351.658, 471_507.415)),
    of_lines("with, 8 lines", 8, (424_742.054, 416_725.013)),
    of_lines("with, 16 lines", 16, (347_715.359, 336_983.834)),
    of_lines("with, 32 lines", 32, (258_112.286, 256_246.731)),
    of_lines("with, 64 lines", 64, (169_896.381, 168_189.283)),
    of_lines("with, 128 lines", 128, (102_300.257, 101_674.435)),
];

/// The rows that the fit may read.
pub(crate) const FITTED: [&str; 7] = [
    "without, 1 thread",
    "without, 2 threads",
    "without, 4 threads",
    "without, 8 threads",
    "with, 1 thread",
    "with, 1 line",
    "with, 128 lines",
];

impl Row {
    /// Whether the fit may read it.
    pub fn is_fitted(&self) -> bool {
        FITTED.contains(&self.name)
    }

    /// Pages of one repetition, of all threads.
    pub fn pages(&self) -> f64 {
        f64::from(self.gb) * PAGES_OF_GB
    }
}

/// The document's figures, and who reads them: the fit gets them from here only.
#[derive(Debug, Default)]
pub struct Source {
    read: RefCell<BTreeSet<&'static str>>,
}

impl Source {
    /// A row by its name; `None` if there is none.
    pub fn row(&self, name: &str) -> Option<Row> {
        let row = ROWS.iter().find(|row| row.name == name).copied()?;
        self.read.borrow_mut().insert(row.name);
        Some(row)
    }

    /// The rows that were read.
    pub fn read(&self) -> BTreeSet<&'static str> {
        self.read.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_rows_are_fitted_and_nine_held_out() {
        let fitted: Vec<_> = ROWS.iter().filter(|row| row.is_fitted()).map(|row| row.name).collect();
        assert_eq!(fitted, FITTED);
        assert_eq!(ROWS.len() - fitted.len(), 9);
    }

    #[test]
    fn the_printed_wall_times_are_the_rates_with_a_zero_between() {
        let walls = [11.30, 7.97, 5.79, 4.37, 2.93, 2.97, 2.97, 3.54];
        for (row, wall) in ROWS.iter().zip(walls) {
            let seconds = row.pages() * f64::from(row.reps) / row.per_wall_s;
            assert!((seconds - wall).abs() < 0.011, "{}: {seconds} and {wall}", row.name);
        }
    }
}
