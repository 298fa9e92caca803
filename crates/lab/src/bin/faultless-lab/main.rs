//! `faultless-lab`: the experiments of the five documents, on this machine, with a verdict on each of their claims.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use(eprintln)]
extern crate faultless_console;

mod chart;
mod compare;
mod measure;
mod report;
mod table;

use measure::Run;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use faultless_console::pages::{self, CompletionsArgs, ManArgs};
use faultless_console::program::{self, Program, Words};
use faultless_console::sink::columns;
use faultless_console::{Failure, Outcome, conclude, emit, parse};
use faultless_lab::experiment::processors;
use faultless_lab::{Cell, Effort, Experiment, Scope, experiments, runner, trial};
use faultless_os::host::Host;

/// Run the experiments of the five documents on this machine, with a verdict on every claim.
///
/// Every sample is measured in its own process, in shuffled order. Each sample counts its page faults and
/// compares them with the expected number. The samples are kept in a folder. The same command continues an
/// interrupted run.
#[derive(Debug, Parser)]
#[command(
    name = "faultless-lab",
    bin_name = "faultless lab",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_help_heading = "Other uses",
    disable_help_subcommand = true,
    after_help = "\
EXAMPLES
  faultless lab --quick
  faultless lab touch stride -o my-machine
  faultless lab touch mib=2000 threads=1..4 --rounds 5
  faultless lab verify
  faultless lab report my-machine --charts charts
  faultless lab compare last-week my-machine -o changes.html

Exit status: 0 all counts are as expected, 1 some are not, 2 nothing could be measured, 130 interrupted."
)]
struct Args {
    #[command(subcommand)]
    action: Option<Action>,

    /// Experiments to run [default: all]; `faultless lab list` names them. Behind one experiment NAME=VALUES
    /// chooses its cells: `mib=2000 threads=1..8`, `threads=all`, `memory=own,process`.
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Take less than a minute instead of 40 minutes: small sizes, few repetitions.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Take up to five hours: large sizes, many repetitions.
    #[arg(long)]
    full: bool,
    /// Folder of the record; an existing record is resumed [default: faultless-lab-EFFORT, followed by the
    /// names of the experiments]. At the end it contains report.html.
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Measure each cell so often [default: until its intervals are narrow, as the effort allows].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Print one JSON document instead of the tables.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the experiments, their questions, and the documents behind them.
    List {
        /// Print one JSON document instead of the list.
        #[arg(long)]
        json: bool,
    },
    /// Check within seconds that every experiment takes the expected faults.
    Verify {
        /// Print one JSON document instead of the text.
        #[arg(long)]
        json: bool,
    },
    /// Make an HTML page of a record: claims, plots, tables.
    Report(report::Args),
    /// Compare two records of different machines, kernels, settings or versions.
    Compare(compare::Args),
    /// Count what a page fault costs the kernel with and without zeroed pages, in QEMU
    /// [program: faultless-kernel-lab].
    #[command(disable_help_flag = true)]
    Kernel(Words),
    Man(ManArgs),
    Completions(CompletionsArgs),
    /// Measure one cell in this process and print it.
    #[command(hide = true)]
    Cell {
        /// Experiment.
        experiment: String,
        /// Parameters, as NAME=VALUE.
        parameters: Vec<String>,
    },
}

/// The kernel lab, a workspace of its own.
const KERNEL: Program = Program {
    verb: "kernel",
    file: "faultless-kernel-lab",
    name: "faultless-kernel-lab",
    package: "kernel/lab",
};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    conclude(help(&words).unwrap_or_else(|| {
        program::start_named(&words, &[KERNEL]).and_then(|()| parse::<Args>(words)).and_then(run)
    }))
}

/// `faultless lab touch --help`: the help of an experiment.
fn help(words: &[OsString]) -> Option<Outcome> {
    let is_help = |word: &OsString| word == "--help" || word == "-h";
    let [_, name, .., last] = words else { return None };
    let (host, effort) = (Host::read(), Effort::Default);
    let scope = Scope { host: &host, processors: processors(), effort };
    let text = is_help(last).then(|| table::help(name.to_str()?, &scope, columns(None)))??;
    Some(emit(text.as_bytes(), ExitCode::SUCCESS))
}

fn run(args: Args) -> Outcome {
    match args.action {
        Some(Action::List { json }) => {
            let text = if json { table::list_json()? } else { table::list(columns(None)) };
            emit(text.as_bytes(), ExitCode::SUCCESS)
        }
        Some(Action::Verify { json }) => measure::verify(json),
        Some(Action::Report(args)) => report::run(&args),
        Some(Action::Compare(args)) => compare::run(&args),
        Some(Action::Kernel(words)) => KERNEL.start(&words),
        Some(Action::Man(args)) => man(args),
        Some(Action::Completions(args)) => {
            emit(&pages::completions(Args::command(), "faultless-lab", args.shell), ExitCode::SUCCESS)
        }
        Some(Action::Cell { experiment, parameters }) => cell(&experiment, &parameters),
        None => {
            let effort = match (args.quick, args.full) {
                (true, _) => Effort::Quick,
                (_, true) => Effort::Full,
                _ => Effort::Default,
            };
            let (parameters, names): (Vec<String>, Vec<String>) =
                args.experiments.into_iter().partition(|word| word.contains('='));
            let names = chosen(&names)?;
            let folder = args.output.unwrap_or_else(|| default_folder(&names, &parameters, effort).into());
            let (parameters, rounds, json) = (parameters.as_slice(), args.rounds, args.json);
            measure::run(Run { names, parameters, effort, rounds, folder: &folder, json })
        }
    }
}

fn man(args: ManArgs) -> Outcome {
    match args.dir {
        Some(dir) => pages::man_into(Args::command(), &dir).map(|()| ExitCode::SUCCESS),
        None => emit(&pages::man(Args::command())?, ExitCode::SUCCESS),
    }
}

/// The names of experiments and of parts, in the order of the experiments. A part of one that is named as a whole is in it.
fn chosen(names: &[String]) -> Result<Vec<&'static str>, Failure> {
    let whole = experiments::ALL.iter().map(|experiment| experiment.name());
    if names.is_empty() {
        return Ok(whole.collect());
    }
    let wanted = names.iter().map(|name| {
        let found = found(name)?;
        Ok(experiments::part(name).map_or(found.name(), |part| part.name))
    });
    let wanted = wanted.collect::<Result<Vec<_>, Failure>>()?;
    let of = |whole| {
        let parts = experiments::find(whole).map_or(&[][..], |experiment| experiment.sheet().parts);
        let parts = parts.iter().map(|part| part.name).filter(|part| wanted.contains(part));
        if wanted.contains(&whole) { vec![whole] } else { parts.collect() }
    };
    Ok(whole.flat_map(of).collect())
}

fn default_folder(names: &[&str], parameters: &[String], effort: Effort) -> String {
    let words: Vec<&str> = names.iter().copied().chain(parameters.iter().map(String::as_str)).collect();
    if words.len() == experiments::ALL.len() {
        format!("faultless-lab-{}", effort.word())
    } else {
        format!("faultless-lab-{}-{}", effort.word(), words.join("-"))
    }
}

fn found(name: &str) -> Result<&'static dyn Experiment, Failure> {
    experiments::find(name).ok_or_else(|| {
        let names: Vec<_> = experiments::names().collect();
        Failure(format!("there is no experiment {name}; there are {}", names.join(", ")))
    })
}

fn cell(experiment: &str, parameters: &[String]) -> Outcome {
    let cell = Cell::parse(experiment, parameters.iter().map(String::as_str)).map_err(measure::failure)?;
    let experiment = found(experiment)?;
    let cell = experiment.sheet().complete(&cell);
    let bytes = experiment.memory_bytes(&cell).map_err(measure::failure)?;
    if let Some(why) = runner::lacks_memory(bytes) {
        return Err(Failure(format!("{cell}: {why}")));
    }
    let sample = trial::measure(experiment, &cell);
    emit((serde_json::to_string(&sample)? + "\n").as_bytes(), ExitCode::SUCCESS)
}
