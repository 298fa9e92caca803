//! Where zeroing ahead of need pays, and where it does not: the page-fault test of the pre-zeroing patch (Lameter, 2004), three
//! arms and three more, by cache lines touched, threads, and pauses between requests.
//!
//! ```text
//! cargo bench -p faultless-pool --bench prezero -- --rounds 5 >prezero.csv
//! cargo bench -p faultless-pool --bench prezero -- --summary prezero.csv
//! ```
//! Every cell is a process of its own; all cells of a round in shuffled order, one line of raw figures each on standard output.
//! A cell states how many faults its blocks must take (kernel: one per page; pools: none) and says so when it counted others.
//!
//! A 4 KiB page has 64 cache lines of 64 bytes; the 128 of the old tables are lines of 128 bytes in a page of 16 KiB.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

mod cell;
mod measure;
mod summary;
mod supply;

use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::time::Duration;

use faultless_os::page;
use faultless_os::pressure::{self, Waiting};
use faultless_pool::tuning;

use crate::cell::{ARMS, Arm, CELL, Cell, Pause, SAMPLE, Sample, Setting};
use crate::measure::LINE_BYTES;

const USAGE: &str = "--rounds N  --ms N  --arms kernel,thp,on-get,ahead,thread,stock  --block KIB,..  --alive N,..  \
                     --pause US,waitUS,..  --threads N,..  --lines N,..  |  --summary FILE";

/// Looks at whether somebody waits for a processor, before a cell that needs an idle one.
const REST_LOOKS: u32 = 20;
/// The time between them.
const REST_LOOK: Duration = Duration::from_secs(1);

/// What to measure.
struct Plan {
    rounds: usize,
    ms: u64,
    arms: Vec<Arm>,
    blocks_kib: Vec<usize>,
    alive: Vec<usize>,
    pauses: Vec<Pause>,
    threads: Vec<usize>,
    lines: Vec<usize>,
}

impl Default for Plan {
    fn default() -> Self {
        let doubled = |most: usize| {
            std::iter::successors(Some(1), |&at| Some(at * 2)).take_while(move |&at| at <= most)
        };
        let processors = processors();
        let mut threads: Vec<usize> = doubled(processors).chain([processors, 2 * processors]).collect();
        threads.dedup();
        Self {
            rounds: 5,
            ms: 150,
            arms: ARMS.to_vec(),
            blocks_kib: vec![640],
            // Twice what the caches hold; and one block, which stays in the cache.
            alive: vec![128, 1],
            pauses: vec![Pause::NONE, Pause::Compute(50), Pause::Compute(500), Pause::Wait(50)],
            threads,
            lines: doubled(page::size() / LINE_BYTES).collect(),
        }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn list<T: FromStr<Err: ToString>>(text: &str) -> Result<Vec<T>, String> {
    text.split(',')
        .map(|word| word.parse::<T>().map_err(|error| format!("{word}: {}", error.to_string())))
        .collect()
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text}: not a number"))
}

impl Plan {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut plan = Self::default();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("{}: a value is missing. {USAGE}", pair[0])) };
            match name.as_str() {
                "--rounds" => plan.rounds = number(value)?,
                "--ms" => plan.ms = number(value)? as u64,
                "--arms" => plan.arms = list(value)?,
                "--block" => plan.blocks_kib = list(value)?,
                "--alive" => plan.alive = list(value)?,
                "--pause" => plan.pauses = list(value)?,
                "--threads" => plan.threads = list(value)?,
                "--lines" => plan.lines = list(value)?,
                _ => return Err(format!("{name}: no such option. {USAGE}")),
            }
        }
        Ok(plan)
    }

    /// All cells. Left out: computing pauses with more threads than processors, where nobody can say who computed and who
    /// waited for a processor; and pauses of the arm that has no need of time.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &block_kib in &self.blocks_kib {
            for &alive in &self.alive {
                for &pause in &self.pauses {
                    for &threads in &self.threads {
                        for &lines in &self.lines {
                            let setting = Setting { block_kib, alive, pause, threads, lines };
                            let arms = self.arms.iter().filter(|&&arm| makes_sense(arm, setting));
                            cells.extend(arms.map(|&arm| Cell { arm, setting, ms: self.ms }));
                        }
                    }
                }
            }
        }
        cells
    }
}

fn makes_sense(arm: Arm, setting: Setting) -> bool {
    let is_told_apart = setting.threads <= processors() || !matches!(setting.pause, Pause::Compute(1..));
    is_told_apart && (arm != Arm::Stock || setting.pause == Pause::NONE)
}

/// Waits until nobody has waited for a processor lately, so that no cell pays for the one before it; false if that does not
/// come about. The sample says how it was.
fn rest() -> bool {
    (0..REST_LOOKS).any(|look| {
        if look > 0 {
            std::thread::sleep(REST_LOOK);
        }
        pressure::cpu().is_none_or(|waiting| waiting < Waiting(tuning::CPU_WAITING / 2))
    })
}

/// Runs the cells, each in a process of its own.
fn drive(plan: &Plan) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    println!("round,order,{CELL},{}", SAMPLE.join(","));
    let mut cells = plan.cells();
    for round in 0..plan.rounds {
        fastrand::shuffle(&mut cells);
        // More threads than processors come last: after them the keeper sees for 10 s that somebody waits for a processor.
        cells.sort_by_key(|cell| cell.setting.threads > processors());
        let mut quiet = true;
        for (order, cell) in cells.iter().enumerate() {
            eprint!("\rround {} of {}, cell {} of {} ", round + 1, plan.rounds, order + 1, cells.len());
            // On a machine that is never idle one wait per round is enough to know.
            if quiet && cell.arm == Arm::Ahead && cell.setting.threads <= processors() {
                quiet = rest();
            }
            let output = Command::new(&own).args(["--cell", &cell.to_string()]).output();
            let output = output.map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&output.stdout);
            if !output.status.success() {
                return Err(format!(
                    "{cell}: {}\n{}",
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                ));
            }
            println!("{round},{order},{cell},{}", text.trim());
            let sample = Sample::parse(&SAMPLE, &text.trim().split(',').collect::<Vec<_>>())?;
            if let Some(more) = sample.surprise(cell.setting.threads) {
                eprintln!(
                    "\n{cell}: {more:+.0} faults beside the {:.0} expected",
                    sample.get("expected_faults")
                );
            }
        }
    }
    eprintln!();
    Ok(())
}

fn begin() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--cell", cell] => println!("{}", measure::measure(cell.parse()?)),
        ["--summary", file] => {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            print!("{}", summary::summary(&text)?);
        }
        ["--help"] => println!("{USAGE}"),
        _ => drive(&Plan::parse(&words)?)?,
    }
    Ok(())
}

fn main() -> ExitCode {
    match begin() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("prezero: {message}");
            ExitCode::from(2)
        }
    }
}
