//! The cost of a search, and a table of it for every source of memory, with one thread and with all.
//!
//! In: the report of a search, and the kernel's counts. Out: text or JSON. Each row of the table is the
//! median of several processes by wall time. Rows take turns. The matches of these processes are dropped.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use faultless_grepdb::engine::{SearchReport, threads};
use faultless_os::counters::{Who, now_ns, rusage};
use serde::{Deserialize, Serialize};

use crate::flags::Args;
use crate::flags::engine::{Form, Source};
use faultless_console::{Failure, emit};

const ROUNDS: usize = 3;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Cost {
    memory: String,
    threads: usize,
    wall_ns: u64,
    cpu_ns: u64,
    minor_faults: u64,
    peak_rss_bytes: u64,
    files: u64,
    files_with_matches: u64,
    chunks: u64,
    of_chunks: u64,
    text_bytes: u64,
}

/// Prints the cost of a search to stderr.
pub(crate) fn tell(begin_ns: u64, args: &Args, searched: &SearchReport) {
    let wall_ns = now_ns() - begin_ns;
    let usage = rusage(Who::Process).unwrap_or_default();
    let cost = Cost {
        memory: name(args.engine.memory),
        threads: threads(args.engine.threads),
        wall_ns,
        cpu_ns: usage.user_ns + usage.system_ns,
        minor_faults: usage.minor_faults,
        peak_rss_bytes: usage.peak_rss_bytes,
        files: searched.files,
        files_with_matches: searched.files_with_matches,
        chunks: searched.chunks,
        of_chunks: searched.of_chunks,
        text_bytes: searched.text_bytes,
    };
    match args.engine.stat {
        Some(Form::Json) => {
            eprintln!("{}", serde_json::to_string(&cost).unwrap_or_default());
        }
        _ => eprint!("{}", text(&cost)),
    }
}

fn name(source: Source) -> String {
    source.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

fn seconds(ns: u64) -> String {
    format!("{:.4} s", ns as f64 / 1e9)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn text(cost: &Cost) -> String {
    let rows = [
        ("wall time", seconds(cost.wall_ns)),
        ("CPU time", seconds(cost.cpu_ns)),
        ("minor faults", cost.minor_faults.to_string()),
        ("peak RSS", mebibytes(cost.peak_rss_bytes)),
        ("files searched", format!("{}, {} with matches", cost.files, cost.files_with_matches)),
        ("chunks read", format!("{} of {}", cost.chunks, cost.of_chunks)),
        ("text read", mebibytes(cost.text_bytes)),
    ];
    rows.iter().map(|(name, value)| format!("{name:<15} {value}\n")).collect()
}

/// Searches with every source of memory, and prints the table.
pub(crate) fn all(args: &Args) -> Result<u8, Failure> {
    let mut threads = vec![1, threads(args.engine.threads)];
    threads.dedup();
    let sources = Source::value_variants().iter().filter(|source| **source != Source::All);
    let cells: Vec<(String, usize)> =
        sources.flat_map(|source| threads.iter().map(|&threads| (name(*source), threads))).collect();
    let mut costs = vec![Vec::new(); cells.len()];
    for _ in 0..ROUNDS {
        for ((memory, threads), costs) in cells.iter().zip(&mut costs) {
            costs.push(once(memory, *threads)?);
        }
    }
    let medians: Vec<Cost> = costs
        .into_iter()
        .map(|mut costs: Vec<Cost>| {
            costs.sort_by_key(|cost| cost.wall_ns);
            costs.swap_remove(ROUNDS / 2)
        })
        .collect();
    let text = if args.looks.json || args.engine.stat == Some(Form::Json) {
        format!("{}\n", serde_json::to_string(&medians)?)
    } else {
        table(&medians, &threads)
    };
    emit(text.as_bytes(), 0)
}

/// Runs a search in a process of its own.
fn once(memory: &str, threads: usize) -> Result<Cost, Failure> {
    let own = std::env::current_exe()?;
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let ours = [format!("--memory={memory}"), format!("--threads={threads}"), "--stat=json".into()];
    words.splice(end..end, ours.map(OsString::from));
    let output = Command::new(own).args(words).stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let cost = said.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    cost.ok_or_else(|| Failure(said.trim_start_matches("faultless: ").trim_end().into()))
}

fn table(costs: &[Cost], threads: &[usize]) -> String {
    let mut text = format!("{:<10}", "");
    for threads in threads {
        let title = if *threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        text += &format!("{title:<46}");
    }
    text = format!("{}\n{:<10}", text.trim_end(), "memory");
    for _ in threads {
        text += &format!("{:>9} {:>9} {:>9} {:>11}     ", "wall", "CPU", "faults", "peak RSS");
    }
    text = format!("{}\n", text.trim_end());
    for row in costs.chunks(threads.len()) {
        let mut line = format!("{:<10}", row[0].memory);
        for cost in row {
            let (wall, cpu) = (seconds(cost.wall_ns), seconds(cost.cpu_ns));
            line += &format!(
                "{wall:>9} {cpu:>9} {:>9} {:>11}     ",
                cost.minor_faults,
                mebibytes(cost.peak_rss_bytes)
            );
        }
        text += &format!("{}\n", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_per_source_and_a_column_per_number_of_threads() {
        let cost = |memory: &str, threads, wall_ns| Cost {
            memory: memory.into(),
            threads,
            wall_ns,
            cpu_ns: 500_000_000,
            minor_faults: 1_810,
            peak_rss_bytes: 15 << 20,
            ..Cost::default()
        };
        let costs = [cost("pool", 1, 442_000_000), cost("pool", 2, 258_000_000)];
        let expected = "          1 thread                                      2 threads\n\
            memory         wall       CPU    faults    peak RSS          wall       CPU    faults    peak RSS\n\
            pool       0.4420 s  0.5000 s      1810    15.0 MiB      0.2580 s  0.5000 s      1810    15.0 MiB\n";
        assert_eq!(table(&costs, &[1, 2]), expected);
    }
}
