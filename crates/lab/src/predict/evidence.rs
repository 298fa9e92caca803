//! What the model says for the third document's claims, as cells of a record.
//!
//! In: the folder of a kernel lab's record. Out: its [`Results`], and beside them cells of the experiment
//! [`EXPERIMENT`]: the forecast on one node with the record's counts. One sample of the parameters is one round, so a
//! ratio of two cells is taken sample by sample.
//!
//! | phase | quantities |
//! |---|---|
//! | `without` | `per_s`, `per_cpu_s`, `clear_ns`, `fault_ns`: every fault clears its page |
//! | `stocked` | `per_s`, `per_cpu_s`: every fault finds a zeroed page |

use std::path::Path;

use super::forecast::{Question, first_two};
use super::parameters::Parameters;
use super::record::Counted;
use crate::Refusal;
use crate::record::{self, Row};
use crate::results::Results;

/// The experiment's name.
pub const EXPERIMENT: &str = "predict";
/// Threads and cache lines of each cell.
const CELLS: [(usize, u32); 10] =
    [(1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (1, 4), (1, 8), (1, 16), (1, 32), (1, 64)];
/// Processors of the node.
const PROCESSORS: usize = 16;
/// Samples of the parameters.
const SAMPLES: usize = 48;

/// The record's results and the model's.
///
/// # Errors
/// It is no record of the kernel lab, or a run fails.
pub fn read(folder: &Path, seed: u64) -> Result<Results, Refusal> {
    let parameters = Counted::read(folder)?.parameters(Parameters::defaults()?)?;
    let mut rows = record::read_rows(folder)?;
    for (threads, lines) in CELLS {
        let question = Question {
            threads: vec![threads],
            nodes: vec![1],
            processors: PROCESSORS,
            lines,
            shares_vma: true,
            samples: SAMPLES,
            seed,
        };
        for (round, sample) in (1..).zip(first_two(&question, &parameters)?) {
            let mut add = |phase: &str, quantity: &str, value: f64| {
                rows.push(Row {
                    experiment: EXPERIMENT.into(),
                    cell: format!("threads={threads} lines={lines}"),
                    round,
                    phase: phase.into(),
                    quantity: quantity.into(),
                    value,
                });
            };
            for (phase, outcome) in [("without", &sample.without), ("stocked", &sample.stocked)] {
                add(phase, "per_s", outcome.faults_per_busy_s() * threads as f64);
                add(phase, "per_cpu_s", outcome.faults_per_busy_s());
            }
            add("without", "clear_ns", sample.clear_ns);
            add("without", "fault_ns", 1e9 / sample.without.faults_per_busy_s());
        }
    }
    Results::of(rows)
}
