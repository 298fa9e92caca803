//! `faultless workload`: the standing workloads.
//!
//! In: a name and sizes. Out: one line `NAME checksum HEX` on stdout, independent of the allocator and its
//! settings. On stderr: the time of the body, and the price of a first touch inside this process by the tick
//! counter.
//!
//! All memory comes from the process's own malloc, calloc, realloc and free, which Rust's system allocator
//! calls. An interposer or GLIBC_TUNABLES therefore acts on it.
//!
//! It does not count faults (`faultless stat`), or repeat and compare (`faultless advise`).

mod body;
mod bursts;
mod calloc;
mod churn;
mod growth;
mod mixed;
mod pipeline;
mod temporaries;
pub(super) mod timed;
mod touch_once;
mod truth;

use std::process::ExitCode;

use clap::Subcommand;
use faultless_console::{Failure, Outcome, emit};
use faultless_os::counters::{self, Who};
use faultless_trace::measurement::Count;
use serde::{Deserialize, Serialize};

use body::Body;

/// Run a standing workload.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_help_heading = "Workloads",
    disable_help_subcommand = true,
    after_help = "EXAMPLES\n  faultless workload chunk-pipeline\n  faultless stat -- faultless workload bursts"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    which: Option<WorkloadArg>,

    /// Omit the line of times on stderr.
    #[arg(long, global = true)]
    quiet: bool,

    /// Print checksum and times as one JSON object on stdout.
    #[arg(long, global = true)]
    json: bool,

    /// Time every touch instead of some. Each page is then filled by itself, its first bytes first.
    #[arg(long, global = true, hide = true)]
    all_touches: bool,
}

#[derive(Debug, Subcommand)]
enum WorkloadArg {
    #[command(flatten)]
    Standing(Name),
    Timed(timed::Args),
}

#[derive(Debug, Subcommand)]
enum Name {
    ChunkPipeline(pipeline::Args),
    Temporaries(temporaries::Args),
    Mixed(mixed::Args),
    /// Allocate zeroed 4 MiB blocks, 8 alive; write one line per page; check that the rest is zero.
    CallocSparse(calloc::Args),
    /// Allocate zeroed 4 MiB blocks, 8 alive; write every byte; check that they were zero.
    CallocFull(calloc::Args),
    Growth(growth::Args),
    Bursts(bursts::Args),
    IdleBursts(bursts::IdleArgs),
    ThreadChurn(churn::Args),
    TouchOnce(touch_once::Args),
}

/// Version of the JSON output. It rises when a field changes its meaning or disappears.
const SCHEMA: u32 = 1;

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    name: &'static str,
    checksum: String,
    wall_ns: u64,
    processed_bytes: u64,
    /// Minor and major faults of the body alone.
    faults: u64,
    us_per_mib: f64,
    /// Median first touch; `None` if no page was touched for the first time.
    first_touch_p50_ns: Option<f64>,
    /// Mean first touch, each counted as at most [`faultless_trace::stat::WAIT_LATENCY_RATIO`] medians.
    first_touch_mean_ns: Option<f64>,
    first_touch_samples: usize,
}

/// The part that `doctor --check` reads.
#[derive(Debug, Deserialize)]
pub(super) struct StandingTimes {
    pub(super) faults: u64,
    pub(super) first_touch_mean_ns: Option<f64>,
}

pub(crate) fn run(args: Args) -> Outcome {
    if args.all_touches {
        truth::time_all();
    }
    let name = match args.which {
        None => return emit(list().as_bytes(), ExitCode::SUCCESS),
        Some(WorkloadArg::Timed(args)) => return timed::run(&args),
        Some(WorkloadArg::Standing(name)) => name,
    };
    let (begin_ns, before) = (counters::now_ns(), counters::rusage(Who::Process)?);
    let (name, body) = run_body(name)?;
    let (wall_ns, after) = (counters::now_ns() - begin_ns, counters::rusage(Who::Process)?);
    let faults = after.minor_faults + after.major_faults - before.minor_faults - before.major_faults;
    let report = report(name, &body, wall_ns, faults);
    if args.json {
        let json = serde_json::to_string(&report)? + "\n";
        return emit(json.as_bytes(), ExitCode::SUCCESS);
    }
    if !args.quiet {
        eprintln!("{}", report.times());
    }
    let line = format!("{} checksum {}\n", report.name, report.checksum);
    emit(line.as_bytes(), ExitCode::SUCCESS)
}

fn run_body(name: Name) -> Result<(&'static str, Body), Failure> {
    Ok(match name {
        Name::ChunkPipeline(args) => ("chunk-pipeline", pipeline::run(&args)?),
        Name::Temporaries(args) => ("temporaries", temporaries::run(&args)),
        Name::Mixed(args) => ("mixed", mixed::run(&args)?),
        Name::CallocSparse(args) => ("calloc-sparse", calloc::run(&args, calloc::Fill::Sparse)?),
        Name::CallocFull(args) => ("calloc-full", calloc::run(&args, calloc::Fill::Full)?),
        Name::Growth(args) => ("growth", growth::run(&args)),
        Name::Bursts(args) => ("bursts", bursts::run(&args, 0)),
        Name::IdleBursts(args) => ("idle-bursts", bursts::run(&args.bursts, args.idle_ms)),
        Name::ThreadChurn(args) => ("thread-churn", churn::run(&args)?),
        Name::TouchOnce(args) => ("touch-once", touch_once::run(&args)),
    })
}

fn report(name: &'static str, body: &Body, wall_ns: u64, faults: u64) -> Report {
    let mib = body.processed_bytes as f64 / (1 << 20) as f64;
    let tick_ns = counters::tick_ns();
    Report {
        schema: SCHEMA,
        name,
        checksum: format!("{:016x}", body.checksum),
        wall_ns,
        processed_bytes: body.processed_bytes,
        faults,
        us_per_mib: if mib > 0.0 { wall_ns as f64 / 1e3 / mib } else { 0.0 },
        first_touch_p50_ns: body.truth.p50_ns(tick_ns),
        first_touch_mean_ns: body.truth.mean_ns(tick_ns),
        first_touch_samples: body.truth.len(),
    }
}

impl Report {
    fn times(&self) -> String {
        let touch = match self.first_touch_p50_ns {
            Some(ns) => format!(
                "first touch p50 {ns:.0} ns (tick counter, {}, resident pages excluded)",
                Count(self.first_touch_samples as u64).of("sample")
            ),
            None => "first touch: no sampled page was new".into(),
        };
        format!("{}: {:.1} ms, {:.1} us/MiB, {touch}", self.name, self.wall_ns as f64 / 1e6, self.us_per_mib)
    }
}

/// The names with one line each, from the definitions that `--help` uses.
fn list() -> String {
    let verb = <Args as clap::Args>::augment_args(clap::Command::new("workload"));
    verb.get_subcommands()
        .filter(|workload| !workload.is_hide_set())
        .map(|workload| {
            let about = workload.get_about().map(ToString::to_string).unwrap_or_default();
            format!("{:<16}{about}\n", workload.get_name())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_listed_with_a_line() {
        let list = list();
        assert_eq!(list.lines().count(), 10, "{list}");
        for line in list.lines() {
            assert!(line.len() > 20, "no description: {line}");
        }
    }

    #[test]
    fn a_missing_first_touch_is_said() {
        let body = Body::default();
        let report = report("x", &body, 1000, 7);
        assert_eq!(report.first_touch_p50_ns, None);
        assert!(report.times().contains("no sampled page was new"));
    }
}
